//! Gateways that were connected while the caller waits and are not any more: for a moment they may be
//! on their way to another server, or to this one after a restart.

use std::collections::BTreeMap;

use crate::view::GatewayView;

/// For how many answers of the registry a gateway that left still counts: about 20 seconds.
const ANSWERS: u32 = 40;

/// Whoever was connected, and how many answers ago.
#[derive(Debug, Default)]
pub(super) struct Leavers(BTreeMap<(String, String), (u32, GatewayView)>);

impl Leavers {
    /// Adds to those that are connected those that have just left.
    pub(super) fn complete(&mut self, connected: &mut Vec<GatewayView>) {
        for (missed, gateway) in self.0.values_mut() {
            *missed += 1;
            gateway.state = "gone";
        }
        for gateway in connected.iter() {
            let key = (gateway.gateway.clone(), gateway.principal.clone());
            self.0.insert(key, (0, gateway.clone()));
        }
        self.0.retain(|_, (missed, _)| *missed <= ANSWERS);
        let left = self.0.values().filter(|(missed, _)| *missed > 0);
        connected.extend(left.map(|(_, gateway)| gateway.clone()));
    }
}

#[cfg(test)]
mod tests {
    use registry_proto::v1;

    use super::*;

    fn gateways(names: &[&str]) -> Vec<GatewayView> {
        let status = |name: &&str| {
            let gateway = (*name).to_owned();
            GatewayView::from(v1::GatewayStatus { gateway, ..Default::default() })
        };
        names.iter().map(status).collect()
    }

    fn completed(leavers: &mut Leavers, names: &[&str]) -> String {
        let mut connected = gateways(names);
        leavers.complete(&mut connected);
        let told = connected.iter().map(|gateway| format!("{} {}", gateway.gateway, gateway.state));
        told.collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn who_left_counts_for_a_while() {
        let mut leavers = Leavers::default();
        assert_eq!(completed(&mut leavers, &["a", "b"]), "a connected, b connected");
        for _ in 0..ANSWERS {
            assert_eq!(completed(&mut leavers, &["b"]), "b connected, a gone");
        }
        assert_eq!(completed(&mut leavers, &["b"]), "b connected");
    }

    #[test]
    fn who_comes_back_counts_once() {
        let mut leavers = Leavers::default();
        completed(&mut leavers, &["a"]);
        assert_eq!(completed(&mut leavers, &[]), "a gone");
        assert_eq!(completed(&mut leavers, &["a"]), "a connected");
    }
}

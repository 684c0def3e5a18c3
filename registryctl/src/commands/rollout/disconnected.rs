//! Gateways that disconnected during a wait. They may be reconnecting, to this server or another one.

use std::collections::BTreeMap;

use crate::view::GatewayView;

/// A disconnected gateway still counts for this number of polls, about 20 seconds.
const POLLS: u32 = 40;

/// Gateways with the number of polls since they were connected.
#[derive(Debug, Default)]
pub(super) struct RecentlyDisconnected(BTreeMap<(String, String), (u32, GatewayView)>);

impl RecentlyDisconnected {
    /// Adds recently disconnected gateways to the connected ones.
    pub(super) fn update(&mut self, connected: &mut Vec<GatewayView>) {
        for (missed, gateway) in self.0.values_mut() {
            *missed += 1;
            gateway.state = "gone";
        }
        for gateway in connected.iter() {
            let key = (gateway.gateway.clone(), gateway.principal.clone());
            self.0.insert(key, (0, gateway.clone()));
        }
        self.0.retain(|_, (missed, _)| *missed <= POLLS);
        let left = self.0.values().filter(|(missed, _)| *missed > 0);
        connected.extend(left.map(|(_, gateway)| gateway.clone()));
    }
}

#[cfg(test)]
mod tests {
    use registry_proto::v1;

    use super::*;

    fn views(names: &[&str]) -> Vec<GatewayView> {
        let status = |name: &&str| {
            let gateway = (*name).to_owned();
            GatewayView::from(v1::GatewayStatus { gateway, ..Default::default() })
        };
        names.iter().map(status).collect()
    }

    fn updated(gateways: &mut RecentlyDisconnected, names: &[&str]) -> String {
        let mut connected = views(names);
        gateways.update(&mut connected);
        let texts =
            connected.iter().map(|gateway| format!("{} {}", gateway.gateway, gateway.state));
        texts.collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn disconnected_gateways_count_for_a_while() {
        let mut gateways = RecentlyDisconnected::default();
        assert_eq!(updated(&mut gateways, &["a", "b"]), "a connected, b connected");
        for _ in 0..POLLS {
            assert_eq!(updated(&mut gateways, &["b"]), "b connected, a gone");
        }
        assert_eq!(updated(&mut gateways, &["b"]), "b connected");
    }

    #[test]
    fn reconnected_gateways_count_once() {
        let mut gateways = RecentlyDisconnected::default();
        updated(&mut gateways, &["a"]);
        assert_eq!(updated(&mut gateways, &[]), "a gone");
        assert_eq!(updated(&mut gateways, &["a"]), "a connected");
    }
}

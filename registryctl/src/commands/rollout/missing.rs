//! Gateways that lost their connection recently and have not applied a revision. They may still
//! serve calls with an earlier catalog.

use std::time::Duration;

use registry_core::Timestamp;
use registry_proto::v1;

use crate::{client::Client, clock, commands::fleet, failure::Failure, view::GatewayView};

/// A gateway that was not seen for longer counts as removed.
const RECENTLY: Duration = Duration::from_hours(1);

/// Lists the gateways that have not applied a revision.
pub(super) async fn fetch(client: &Client, revision: u64) -> Result<Vec<GatewayView>, Failure> {
    let wanted = v1::ListGatewaysRequest {
        state: v1::GatewayState::Disconnected.into(),
        behind_revision: revision,
        ..Default::default()
    };
    let mut gateways = fleet::fetch(client, wanted).await?.gateways;
    let now = clock::timestamp();
    gateways.retain(|gateway| is_recent(gateway, now));
    Ok(gateways)
}

fn is_recent(gateway: &GatewayView, now: Timestamp) -> bool {
    let seen = gateway.last_seen_at.as_deref().and_then(|text| Timestamp::parse(text).ok());
    seen.is_none_or(|seen| now.since(seen) <= RECENTLY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gateway_is_recent_for_an_hour() {
        let last_seen_time = Some(prost_types::Timestamp { seconds: 10, nanos: 0 });
        let gateway = GatewayView::from(v1::GatewayStatus { last_seen_time, ..Default::default() });
        let at = |seconds: i64| is_recent(&gateway, Timestamp::from_millis(seconds * 1_000));
        assert_eq!([at(0), at(3_610), at(3_611)], [true, true, false]);
    }
}

//! `ListGateways` of the `SyncService`.

use std::time::Duration;

use registry_core::Revision;
use registry_proto::{convert, v1};
use tonic::{Response, Status};

use super::invalid::{self, GATEWAY_BYTES, InvalidRequest, field};
use crate::{
    app::{
        App,
        gateways::{Gateway, Listing, Wanted},
    },
    store::{GatewayRecord, Presence},
};

pub(super) async fn list(
    app: &App,
    mut request: v1::ListGatewaysRequest,
) -> Result<Response<v1::ListGatewaysResponse>, Status> {
    let page = page_request!("ListGateways", request);
    let v1::ListGatewaysRequest { state, name_prefix, behind_revision, .. } = request;
    let wanted = Wanted {
        presence: read_state(state)?,
        prefix: invalid::line("name_prefix", name_prefix, GATEWAY_BYTES)?,
        behind: (behind_revision > 0).then_some(Revision(behind_revision)),
    };
    let listing = app.gateways.list(wanted, &page).await?;
    let Listing { page, head, is_live_only } = listing;
    Ok(Response::new(v1::ListGatewaysResponse {
        gateways: page.items.into_iter().map(encode).collect(),
        revision: head.0,
        next_page_token: page.next_page_token,
        local_only: is_live_only,
    }))
}

fn read_state(number: i32) -> Result<Option<Presence>, InvalidRequest> {
    match v1::GatewayState::try_from(number) {
        Ok(v1::GatewayState::Unspecified) => Ok(None),
        Ok(v1::GatewayState::Connected) => Ok(Some(Presence::Connected)),
        Ok(v1::GatewayState::Disconnected) => Ok(Some(Presence::Disconnected)),
        Err(_) => Err(field("state", &format!("{number} is not a known state"))),
    }
}

fn encode(Gateway { known, lag, lag_millis }: Gateway) -> v1::GatewayStatus {
    let GatewayRecord { gateway, principal, version, address, scope, server, .. } = known;
    let state = match known.presence {
        Presence::Connected => v1::GatewayState::Connected,
        Presence::Disconnected => v1::GatewayState::Disconnected,
    };
    let (cache_state, cache_problem) = convert::cache_state_fields(known.cache);
    v1::GatewayStatus {
        gateway,
        gateway_version: version,
        address,
        connect_time: Some(convert::timestamp(known.connected_at)),
        sent_revision: known.sent.0,
        applied_revision: known.applied.0,
        persisted_revision: known.persisted.0,
        lag_revisions: lag,
        last_nack: known.nack.as_ref().map(v1::Nack::from),
        principal,
        state: state.into(),
        last_seen_time: Some(convert::timestamp(known.seen_at)),
        server,
        scope,
        lag_duration: lag_millis.map(|millis| convert::duration(Duration::from_millis(millis))),
        cache_state,
        cache_problem,
    }
}

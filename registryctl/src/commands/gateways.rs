//! `gateways`: who follows the registry, and how far each of them is.
//!
//! Deliberately absent: the followers of other servers of the same registry.

use registry_proto::v1;

use super::Session;
use crate::{
    cli::Format,
    client::request,
    failure::Failure,
    screen::TextTable,
    style::Paint,
    view::{GatewayView, RefusalView},
};

pub(super) async fn run(session: &Session) -> Result<(), Failure> {
    let client = session.connect().await?;
    let call = request(v1::ListGatewaysRequest {});
    let response = client.answer(client.sync().list_gateways(call)).await?;
    let gateways: Vec<_> = response.gateways.into_iter().map(GatewayView::from).collect();
    if session.screen.format == Format::Json {
        return session.screen.json(&gateways);
    }
    let mut table = TextTable::new(&[
        "GATEWAY",
        "VERSION",
        "PRINCIPAL",
        "ADDRESS",
        "CONNECTED",
        "APPLIED",
        "ON DISK",
        "LAG",
        "REFUSED",
    ]);
    for gateway in &gateways {
        let refused = gateway
            .refusal
            .as_ref()
            .map(|RefusalView { revision, message }| format!("revision {revision}: {message}"));
        let cells = [
            gateway.gateway.clone(),
            gateway.gateway_version.clone(),
            gateway.principal.clone(),
            gateway.address.clone(),
            gateway.connected_at.clone().unwrap_or_default(),
            gateway.applied_revision.to_string(),
            gateway.persisted_revision.to_string(),
            gateway.lag.to_string(),
            refused.clone().unwrap_or_default(),
        ];
        match refused {
            Some(_) => table.painted(Paint::Bad, cells),
            None => table.row(cells),
        }
    }
    session.screen.table(&table)?;
    let head = format!("the registry is at revision {}", response.revision);
    session.screen.line(&session.screen.style.paint(Paint::Dim, head))
}

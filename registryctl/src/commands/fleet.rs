//! `fleet list`: the gateways that follow the registry or have followed it.

use registry_proto::v1;

use super::Session;
use crate::{
    cli::{FleetListArgs, Format},
    client::{Client, request},
    failure::Failure,
    screen::TextTable,
    style::Paint,
    view::{GatewayView, span},
};

/// Page size of gateways.
const PAGE_SIZE: i32 = 1_000;

pub(super) struct Fleet {
    pub(super) gateways: Vec<GatewayView>,
    /// The current revision of the registry.
    pub(super) revision: u64,
    /// Whether the list is limited to the followers of one server.
    pub(super) is_live_only: bool,
}

pub(super) async fn run(session: &Session, args: FleetListArgs) -> Result<(), Failure> {
    let client = session.connect().await?;
    let wanted = v1::ListGatewaysRequest {
        state: args.state().into(),
        behind_revision: args.behind,
        name_prefix: args.prefix,
        ..Default::default()
    };
    let Fleet { gateways, revision, is_live_only } = fetch(&client, wanted).await?;
    if is_live_only {
        warn_of_live_only();
    }
    if session.screen.format == Format::Json {
        return session.screen.json(&gateways);
    }
    session.screen.table(&table(&gateways))?;
    let head = format!("the registry is at revision {revision}");
    session.screen.line(&session.screen.style.paint(Paint::Dim, head))
}

/// Warns that the list is limited to the followers of one server.
pub(super) fn warn_of_live_only() {
    eprintln!(
        "warning: the registry cannot read its database; only followers of one server are listed"
    );
}

/// Reads all pages.
pub(super) async fn fetch(
    client: &Client,
    mut wanted: v1::ListGatewaysRequest,
) -> Result<Fleet, Failure> {
    wanted.page_size = PAGE_SIZE;
    let mut fleet = Fleet { gateways: Vec::new(), revision: 0, is_live_only: false };
    loop {
        let page = client.answer(client.sync().list_gateways(request(wanted.clone()))).await?;
        fleet.gateways.extend(page.gateways.into_iter().map(GatewayView::from));
        fleet.is_live_only |= page.local_only;
        if page.next_page_token.is_empty() {
            return Ok(Fleet { revision: page.revision, ..fleet });
        }
        wanted.page_token = page.next_page_token;
    }
}

fn table(gateways: &[GatewayView]) -> TextTable {
    let mut table = TextTable::new(&[
        "GATEWAY",
        "STATE",
        "LAST SEEN",
        "VERSION",
        "PRINCIPAL",
        "ADDRESS",
        "SERVER",
        "SCOPE",
        "APPLIED",
        "ON DISK",
        "LAG",
        "BEHIND",
        "CACHE",
        "REJECTED",
    ]);
    for gateway in gateways {
        let cache = [gateway.cache_state, &gateway.cache_problem].join(" ");
        let rejection = gateway.rejection.as_ref();
        let cells = [
            gateway.name().to_owned(),
            gateway.state.to_owned(),
            gateway.last_seen_at.clone().unwrap_or_default(),
            gateway.gateway_version.clone(),
            gateway.principal.clone(),
            gateway.address.clone(),
            gateway.server.clone(),
            gateway.scope.clone(),
            gateway.applied_revision.to_string(),
            gateway.persisted_revision.to_string(),
            gateway.lag.to_string(),
            gateway.lag_seconds.map_or_else(|| "?".to_owned(), span),
            cache.trim_end().to_owned(),
            rejection.map(ToString::to_string).unwrap_or_default(),
        ];
        match gateway {
            GatewayView { state: "gone", .. } => table.painted(Paint::Dim, cells),
            GatewayView { rejection: Some(_), .. } | GatewayView { cache_state: "failing", .. } => {
                table.painted(Paint::Bad, cells);
            }
            _ => table.row(cells),
        }
    }
    table
}

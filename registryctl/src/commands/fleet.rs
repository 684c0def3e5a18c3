//! `gateways`: who follows the registry, who has followed it, and how far each of them is.

use registry_proto::v1;

use super::Session;
use crate::{
    cli::{Format, GatewaysArgs},
    client::{Client, request},
    failure::Failure,
    screen::TextTable,
    style::Paint,
    view::{GatewayView, span},
};

/// Most gateways a page.
const PAGE_SIZE: u32 = 1_000;

/// What the registry knows of its gateways.
pub(super) struct Fleet {
    pub(super) gateways: Vec<GatewayView>,
    /// The head of the log.
    pub(super) revision: u64,
    /// Whether others may be missing.
    pub(super) is_live_only: bool,
}

pub(super) async fn run(session: &Session, args: GatewaysArgs) -> Result<(), Failure> {
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

/// Says that others may be missing.
pub(super) fn warn_of_live_only() {
    eprintln!(
        "warning: the registry cannot read its database; these are the followers of one server"
    );
}

/// Reads pages of gateways until there are no more.
pub(super) async fn fetch(
    client: &Client,
    mut wanted: v1::ListGatewaysRequest,
) -> Result<Fleet, Failure> {
    wanted.page_size = PAGE_SIZE;
    let mut fleet = Fleet { gateways: Vec::new(), revision: 0, is_live_only: false };
    loop {
        let page = client.answer(client.sync().list_gateways(request(wanted.clone()))).await?;
        fleet.gateways.extend(page.gateways.into_iter().map(GatewayView::from));
        fleet.is_live_only |= page.live_only;
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
        "SEEN",
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
        "REFUSED",
    ]);
    for gateway in gateways {
        let cache = [gateway.cache_state, &gateway.cache_problem].join(" ");
        let refused = gateway.refusal.as_ref();
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
            refused.map(ToString::to_string).unwrap_or_default(),
        ];
        match gateway {
            GatewayView { state: "gone", .. } => table.painted(Paint::Dim, cells),
            GatewayView { refusal: Some(_), .. } | GatewayView { cache_state: "failing", .. } => {
                table.painted(Paint::Bad, cells);
            }
            _ => table.row(cells),
        }
    }
    table
}

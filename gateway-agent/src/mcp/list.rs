//! Answers to `tools/list`.

use super::{Endpoint, Rejection, incoming::Incoming, requester::Requester};
use crate::{
    audit,
    mcp::render::{self, http::SizedResponse},
    view::{Cursor, Form},
};

/// A page, and the fingerprint of the whole list.
pub(super) struct Listed {
    pub(super) answer: SizedResponse,
    pub(super) fingerprint: u64,
}

pub(super) fn serve(
    endpoint: &Endpoint,
    incoming: &Incoming<'_>,
    requester: &Requester,
) -> Result<Listed, Rejection> {
    let gateway = &endpoint.gateway;
    let cursor = match incoming.param("cursor").filter(|raw| raw.get() != "null") {
        Some(_) => Some(Cursor::parse(&incoming.text("cursor").unwrap_or_default())?),
        None => None,
    };
    let snapshot = gateway.views().now();
    if !snapshot.has_catalog() {
        return Err(Rejection::NoCatalog);
    }
    let caller =
        gateway.identify(&snapshot, &requester.caller.claim, requester.caller.client.clone());
    let view = gateway.view(&snapshot, &caller);
    let view = view.at(gateway.staleness().check().level);
    audit::count_list(requester.era);
    let form = if requester.takes_tasks { Form::LegacyTasks } else { requester.era.into() };
    let page = view.list(cursor.as_ref(), form);
    let answer = render::result::listing(incoming.id, requester.era, page);
    Ok(Listed { answer, fingerprint: view.fingerprint() })
}


use super::{Endpoint, Rejection, incoming::Incoming, manner::Who};
use crate::{
    audit,
    mcp::render::{self, http::Answer},
    view::{Cursor, Form},
};

/// A page, and the fingerprint of the whole list.
pub(super) struct Listed {
    pub(super) answer: Answer,
    pub(super) fingerprint: u64,
}

pub(super) fn serve(
    endpoint: &Endpoint,
    incoming: &Incoming<'_>,
    who: &Who,
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
    let caller = gateway.identify(&snapshot, &who.caller.claim, who.caller.client.clone());
    let view = gateway.view(&snapshot, &caller);
    let view = view.at(gateway.watchman().look().verdict);
    audit::count_list(who.era);
    let form = if who.takes_tasks { Form::LegacyTasks } else { who.era.into() };
    let page = view.list(cursor.as_ref(), form);
    let answer = render::result::listing(incoming.id, who.era, page);
    Ok(Listed { answer, fingerprint: view.fingerprint() })
}

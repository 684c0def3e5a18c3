//! Pages of lists of prompts and resources.

use std::sync::Arc;

use gateway_protocol::naming::Interfaces;
use serde_json::value::RawValue;

use super::{List, entries::FeatureList};
use crate::{
    ingress::IngressError,
    mcp::{
        Endpoint, Rejection,
        incoming::Incoming,
        render::{self, http::SizedResponse},
        requester::Requester,
    },
    view::{
        pages::{decode_cursor, encode_cursor},
        visible_servers::VisibleServers,
    },
};

/// Maximum entries per page.
const PAGE: usize = 500;

/// A request for a page of a list.
pub(super) struct Listing<'a> {
    pub(super) endpoint: &'a Arc<Endpoint>,
    pub(super) incoming: &'a Incoming<'a>,
    pub(super) requester: &'a Requester,
    pub(super) list: List,
}

impl Listing<'_> {
    /// The page after the cursor of the request.
    pub(super) async fn page(
        &self,
        visible_servers: &VisibleServers,
        interfaces: &Interfaces,
    ) -> Result<SizedResponse, Rejection> {
        let Self { endpoint, incoming, requester, list } = *self;
        let name = match list {
            List::Prompts => "prompts",
            List::Resources => "resources",
            List::Templates => "resourceTemplates",
        };
        let features = FeatureList {
            gateway: &endpoint.gateway,
            caller: &requester.caller,
            buffered: incoming.buffered(),
            list,
        };
        let all = features.entries(visible_servers.iter(), interfaces);
        let cursor = match incoming.param("cursor").filter(|raw| raw.get() != "null") {
            Some(_) => Some(decode_cursor(&incoming.text("cursor").unwrap_or_default())?),
            None => None,
        };
        let is_after = |known: &str| cursor.as_deref().is_none_or(|cursor| known > cursor);
        let mut rest = all.into_iter().filter(|(known, _)| is_after(known));
        let page: Vec<_> = rest.by_ref().take(PAGE).collect();
        let next = rest.next().and(page.last()).map(|(last, _)| encode_cursor(last));
        let page: Vec<_> = page.into_iter().map(|(_, entry)| entry).collect();
        let page = features.inspected(page).await.map_err(IngressError::Buffers)?;
        let page: Vec<&RawValue> = page.iter().map(|raw| &**raw).collect();
        incoming.reserve(page.iter().map(|raw| raw.get().len() + 1).sum())?;
        Ok(render::result::entries(incoming.id, requester.era, (name, &page, next)))
    }
}

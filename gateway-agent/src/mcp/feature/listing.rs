//! Lists of prompts and resources.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use gateway_protocol::{
    jsonrpc::Object,
    naming::{self, Interfaces},
};
use gateway_upstream::renamed;
use policy::{Direction, ResourceKind};
use registry_core::entity::Exposure;
use serde_json::value::RawValue;

use super::List;
use crate::{
    ingress::IngressError,
    inspection::{Form, Inspected, Inspection, InspectionLog},
    mcp::{
        Endpoint, Rejection,
        incoming::Incoming,
        render::{self, http::SizedResponse},
        requester::Requester,
    },
    pipeline::InspectionThread,
    view::{
        pages::{decode_cursor, encode_cursor},
        visible_servers::{VisibleServer, VisibleServers},
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

/// An entry of a list.
struct Entry<'a> {
    visible: &'a VisibleServer,
    /// The name in the list of the server.
    listed: &'a str,
    raw: Cow<'a, RawValue>,
}

impl Listing<'_> {
    /// The page after the cursor of the request.
    pub(super) async fn page(
        &self,
        visible_servers: &VisibleServers,
        interfaces: &Interfaces,
    ) -> Result<SizedResponse, Rejection> {
        let Self { incoming, .. } = *self;
        let name = match self.list {
            List::Prompts => "prompts",
            List::Resources => "resources",
            List::Templates => "resourceTemplates",
        };
        let all = self.entries(visible_servers, interfaces);
        let cursor = match incoming.param("cursor").filter(|raw| raw.get() != "null") {
            Some(_) => Some(decode_cursor(&incoming.text("cursor").unwrap_or_default())?),
            None => None,
        };
        let is_after = |known: &str| cursor.as_deref().is_none_or(|cursor| known > cursor);
        let mut rest = all.into_iter().filter(|(known, _)| is_after(known));
        let page: Vec<_> = rest.by_ref().take(PAGE).collect();
        let next = rest.next().and(page.last()).map(|(last, _)| encode_cursor(last));
        let page: Vec<_> = page.into_iter().map(|(_, entry)| entry).collect();
        let page = self.inspected(page).await?;
        let page: Vec<&RawValue> = page.iter().map(|raw| &**raw).collect();
        incoming.reserve(page.iter().map(|raw| raw.get().len() + 1).sum())?;
        Ok(render::result::entries(incoming.id, self.requester.era, (name, &page, next)))
    }

    /// All entries under the callers' names.
    fn entries<'v>(
        &self,
        visible_servers: &'v VisibleServers,
        interfaces: &'v Interfaces,
    ) -> BTreeMap<Cow<'v, str>, Entry<'v>> {
        let needed = match self.list {
            List::Prompts => Exposure::Prompts,
            List::Resources | List::Templates => Exposure::Resources,
        };
        let mut all = BTreeMap::new();
        let exposing = || visible_servers.iter().filter(|visible| visible.exposes(needed));
        for visible in exposing() {
            let entry = |(listed, raw): (&'v str, &'v RawValue)| {
                (Cow::Borrowed(listed), Entry { visible, listed, raw: Cow::Borrowed(raw) })
            };
            match self.list {
                List::Prompts => all.extend(visible.prompts().map(entry)),
                List::Resources => {
                    let own = visible.resources();
                    all.extend(own.filter(|(uri, _)| !naming::is_interface(uri)).map(entry));
                }
                List::Templates => all.extend(visible.templates().map(entry)),
            }
        }
        if self.list == List::Resources {
            all.extend(exposing().flat_map(|visible| apps(visible, interfaces)));
        }
        all
    }

    /// The entries as the policies about their prompts or resources allow. Blocked ones are omitted.
    async fn inspected<'v>(
        &self,
        entries: Vec<Entry<'v>>,
    ) -> Result<Vec<Cow<'v, RawValue>>, Rejection> {
        let (kind, id) = match self.list {
            List::Prompts => (ResourceKind::Prompt, "name"),
            List::Resources => (ResourceKind::Resource, "uri"),
            List::Templates => (ResourceKind::Resource, "uriTemplate"),
        };
        let gateway = &self.endpoint.gateway;
        let owner = gateway.principal(&self.requester.caller.claim);
        let mut bytes = 0;
        let text = |Entry { visible, listed, raw }: &Entry<'_>| {
            let rules = visible.inspection(kind, listed)?;
            let inspection = gateway.inspections().of(&rules, Direction::Results, &owner)?;
            bytes += raw.get().len();
            Some((inspection, (**raw).to_owned()))
        };
        let texts: Vec<_> = entries.iter().map(text).collect();
        let inspect = move || {
            let allowed = |text: Option<(Inspection, Box<RawValue>)>| {
                text.map_or(Allowed::AsItIs, |(inspection, raw)| allowed(&inspection, &raw, id))
            };
            texts.into_iter().map(allowed).collect::<Vec<_>>()
        };
        let thread = InspectionThread::with(gateway, self.incoming.buffered());
        let inspected = thread.run(bytes, inspect).await.map_err(IngressError::Buffers)?;
        let shown = |(entry, allowed): (Entry<'v>, Allowed)| match allowed {
            Allowed::AsItIs => Some(entry.raw),
            Allowed::Changed(raw) => Some(Cow::Owned(raw)),
            Allowed::Omitted => None,
        };
        Ok(entries.into_iter().zip(inspected).filter_map(shown).collect())
    }
}

/// An entry after its inspection.
enum Allowed {
    AsItIs,
    Changed(Box<RawValue>),
    Omitted,
}

/// Inspects an entry. `id`: the member that requests repeat. A changed one would be useless.
fn allowed(inspection: &Inspection, raw: &RawValue, id: &str) -> Allowed {
    let Inspected { changed, violation, actions, .. } = inspection.json(raw.get(), Form::Part(""));
    InspectionLog::default().add(&actions);
    let changed = match (violation, changed) {
        (Some(_), _) => return Allowed::Omitted,
        (None, None) => return Allowed::AsItIs,
        (None, Some(changed)) => RawValue::from_string(changed.text),
    };
    let id_of = |raw: &RawValue| Some(Object::parse(raw).ok()?.find(id)?.get().to_owned());
    match changed {
        Ok(changed) if id_of(&changed) == id_of(raw) => Allowed::Changed(changed),
        _ => Allowed::Omitted,
    }
}

/// The MCP Apps interfaces of a server, under the callers' URIs.
fn apps<'a>(
    visible: &'a VisibleServer,
    interfaces: &'a Interfaces,
) -> impl Iterator<Item = (Cow<'a, str>, Entry<'a>)> {
    let own = visible.resources().filter(|(uri, _)| naming::is_interface(uri));
    own.filter_map(|(listed, raw)| {
        let known = interfaces.known(&visible.prefix, listed)?;
        if known == listed {
            return Some((known, Entry { visible, listed, raw: Cow::Borrowed(raw) }));
        }
        let renamed = renamed(&Object::parse(raw).ok()?, "uri", &known)?;
        Some((known, Entry { visible, listed, raw: Cow::Owned(renamed) }))
    })
}

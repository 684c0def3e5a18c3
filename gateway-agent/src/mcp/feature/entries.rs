//! The entries of lists of prompts and resources that a caller can see.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use gateway_policy::{BufferReservation, QuotaExceeded};
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
    identity::authenticator::Authentication,
    inspection::{Form, Inspected, Inspection, InspectionLog},
    pipeline::{Gateway, InspectionThread},
    view::visible_servers::VisibleServer,
};

/// A list for one caller.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FeatureList<'a> {
    pub(crate) gateway: &'a Gateway,
    pub(crate) caller: &'a Authentication,
    /// The memory of the request.
    pub(crate) buffered: Option<&'a Arc<BufferReservation>>,
    pub(crate) list: List,
}

/// An entry of a list.
#[derive(Debug)]
pub(super) struct Entry<'a> {
    visible: &'a VisibleServer,
    /// The name in the list of the server.
    listed: &'a str,
    raw: Cow<'a, RawValue>,
}

impl FeatureList<'_> {
    /// The entries of one server, as the policies about them allow.
    pub(crate) async fn of_server<'v>(
        &self,
        server: &'v VisibleServer,
        interfaces: &'v Interfaces,
    ) -> Result<Vec<Cow<'v, RawValue>>, QuotaExceeded> {
        let entries = self.entries([server], interfaces);
        self.inspected(entries.into_values().collect()).await
    }

    /// All entries under the callers' names.
    pub(super) fn entries<'v>(
        &self,
        servers: impl IntoIterator<Item = &'v VisibleServer>,
        interfaces: &'v Interfaces,
    ) -> BTreeMap<Cow<'v, str>, Entry<'v>> {
        let needed = match self.list {
            List::Prompts => Exposure::Prompts,
            List::Resources | List::Templates => Exposure::Resources,
        };
        let exposing = servers.into_iter().filter(|visible| visible.exposes(needed));
        let exposing: Vec<_> = exposing.collect();
        let mut all = BTreeMap::new();
        for visible in exposing.iter().copied() {
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
            all.extend(exposing.into_iter().flat_map(|visible| apps(visible, interfaces)));
        }
        all
    }

    /// The entries as the policies about their prompts or resources allow. Blocked ones are omitted.
    pub(super) async fn inspected<'v>(
        &self,
        entries: Vec<Entry<'v>>,
    ) -> Result<Vec<Cow<'v, RawValue>>, QuotaExceeded> {
        let (kind, id) = match self.list {
            List::Prompts => (ResourceKind::Prompt, "name"),
            List::Resources => (ResourceKind::Resource, "uri"),
            List::Templates => (ResourceKind::Resource, "uriTemplate"),
        };
        let Self { gateway, caller, buffered, .. } = *self;
        let owner = gateway.principal(&caller.claim);
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
        let inspected = InspectionThread::with(gateway, buffered).run(bytes, inspect).await?;
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

//! Prompts and resources of a caller's servers. A caller with a tool of a server sees the features
//! that the registration exposes, unless the target's configuration overrides that.
//!
//! Versions of one server share a prefix; the newest one that the caller can use is visible.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use gateway_protocol::naming::{self, Prefix};
use gateway_upstream::{FeatureEntries, FeatureExposure, Features, TargetId};
use policy::{Called, InspectionRules, ResourceKind};
use registry_core::{Entity, Key, entity::Exposure};
use serde_json::value::RawValue;

use super::{Snapshot, View};
use crate::governance::Governance;

/// A server that is visible to a caller.
#[derive(Debug, Clone)]
pub struct VisibleServer {
    /// The registered server.
    pub server: Key,
    /// Its target.
    pub target: TargetId,
    /// The prefix of its names.
    pub prefix: Prefix,
    /// The listed prompts and resources.
    pub features: Arc<Features>,
    exposes: Vec<Exposure>,
    agent: Option<Key>,
    governance: Option<Arc<Governance>>,
}

impl VisibleServer {
    /// Whether callers see a kind of features.
    pub fn exposes(&self, what: Exposure) -> bool {
        self.exposes.contains(&what)
    }

    /// The inspection of a prompt or resource with this name in the list. `None`: nothing is inspected.
    pub fn inspection(&self, kind: ResourceKind, known: &str) -> Option<Arc<InspectionRules>> {
        let governance = self.governance.as_ref().filter(|governance| governance.inspects())?;
        let own = match kind {
            ResourceKind::Prompt => naming::prompt(known).1.into(),
            _ => own_uri(known),
        };
        let called = Called::Feature(kind, &self.server, &own);
        governance.applicable_policies(self.agent.as_ref(), called)?.inspection().cloned()
    }

    /// The prompts, without those that policies hide from the caller.
    pub fn prompts(&self) -> impl Iterator<Item = (&str, &RawValue)> {
        let entries = self.features.prompts();
        self.listed(ResourceKind::Prompt, entries, |known| naming::prompt(known).1.into())
    }

    /// The resources, without those that policies hide from the caller.
    pub fn resources(&self) -> impl Iterator<Item = (&str, &RawValue)> {
        self.listed(ResourceKind::Resource, self.features.resources(), own_uri)
    }

    /// The resource templates, without those that policies hide from the caller.
    pub fn templates(&self) -> impl Iterator<Item = (&str, &RawValue)> {
        self.listed(ResourceKind::Resource, self.features.templates(), |known| naming::uri(known).1)
    }

    /// `own` is the server's name of an entry.
    fn listed<'a>(
        &'a self,
        kind: ResourceKind,
        entries: &'a FeatureEntries,
        own: impl Fn(&'a str) -> Cow<'a, str>,
    ) -> impl Iterator<Item = (&'a str, &'a RawValue)> {
        let is_hidden = move |known: &'a str| {
            let Some(governance) = &self.governance else { return false };
            let own = own(known);
            let called = Called::Feature(kind, &self.server, &own);
            let policies = governance.applicable_policies(self.agent.as_ref(), called);
            policies.is_some_and(|policies| policies.hidden(called.action()).is_some())
        };
        let entries = entries.iter().map(|(known, raw)| (&**known, &**raw));
        entries.filter(move |(known, _)| !is_hidden(known))
    }
}

/// The server's URI of a listed resource.
fn own_uri(known: &str) -> Cow<'_, str> {
    if naming::is_interface(known) { known.into() } else { naming::uri(known).1 }
}

/// The visible servers by prefix.
#[derive(Debug, Default)]
pub struct VisibleServers(BTreeMap<Box<str>, VisibleServer>);

impl VisibleServers {
    /// The visible servers of a view of an agent, or of callers without an agent's identity.
    pub fn new(
        snapshot: &Snapshot,
        (view, agent): (&View, Option<&Key>),
        exposure_settings: impl Fn(&Key) -> Option<FeatureExposure>,
    ) -> Self {
        let mut all: BTreeMap<Box<str>, VisibleServer> = BTreeMap::new();
        for served in view.served_tools() {
            let Some(server) = served.server() else { continue };
            let Some(exposure_settings) = exposure_settings(server) else { continue };
            if all
                .get(exposure_settings.prefix.as_str())
                .is_some_and(|known| known.server >= *server)
            {
                continue;
            }
            let Some(visible) = visible(snapshot, (server, agent), exposure_settings) else {
                continue;
            };
            all.insert(visible.prefix.as_str().into(), visible);
        }
        Self(all)
    }

    /// Finds the server of a prefix.
    pub fn find(&self, prefix: &str) -> Option<&VisibleServer> {
        self.0.get(prefix)
    }

    /// All servers, sorted by prefix.
    pub fn iter(&self) -> impl Iterator<Item = &VisibleServer> {
        self.0.values()
    }
}

/// The exposed features of a server. `None` if it is not registered.
pub fn exposures(
    snapshot: &Snapshot,
    server: &Key,
    configured: Option<Vec<Exposure>>,
) -> Option<Vec<Exposure>> {
    let record = snapshot.catalog.find(server)?;
    let Entity::Server(document) = record.document.entity() else { return None };
    Some(configured.unwrap_or_else(|| document.exposes.clone()))
}

fn visible(
    snapshot: &Snapshot,
    (server, agent): (&Key, Option<&Key>),
    exposure_settings: FeatureExposure,
) -> Option<VisibleServer> {
    let target = snapshot.definitions.route(server)?.target;
    // Neither a server that was never reached nor a stopped one has features.
    let is_stopped = snapshot.definitions.is_stopped(server);
    let features = snapshot.definitions.features(server).filter(|_| !is_stopped);
    let features = features.cloned().unwrap_or_default();
    let exposes = exposures(snapshot, server, exposure_settings.exposes)?;
    Some(VisibleServer {
        server: server.clone(),
        target,
        prefix: exposure_settings.prefix,
        features,
        exposes,
        agent: agent.cloned(),
        governance: snapshot.governance.clone(),
    })
}

//! Prompts and resources of a caller's servers. A caller with a tool of a server sees the features
//! that the registration exposes, unless the target's configuration overrides that.
//!
//! Versions of one server share a prefix; the newest one that the caller can use is visible.
//! tools.

use std::{collections::BTreeMap, sync::Arc};

use gateway_protocol::naming::Prefix;
use gateway_upstream::{FeatureExposure, Features, TargetId};
use registry_core::{Entity, Key, entity::Exposure};

use super::{Snapshot, View};

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
}

impl VisibleServer {
    /// Whether callers see a kind of features.
    pub fn exposes(&self, what: Exposure) -> bool {
        self.exposes.contains(&what)
    }
}

/// The visible servers by prefix.
#[derive(Debug, Default)]
pub struct VisibleServers(BTreeMap<Box<str>, VisibleServer>);

impl VisibleServers {
    /// The visible servers of a view.
    pub fn new(
        snapshot: &Snapshot,
        view: &View,
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
            let Some(visible) = visible(snapshot, server, exposure_settings) else { continue };
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
    server: &Key,
    exposure_settings: FeatureExposure,
) -> Option<VisibleServer> {
    let target = snapshot.definitions.route(server)?.target;
    // A server that was never reached has no features yet.
    let features = snapshot.definitions.features(server).cloned().unwrap_or_default();
    let exposes = exposures(snapshot, server, exposure_settings.exposes)?;
    Some(VisibleServer {
        server: server.clone(),
        target,
        prefix: exposure_settings.prefix,
        features,
        exposes,
    })
}

//! Prompts and resources of a caller's servers. A caller with a tool of a server sees the features
//! that the registration exposes, unless the target's configuration overrides that.
//!
//! Versions of one server share a prefix; the newest one that the caller can use is visible.
//! tools.

use std::{collections::BTreeMap, sync::Arc};

use gateway_protocol::naming::Prefix;
use gateway_upstream::{Features, Showing, TargetId};
use registry_core::{Entity, Key, entity::Exposure};

use super::{Snapshot, View};

/// A server that is visible to a caller.
#[derive(Debug, Clone)]
pub struct Shown {
    pub server: Key,
    pub target: TargetId,
    /// The prefix of its names.
    pub prefix: Prefix,
    /// The listed prompts and resources.
    pub features: Arc<Features>,
    exposes: Vec<Exposure>,
}

impl Shown {
    /// Whether callers see a kind of features.
    pub fn exposes(&self, what: Exposure) -> bool {
        self.exposes.contains(&what)
    }
}

/// The visible servers by prefix.
#[derive(Debug, Default)]
pub struct Showcase(BTreeMap<Box<str>, Shown>);

impl Showcase {
    /// The visible servers of a view.
    pub fn of(snapshot: &Snapshot, view: &View, showing: impl Fn(&Key) -> Option<Showing>) -> Self {
        let mut all: BTreeMap<Box<str>, Shown> = BTreeMap::new();
        for offer in view.offers() {
            let Some(server) = offer.server() else { continue };
            let Some(showing) = showing(server) else { continue };
            if all.get(showing.prefix.as_str()).is_some_and(|known| known.server >= *server) {
                continue;
            }
            let Some(shown) = shown(snapshot, server, showing) else { continue };
            all.insert(shown.prefix.as_str().into(), shown);
        }
        Self(all)
    }

    pub fn find(&self, prefix: &str) -> Option<&Shown> {
        self.0.get(prefix)
    }

    /// All servers, sorted by prefix.
    pub fn iter(&self) -> impl Iterator<Item = &Shown> {
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

fn shown(snapshot: &Snapshot, server: &Key, showing: Showing) -> Option<Shown> {
    let target = snapshot.definitions.route(server)?.target;
    // A server that was never reached has no features yet.
    let features = snapshot.definitions.features(server).cloned().unwrap_or_default();
    let exposes = exposures(snapshot, server, showing.exposes)?;
    Some(Shown { server: server.clone(), target, prefix: showing.prefix, features, exposes })
}

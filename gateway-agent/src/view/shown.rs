//! Prompts and resources for a caller. A caller that may use one of a server's tools sees the features
//! that the registration exposes, unless the target's configuration overrides it.
//!
//! Two versions of one server share a prefix; the newest that the caller may use is shown, as with
//! tools.

use std::{collections::BTreeMap, sync::Arc};

use gateway_protocol::naming::Prefix;
use gateway_upstream::{Features, Showing, TargetId};
use registry_core::{Entity, Key, entity::Exposure};

use super::{Snapshot, View};

/// One server as a caller sees it.
#[derive(Debug, Clone)]
pub struct Shown {
    /// The registered server.
    pub server: Key,
    /// Its target.
    pub target: TargetId,
    /// Under which names its things are known.
    pub prefix: Prefix,
    /// What it has.
    pub features: Arc<Features>,
    exposes: Vec<Exposure>,
}

impl Shown {
    /// Whether callers see this of it.
    pub fn exposes(&self, what: Exposure) -> bool {
        self.exposes.contains(&what)
    }
}

/// All that is shown, by prefix.
#[derive(Debug, Default)]
pub struct Showcase(BTreeMap<Box<str>, Shown>);

impl Showcase {
    /// What a view's audience is shown at that moment.
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

    /// The server with this prefix.
    pub fn find(&self, prefix: &str) -> Option<&Shown> {
        self.0.get(prefix)
    }

    /// All servers, in the order of their prefixes.
    pub fn iter(&self) -> impl Iterator<Item = &Shown> {
        self.0.values()
    }
}

/// Exposed features of a server; `None` if it is not registered.
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
    // A server that was not reached yet shows nothing, but is there.
    let features = snapshot.definitions.features(server).cloned().unwrap_or_default();
    let exposes = exposures(snapshot, server, showing.exposes)?;
    Some(Shown { server: server.clone(), target, prefix: showing.prefix, features, exposes })
}

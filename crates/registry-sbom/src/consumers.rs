//! Reverse lookup of bills: the entities whose bills list a given entity.
//!
//! As in a bill, a server contains the tools that it provides with their dependencies. An entity
//! that depends on a server does not contain the server's tools.

use std::{
    collections::{BTreeMap, VecDeque},
    ops::Bound,
};

use registry_core::{catalog::Catalog, kind::Kind, reference::Key};

/// The entities that contain a given entity, directly or indirectly.
#[derive(Debug, Clone)]
pub struct Consumers {
    target: Key,
    /// The next step of each entity on its shortest path.
    next: BTreeMap<Key, Key>,
}

/// An entity that contains the given one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Consumer {
    /// The key of the containing entity.
    pub key: Key,
    /// A shortest path to the contained entity, including both ends.
    pub path: Vec<Key>,
}

/// Finds the entities that contain the target.
pub fn consumers(catalog: &Catalog, target: &Key) -> Consumers {
    let mut next = BTreeMap::new();
    let mut waiting = VecDeque::from([target.clone()]);
    while let Some(key) = waiting.pop_front() {
        for holder in catalog.dependents(&key).filter(|holder| *holder != target) {
            if !next.contains_key(holder) {
                next.insert(holder.clone(), key.clone());
                if holder.kind != Kind::Server {
                    waiting.push_back(holder.clone());
                }
            }
        }
    }
    Consumers { target: target.clone(), next }
}

impl Consumers {
    /// The containing entities after this key, or all of them, ordered by key.
    pub fn after<'a>(&'a self, last: Option<&'a Key>) -> impl Iterator<Item = Consumer> + 'a {
        let first = last.map_or(Bound::Unbounded, Bound::Excluded);
        let keys = self.next.range((first, Bound::Unbounded)).map(|(key, _)| key);
        keys.map(|key| Consumer { key: key.clone(), path: self.path(key) })
    }

    fn path(&self, from: &Key) -> Vec<Key> {
        let mut path = vec![from.clone()];
        let mut key = from;
        // Each step is closer to the target, so the loop terminates.
        while *key != self.target {
            let Some(next) = self.next.get(key) else { break };
            path.push(next.clone());
            key = next;
        }
        path
    }
}

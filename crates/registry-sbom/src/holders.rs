//! Who contains an entity, and by which path: the reverse of a bill.
//!
//! As in a bill, a server contains the tools that it provides, and what those need; what only needs a
//! server contains none of its tools.

use std::{
    collections::{BTreeMap, VecDeque},
    ops::Bound,
};

use registry_core::{catalog::Catalog, kind::Kind, reference::Key};

/// Everything that contains one entity, directly or through others.
#[derive(Debug, Clone)]
pub struct Holders {
    target: Key,
    /// For each holder the next step of its shortest path.
    next: BTreeMap<Key, Key>,
}

/// Something that contains the entity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// What contains it.
    pub key: Key,
    /// A shortest path from it to the entity, both included.
    pub path: Vec<Key>,
}

/// Finds everything that contains this entity.
pub fn holders(catalog: &Catalog, target: &Key) -> Holders {
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
    Holders { target: target.clone(), next }
}

impl Holders {
    /// The holders after this one, or all of them, in the order of their keys.
    pub fn after<'a>(&'a self, last: Option<&'a Key>) -> impl Iterator<Item = Holder> + 'a {
        let first = last.map_or(Bound::Unbounded, Bound::Excluded);
        let keys = self.next.range((first, Bound::Unbounded)).map(|(key, _)| key);
        keys.map(|key| Holder { key: key.clone(), path: self.path(key) })
    }

    fn path(&self, from: &Key) -> Vec<Key> {
        let mut path = vec![from.clone()];
        let mut key = from;
        // Each step is nearer to the target, so this ends.
        while *key != self.target {
            let Some(next) = self.next.get(key) else { break };
            path.push(next.clone());
            key = next;
        }
        path
    }
}

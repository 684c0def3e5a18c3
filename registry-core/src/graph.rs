//! Questions about who needs whom: closure, dependents, cycles.
//!
//! An agent needs the tools and agents that it declares; a tool its source server, what it
//! declares, and its schemas; a schema the schemas that it refers to. A server needs nothing: that
//! it provides a tool says what it can do, so closures do not spread through `provides`.
//! Deliberately absent: what to do about a missing or circular dependency; the rules say that.

mod cycles;

use std::collections::{BTreeSet, VecDeque};

pub use cycles::cycles;

use crate::{
    catalog::Catalog,
    reference::{Key, Kind},
    rules::{Relation, references},
};

/// Everything that the roots need, themselves included, as far as it is registered.
pub fn closure<'a>(catalog: &Catalog, roots: impl IntoIterator<Item = &'a Key>) -> BTreeSet<Key> {
    let roots = roots.into_iter().filter(|key| catalog.find(key).is_some());
    spread(roots.cloned(), |key| match catalog.find(key) {
        Some(record) => references(record.document.entity())
            .into_iter()
            .filter(|r| r.relation != Relation::Provides && catalog.find(&r.key).is_some())
            .map(|r| r.key)
            .collect(),
        None => Vec::new(),
    })
}

/// Everything that needs this key, directly or through others: what breaks when it goes. The key
/// itself is not in it.
pub fn dependents(catalog: &Catalog, key: &Key) -> BTreeSet<Key> {
    let mut found = spread([key.clone()], |key| {
        // Servers refer to tools only by providing them.
        catalog.dependents(key).filter(|k| k.kind != Kind::Server).cloned().collect()
    });
    found.remove(key);
    found
}

fn spread(roots: impl IntoIterator<Item = Key>, next: impl Fn(&Key) -> Vec<Key>) -> BTreeSet<Key> {
    let mut waiting: VecDeque<Key> = roots.into_iter().collect();
    let mut seen: BTreeSet<Key> = waiting.iter().cloned().collect();
    while let Some(key) = waiting.pop_front() {
        for key in next(&key) {
            if seen.insert(key.clone()) {
                waiting.push_back(key);
            }
        }
    }
    seen
}

#[cfg(test)]
mod tests;

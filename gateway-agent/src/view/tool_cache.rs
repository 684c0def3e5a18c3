//! The cache of served tools, by tool version.

use std::{
    cell::RefCell,
    collections::HashMap,
    hash::Hash,
    sync::{Arc, PoisonError, RwLock},
};

use registry_core::{
    Catalog, Key, Record,
    entity::{Dependency, DependencyTarget},
    limits,
};

use super::{ServedTool, Snapshot};
use crate::contract::Contracts;

/// Maximum depth of the lookup. The registry rejects cycles, but an unchecked file can contain one.
const DEPTH: usize = limits::COMPOSITION_DEPTH + 2;

/// One lookup of a tool and its parts.
#[derive(Default)]
struct Lookup {
    /// Whether retired tools and agents, and tools of retired servers, are found. Such a lookup does
    /// not use the cache.
    includes_retired: bool,
    /// The parts found so far; several paths can reach the same part.
    parts: RefCell<HashMap<Dependency, Option<Arc<ServedTool>>>>,
}

/// The cache of served tools. An entry is replaced when one of its inputs changes.
#[derive(Debug)]
pub struct ToolCache {
    served_tools: RwLock<foldhash::HashMap<Key, Arc<ServedTool>>>,
    skills: RwLock<foldhash::HashMap<Dependency, Arc<ServedTool>>>,
    contracts: Arc<Contracts>,
}

impl ToolCache {
    /// Creates an empty cache.
    pub fn new(contracts: Arc<Contracts>) -> Self {
        Self { served_tools: RwLock::default(), skills: RwLock::default(), contracts }
    }

    /// Returns the served tool of a version. `None` if it is unregistered, it or its server is retired,
    /// or it cannot be served.
    pub fn find(&self, snapshot: &Snapshot, tool: &Key) -> Option<Arc<ServedTool>> {
        self.find_within(snapshot, tool, (&Lookup::default(), DEPTH))
    }

    /// Returns the served tool of a version, even if retired.
    pub fn registered(&self, snapshot: &Snapshot, tool: &Key) -> Option<Arc<ServedTool>> {
        let lookup = Lookup { includes_retired: true, ..Lookup::default() };
        self.find_within(snapshot, tool, (&lookup, DEPTH))
    }

    fn find_within(
        &self,
        snapshot: &Snapshot,
        tool: &Key,
        (lookup, depth): (&Lookup, usize),
    ) -> Option<Arc<ServedTool>> {
        let depth = depth.checked_sub(1)?;
        let part = |part: &Dependency| {
            lookup.resolve_once(part, || match part.target {
                DependencyTarget::Tool => self.find_within(snapshot, &part.key(), (lookup, depth)),
                DependencyTarget::Agent => self.find_skill(snapshot, part, lookup),
            })
        };
        let record = lookup.record(snapshot, tool)?;
        let create = || ServedTool::new(snapshot, record, &self.contracts, part);
        if lookup.includes_retired {
            return create().map(Arc::new);
        }
        let is_current = |served: &ServedTool| served.is_current(snapshot, record, part);
        find_or_create(&self.served_tools, tool, is_current, create)
    }

    /// Returns the tool of a skill.
    fn find_skill(
        &self,
        snapshot: &Snapshot,
        skill: &Dependency,
        lookup: &Lookup,
    ) -> Option<Arc<ServedTool>> {
        let agent = lookup.record(snapshot, &skill.key())?;
        let create =
            || ServedTool::of_skill(snapshot, agent, &self.contracts, skill.skill.as_deref()?);
        if lookup.includes_retired {
            return create().map(Arc::new);
        }
        let is_current = |served: &ServedTool| served.is_current(snapshot, agent, |_| None);
        find_or_create(&self.skills, skill, is_current, create)
    }

    /// Returns the tool of a skill of an agent version. `None` if it is unregistered or retired.
    pub fn skill(&self, snapshot: &Snapshot, skill: &Dependency) -> Option<Arc<ServedTool>> {
        self.find_skill(snapshot, skill, &Lookup::default())
    }

    /// Returns the tool of a skill of an agent version, even if retired.
    pub fn registered_skill(
        &self,
        snapshot: &Snapshot,
        skill: &Dependency,
    ) -> Option<Arc<ServedTool>> {
        let lookup = Lookup { includes_retired: true, ..Lookup::default() };
        self.find_skill(snapshot, skill, &lookup)
    }

    /// Drops tools that the catalog no longer contains. Only registry files remove entities.
    pub fn prune(&self, catalog: &Catalog) {
        let mut served_tools = self.served_tools.write().unwrap_or_else(PoisonError::into_inner);
        if served_tools.len() > catalog.len() {
            served_tools.retain(|tool, _| catalog.find(tool).is_some());
        }
        let mut skills = self.skills.write().unwrap_or_else(PoisonError::into_inner);
        skills.retain(|skill, _| catalog.find(&skill.key()).is_some());
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.served_tools.read().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}

impl Lookup {
    fn record<'s>(&self, snapshot: &'s Snapshot, key: &Key) -> Option<&'s Record> {
        let record = snapshot.catalog.find(key)?;
        (self.includes_retired || snapshot.catalog.is_callable(record)).then_some(&**record)
    }

    /// Resolves a part once.
    fn resolve_once(
        &self,
        part: &Dependency,
        resolve: impl FnOnce() -> Option<Arc<ServedTool>>,
    ) -> Option<Arc<ServedTool>> {
        if let Some(known) = self.parts.borrow().get(part) {
            return known.clone();
        }
        // A part that is found again before `resolve` returns is in a cycle.
        self.parts.borrow_mut().insert(part.clone(), None);
        let found = resolve();
        self.parts.borrow_mut().insert(part.clone(), found.clone());
        found
    }
}

/// Returns the cached tool if it is current, else creates and caches it.
fn find_or_create<K: Clone + Eq + Hash>(
    cache: &RwLock<foldhash::HashMap<K, Arc<ServedTool>>>,
    key: &K,
    is_current: impl FnOnce(&ServedTool) -> bool,
    create: impl FnOnce() -> Option<ServedTool>,
) -> Option<Arc<ServedTool>> {
    let cached = cache.read().unwrap_or_else(PoisonError::into_inner).get(key).cloned();
    if let Some(served) = cached.filter(|served| is_current(served)) {
        return Some(served);
    }
    let served = Arc::new(create()?);
    cache.write().unwrap_or_else(PoisonError::into_inner).insert(key.clone(), served.clone());
    Some(served)
}

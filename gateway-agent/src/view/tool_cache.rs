//! The cache of served tools, by tool version.

use std::{
    cell::RefCell,
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
};

use registry_core::{
    Catalog, Key, Record,
    entity::{Dependency, DependencyTarget},
    limits,
};

use super::{ServedTool, Snapshot};
use crate::{contract::Contracts, identity::is_usable};

/// Maximum depth of the lookup. The registry rejects cycles, but an unchecked file can contain one.
const DEPTH: usize = limits::COMPOSITION_DEPTH + 2;

/// The parts found during one lookup; several paths can lead to the same part.
type ResolvedParts = RefCell<HashMap<Dependency, Option<Arc<ServedTool>>>>;

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

    /// Returns the served tool of a version. `None` if it is unregistered, retired or cannot be
    /// served.
    pub fn find(&self, snapshot: &Snapshot, tool: &Key) -> Option<Arc<ServedTool>> {
        self.find_within(snapshot, tool, (&ResolvedParts::default(), DEPTH))
    }

    fn find_within(
        &self,
        snapshot: &Snapshot,
        tool: &Key,
        (seen, depth): (&ResolvedParts, usize),
    ) -> Option<Arc<ServedTool>> {
        let depth = depth.checked_sub(1)?;
        let part = |part: &Dependency| {
            resolve_once(seen, part, || match part.target {
                DependencyTarget::Tool => self.find_within(snapshot, &part.key(), (seen, depth)),
                DependencyTarget::Agent => self.skill(snapshot, part),
            })
        };
        let record = snapshot.catalog.find(tool).filter(|record| is_usable(record))?;
        let known =
            self.served_tools.read().unwrap_or_else(PoisonError::into_inner).get(tool).cloned();
        if let Some(served) = known.filter(|served| served.is_current(snapshot, record, part)) {
            return Some(served);
        }
        let served = Arc::new(ServedTool::new(snapshot, record, &self.contracts, part)?);
        let mut served_tools = self.served_tools.write().unwrap_or_else(PoisonError::into_inner);
        served_tools.insert(tool.clone(), served.clone());
        Some(served)
    }

    /// Returns the tool of a skill, unless its agent is unregistered or retired.
    fn skill(&self, snapshot: &Snapshot, skill: &Dependency) -> Option<Arc<ServedTool>> {
        let record = snapshot.catalog.find(&skill.key()).filter(|record| is_usable(record))?;
        let known = self.skills.read().unwrap_or_else(PoisonError::into_inner).get(skill).cloned();
        if let Some(served) = known.filter(|served| served.is_current(snapshot, record, |_| None)) {
            return Some(served);
        }
        let served = self.skill_of(snapshot, record, skill)?;
        let mut skills = self.skills.write().unwrap_or_else(PoisonError::into_inner);
        skills.insert(skill.clone(), served.clone());
        Some(served)
    }

    /// Creates the tool of a skill.
    fn skill_of(
        &self,
        snapshot: &Snapshot,
        agent: &Record,
        skill: &Dependency,
    ) -> Option<Arc<ServedTool>> {
        let id = skill.skill.as_deref()?;
        ServedTool::of_skill(snapshot, agent, &self.contracts, id).map(Arc::new)
    }

    /// Returns the served tool of a version, even if retired.
    pub fn registered(&self, snapshot: &Snapshot, tool: &Key) -> Option<Arc<ServedTool>> {
        self.registered_within(snapshot, tool, (&ResolvedParts::default(), DEPTH))
    }

    fn registered_within(
        &self,
        snapshot: &Snapshot,
        tool: &Key,
        (seen, depth): (&ResolvedParts, usize),
    ) -> Option<Arc<ServedTool>> {
        let depth = depth.checked_sub(1)?;
        let record = snapshot.catalog.find(tool)?;
        let part = |part: &Dependency| {
            resolve_once(seen, part, || match part.target {
                DependencyTarget::Tool => {
                    self.registered_within(snapshot, &part.key(), (seen, depth))
                }
                DependencyTarget::Agent => {
                    self.skill_of(snapshot, snapshot.catalog.find(&part.key())?, part)
                }
            })
        };
        ServedTool::new(snapshot, record, &self.contracts, part).map(Arc::new)
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

/// Finds a part once per lookup.
fn resolve_once(
    seen: &ResolvedParts,
    part: &Dependency,
    make: impl FnOnce() -> Option<Arc<ServedTool>>,
) -> Option<Arc<ServedTool>> {
    if let Some(known) = seen.borrow().get(part) {
        return known.clone();
    }
    // A part that is found again before `make` returns is in a cycle.
    seen.borrow_mut().insert(part.clone(), None);
    let found = make();
    seen.borrow_mut().insert(part.clone(), found.clone());
    found
}

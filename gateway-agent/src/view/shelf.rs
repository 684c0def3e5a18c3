//! The cache of offers, by tool version.

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

use super::{Offer, Snapshot};
use crate::{contract::Contracts, identity::is_usable};

/// Maximum depth of the lookup. The registry rejects cycles, but an unchecked file can contain one.
const DEPTH: usize = limits::COMPOSITION_DEPTH + 2;

/// The parts found during one lookup; several paths can lead to the same part.
type Seen = RefCell<HashMap<Dependency, Option<Arc<Offer>>>>;

#[derive(Debug)]
pub struct Shelf {
    offers: RwLock<foldhash::HashMap<Key, Arc<Offer>>>,
    skills: RwLock<foldhash::HashMap<Dependency, Arc<Offer>>>,
    contracts: Arc<Contracts>,
}

impl Shelf {
    pub fn new(contracts: Arc<Contracts>) -> Self {
        Self { offers: RwLock::default(), skills: RwLock::default(), contracts }
    }

    /// Returns the offer of a tool version. `None` if it is unregistered, retired or cannot be
    /// served.
    pub fn offer(&self, snapshot: &Snapshot, tool: &Key) -> Option<Arc<Offer>> {
        self.offer_within(snapshot, tool, (&Seen::default(), DEPTH))
    }

    fn offer_within(
        &self,
        snapshot: &Snapshot,
        tool: &Key,
        (seen, depth): (&Seen, usize),
    ) -> Option<Arc<Offer>> {
        let depth = depth.checked_sub(1)?;
        let part = |part: &Dependency| {
            once(seen, part, || match part.target {
                DependencyTarget::Tool => self.offer_within(snapshot, &part.key(), (seen, depth)),
                DependencyTarget::Agent => self.skill(snapshot, part),
            })
        };
        let record = snapshot.catalog.find(tool).filter(|record| is_usable(record))?;
        let known = self.offers.read().unwrap_or_else(PoisonError::into_inner).get(tool).cloned();
        if let Some(offer) = known.filter(|offer| offer.is_current(snapshot, record, part)) {
            return Some(offer);
        }
        let offer = Arc::new(Offer::new(snapshot, record, &self.contracts, part)?);
        let mut offers = self.offers.write().unwrap_or_else(PoisonError::into_inner);
        offers.insert(tool.clone(), offer.clone());
        Some(offer)
    }

    /// Returns the offer of a skill, unless its agent is unregistered or retired.
    fn skill(&self, snapshot: &Snapshot, skill: &Dependency) -> Option<Arc<Offer>> {
        let record = snapshot.catalog.find(&skill.key()).filter(|record| is_usable(record))?;
        let known = self.skills.read().unwrap_or_else(PoisonError::into_inner).get(skill).cloned();
        if let Some(offer) = known.filter(|offer| offer.is_current(snapshot, record, |_| None)) {
            return Some(offer);
        }
        let offer = self.skill_of(snapshot, record, skill)?;
        let mut skills = self.skills.write().unwrap_or_else(PoisonError::into_inner);
        skills.insert(skill.clone(), offer.clone());
        Some(offer)
    }

    /// Creates the offer of a skill.
    fn skill_of(
        &self,
        snapshot: &Snapshot,
        agent: &Record,
        skill: &Dependency,
    ) -> Option<Arc<Offer>> {
        let id = skill.skill.as_deref()?;
        Offer::of_skill(snapshot, agent, &self.contracts, id).map(Arc::new)
    }

    /// Returns the offer of a tool version, even if retired.
    pub fn registered(&self, snapshot: &Snapshot, tool: &Key) -> Option<Arc<Offer>> {
        self.registered_within(snapshot, tool, (&Seen::default(), DEPTH))
    }

    fn registered_within(
        &self,
        snapshot: &Snapshot,
        tool: &Key,
        (seen, depth): (&Seen, usize),
    ) -> Option<Arc<Offer>> {
        let depth = depth.checked_sub(1)?;
        let record = snapshot.catalog.find(tool)?;
        let part = |part: &Dependency| {
            once(seen, part, || match part.target {
                DependencyTarget::Tool => {
                    self.registered_within(snapshot, &part.key(), (seen, depth))
                }
                DependencyTarget::Agent => {
                    self.skill_of(snapshot, snapshot.catalog.find(&part.key())?, part)
                }
            })
        };
        Offer::new(snapshot, record, &self.contracts, part).map(Arc::new)
    }

    /// Drops tools that the catalog no longer contains. Only registry files remove entities.
    pub fn prune(&self, catalog: &Catalog) {
        let mut offers = self.offers.write().unwrap_or_else(PoisonError::into_inner);
        if offers.len() > catalog.len() {
            offers.retain(|tool, _| catalog.find(tool).is_some());
        }
        let mut skills = self.skills.write().unwrap_or_else(PoisonError::into_inner);
        skills.retain(|skill, _| catalog.find(&skill.key()).is_some());
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.offers.read().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}

/// Finds a part once per lookup.
fn once(
    seen: &Seen,
    part: &Dependency,
    make: impl FnOnce() -> Option<Arc<Offer>>,
) -> Option<Arc<Offer>> {
    if let Some(known) = seen.borrow().get(part) {
        return known.clone();
    }
    // A part that is found again before `make` returns is in a cycle.
    seen.borrow_mut().insert(part.clone(), None);
    let found = make();
    seen.borrow_mut().insert(part.clone(), found.clone());
    found
}

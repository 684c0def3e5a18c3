//! The offers that were made so far, one for each tool version that somebody asked about.

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

/// How deep is looked, for the rules let no circle in, but a file that nobody has checked may have
/// one: a composition that is too deep by one, and the tool that it comes to.
const DEPTH: usize = limits::COMPOSITION_DEPTH + 2;

/// The parts of one composition that were looked at: many may lead to the same.
type Seen = RefCell<HashMap<Dependency, Option<Arc<Offer>>>>;

/// All offers, by tool version, and those of skills.
#[derive(Debug)]
pub struct Shelf {
    offers: RwLock<foldhash::HashMap<Key, Arc<Offer>>>,
    skills: RwLock<foldhash::HashMap<Dependency, Arc<Offer>>>,
    contracts: Arc<Contracts>,
}

impl Shelf {
    /// Nothing yet.
    pub fn new(contracts: Arc<Contracts>) -> Self {
        Self { offers: RwLock::default(), skills: RwLock::default(), contracts }
    }

    /// The offer of a tool version at that moment; `None` where it is not registered, retired, or
    /// of a kind that cannot be served.
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

    /// The offer of a skill, while its agent is registered and not retired.
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

    /// The offer of a skill of this agent, made anew.
    fn skill_of(
        &self,
        snapshot: &Snapshot,
        agent: &Record,
        skill: &Dependency,
    ) -> Option<Arc<Offer>> {
        let id = skill.skill.as_deref()?;
        Offer::of_skill(snapshot, agent, &self.contracts, id).map(Arc::new)
    }

    /// The offer of a tool version, whatever became of it.
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

    /// Forgets tools that are gone. A log never forgets an entity, but a registry file may.
    pub fn prune(&self, catalog: &Catalog) {
        let mut offers = self.offers.write().unwrap_or_else(PoisonError::into_inner);
        if offers.len() > catalog.len() {
            offers.retain(|tool, _| catalog.find(tool).is_some());
        }
        let mut skills = self.skills.write().unwrap_or_else(PoisonError::into_inner);
        skills.retain(|skill, _| catalog.find(&skill.key()).is_some());
    }

    /// Whether nothing was asked for yet.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.offers.read().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}

/// What a part is, worked out once.
fn once(
    seen: &Seen,
    part: &Dependency,
    make: impl FnOnce() -> Option<Arc<Offer>>,
) -> Option<Arc<Offer>> {
    if let Some(known) = seen.borrow().get(part) {
        return known.clone();
    }
    // Whoever comes back to it meanwhile goes round in a circle.
    seen.borrow_mut().insert(part.clone(), None);
    let found = make();
    seen.borrow_mut().insert(part.clone(), found.clone());
    found
}

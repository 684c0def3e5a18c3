//! The offers that were made so far, one for each tool version that somebody asked about.
//!
//! Deliberately absent: which of them an audience sees.

use std::sync::{Arc, PoisonError, RwLock};

use registry_core::{Catalog, Key};

use super::{Offer, Snapshot};
use crate::{contract::Contracts, fast_map::FastMap, identity::is_usable};

/// How deep compositions may be made of compositions; the rules let no cycle in, a file that nobody
/// checked may have one.
const DEPTH: usize = 16;

/// All offers, by tool version.
#[derive(Debug)]
pub struct Shelf {
    offers: RwLock<FastMap<Key, Arc<Offer>>>,
    contracts: Arc<Contracts>,
}

impl Shelf {
    /// Nothing yet.
    pub fn new(contracts: Arc<Contracts>) -> Self {
        Self { offers: RwLock::default(), contracts }
    }

    /// The offer of a tool version at that moment; `None` where it is not registered, retired, or
    /// of a kind that cannot be served.
    pub fn offer(&self, snapshot: &Snapshot, tool: &Key) -> Option<Arc<Offer>> {
        self.offer_within(snapshot, tool, DEPTH)
    }

    fn offer_within(&self, snapshot: &Snapshot, tool: &Key, depth: usize) -> Option<Arc<Offer>> {
        let depth = depth.checked_sub(1)?;
        let part = |part: &Key| self.offer_within(snapshot, part, depth);
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

    /// The offer of a tool version, whatever became of it.
    pub fn registered(&self, snapshot: &Snapshot, tool: &Key) -> Option<Arc<Offer>> {
        self.registered_within(snapshot, tool, DEPTH)
    }

    fn registered_within(
        &self,
        snapshot: &Snapshot,
        tool: &Key,
        depth: usize,
    ) -> Option<Arc<Offer>> {
        let depth = depth.checked_sub(1)?;
        let record = snapshot.catalog.find(tool)?;
        let part = |part: &Key| self.registered_within(snapshot, part, depth);
        Offer::new(snapshot, record, &self.contracts, part).map(Arc::new)
    }

    /// Forgets tools that are gone. A log never forgets an entity, but a registry file may.
    pub fn prune(&self, catalog: &Catalog) {
        let mut offers = self.offers.write().unwrap_or_else(PoisonError::into_inner);
        if offers.len() > catalog.len() {
            offers.retain(|tool, _| catalog.find(tool).is_some());
        }
    }

    /// Whether nothing was asked for yet.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.offers.read().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}

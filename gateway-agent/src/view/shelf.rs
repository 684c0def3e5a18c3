//! The offers that were made so far, one for each tool version that somebody asked about.
//!
//! Deliberately absent: which of them an audience sees.

use std::sync::{Arc, PoisonError, RwLock};

use registry_core::{Catalog, Key};

use super::{Offer, Snapshot};
use crate::{contract::Contracts, fast_map::FastMap, identity::is_usable};

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
        let record = snapshot.catalog.find(tool).filter(|record| is_usable(record))?;
        let known = self.offers.read().unwrap_or_else(PoisonError::into_inner).get(tool).cloned();
        if let Some(offer) = known.filter(|offer| offer.is_current(snapshot, record)) {
            return Some(offer);
        }
        let offer = Arc::new(Offer::new(snapshot, record, &self.contracts)?);
        let mut offers = self.offers.write().unwrap_or_else(PoisonError::into_inner);
        offers.insert(tool.clone(), offer.clone());
        Some(offer)
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

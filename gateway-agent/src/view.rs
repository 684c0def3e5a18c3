//! Views: the tools that a caller can see. A view maps tool names to [`Offer`]s and contains the
//! pages of `tools/list` as bytes.
//!
//! Three layers are cached and invalidated separately: offers (one tool version), pages (a sequence
//! of offers) and views (one audience). Each is computed on first use.

mod composed;
pub mod definition;
mod hints;
pub mod input;
pub mod offer;
mod order;
pub mod pages;
pub mod params;
pub mod shelf;
pub mod shown;
mod slot;
mod tasks;
#[cfg(test)]
mod tests;
pub mod validators;
mod way;

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Arc, OnceLock, PoisonError, RwLock},
};

use arc_swap::ArcSwap;
use foldhash::HashMap;
use gateway_upstream::Definitions;
use registry_core::{Catalog, Entity, Key, Kind, Name, entity::DependencyTarget};
use tokio::sync::watch;

pub use self::{
    composed::Composed,
    input::{Input, ParamHeader},
    offer::Offer,
    pages::{Cursor, Form, Listing},
    shown::Shown,
    tasks::TaskSupport,
};
use self::{pages::Pages, shelf::Shelf, slot::Slot, way::Registered};
use crate::{contract::Contracts, freshness::Verdict, identity::usable_versions};

/// The callers that share a view.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Audience {
    /// A registered agent, which sees the tools it declares.
    Agent(Key),
    /// Callers without an agent's identity, which see the newest version of every tool with a
    /// target.
    Everyone,
    /// Callers that the policy rejects, which see nothing.
    Nobody,
}

/// A catalog with the upstreams' definitions. A call uses one snapshot.
#[derive(Debug)]
pub struct Snapshot {
		/// The registry's catalog.
		pub catalog: Arc<Catalog>,
    /// The tools and features that upstreams list.
    pub definitions: Arc<Definitions>,
    serial: u64,
    registered: Registered,
}

impl Snapshot {
    /// Whether a catalog was loaded. It can be empty.
    pub fn has_catalog(&self) -> bool {
        !self.catalog.registry().as_str().is_empty()
    }
}

/// The tools of one audience in one snapshot.
#[derive(Debug, Default)]
pub struct View {
    offers: HashMap<Name, Arc<Offer>>,
    pages: Pages,
    fingerprint: u64,
    /// Whether some tools can be called as tasks of 2025-11-25.
    takes_tasks: bool,
    /// The view of a stale catalog, which has only read-only tools.
    read_only: OnceLock<Arc<Self>>,
}

impl View {
    fn new(mut offers: Vec<Arc<Offer>>, previous: Option<&Self>) -> Self {
        offers.sort_by(|a, b| (a.place(), a.name()).cmp(&(b.place(), b.name())));
        let is_listed =
            |offer: &&Arc<Offer>| !offer.is_quarantined() && offer.missing_target().is_none();
        let listed = offers.iter().filter(is_listed);
        let listed: Vec<_> = listed.cloned().collect();
        let mut hasher = DefaultHasher::new();
        for offer in &listed {
            offer.fingerprint().hash(&mut hasher);
        }
        let pages = Pages::new(&listed, previous.map(|view| &view.pages));
        let takes_tasks = listed.iter().any(|offer| offer.task_support() != TaskSupport::Forbidden);
        let offers = offers.into_iter().map(|offer| (offer.name().clone(), offer)).collect();
        let fingerprint = hasher.finish();
        Self { offers, pages, fingerprint, takes_tasks, read_only: OnceLock::new() }
    }

    /// The view at a staleness level.
    pub fn at(self: Arc<Self>, verdict: Verdict) -> Arc<Self> {
        let left = || {
            let admitted =
                self.offers.values().filter(|offer| verdict.admits(offer.is_read_only()));
            Arc::new(Self::new(admitted.cloned().collect(), None))
        };
        match verdict {
            Verdict::Serve => self,
            Verdict::ReadOnly => self.read_only.get_or_init(left).clone(),
            Verdict::Refuse => left(),
        }
    }

    pub fn find(&self, name: &Name) -> Option<&Arc<Offer>> {
        self.offers.get(name)
    }

    /// All tools, unordered.
    pub fn offers(&self) -> impl Iterator<Item = &Arc<Offer>> {
        self.offers.values()
    }

    /// The number of tools, including quarantined ones.
    pub fn len(&self) -> usize {
        self.offers.len()
    }

    /// Whether the view has no tools.
    pub fn is_empty(&self) -> bool {
        self.offers.is_empty()
    }

    /// The first page of the list, or the page after a cursor.
    pub fn list(&self, after: Option<&Cursor>, form: impl Into<Form>) -> Listing {
        self.pages.list(after, form.into())
    }

    /// Whether some tools can be called as tasks of 2025-11-25.
    pub fn takes_tasks(&self) -> bool {
        self.takes_tasks
    }

    fn is_of_same_offers(&self, other: &Self) -> bool {
        let is_in_other = |(name, offer): (&Name, &Arc<Offer>)| {
            other.find(name).is_some_and(|same| Arc::ptr_eq(same, offer))
        };
        self.len() == other.len() && self.offers.iter().all(is_in_other)
    }

    /// Equal fingerprints mean equal lists.
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }
}

#[derive(Debug)]
pub struct Views {
    catalog: watch::Receiver<Arc<Catalog>>,
    definitions: watch::Receiver<Arc<Definitions>>,
    current: ArcSwap<Snapshot>,
    slots: RwLock<HashMap<Audience, Arc<Slot>>>,
    shelf: Shelf,
}

impl Views {
    /// Creates views of a catalog and the upstreams' definitions. `contracts` determines the checks
    /// of each tool.
    pub fn new(
        catalog: watch::Receiver<Arc<Catalog>>,
        definitions: watch::Receiver<Arc<Definitions>>,
        contracts: Arc<Contracts>,
    ) -> Self {
        let first = Snapshot {
            catalog: catalog.borrow().clone(),
            definitions: definitions.borrow().clone(),
            serial: 1,
            registered: Registered::default(),
        };
        let (slots, shelf) = (RwLock::default(), Shelf::new(contracts));
        Self { catalog, definitions, current: ArcSwap::from_pointee(first), slots, shelf }
    }

    /// Subscribes to changes of both sources.
    pub fn subscribe(&self) -> (watch::Receiver<Arc<Catalog>>, watch::Receiver<Arc<Definitions>>) {
        (self.catalog.clone(), self.definitions.clone())
    }

    /// The current snapshot.
    pub fn now(&self) -> Arc<Snapshot> {
        let current = self.current.load();
        if self.is_latest(&current) {
            return Arc::clone(&current);
        }
        drop(current);
        self.advance()
    }

    fn is_latest(&self, snapshot: &Snapshot) -> bool {
        Arc::ptr_eq(&self.catalog.borrow(), &snapshot.catalog)
            && Arc::ptr_eq(&self.definitions.borrow(), &snapshot.definitions)
    }

    fn advance(&self) -> Arc<Snapshot> {
        // The lock orders serials. A concurrent caller finds the work done.
        let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
        let current = self.current.load_full();
        if self.is_latest(&current) {
            return current;
        }
        let next = Arc::new(Snapshot {
            catalog: self.catalog.borrow().clone(),
            definitions: self.definitions.borrow().clone(),
            serial: current.serial + 1,
            registered: Registered::default(),
        });
        slots.retain(|audience, _| match audience {
            Audience::Agent(agent) => next.catalog.find(agent).is_some(),
            Audience::Everyone | Audience::Nobody => true,
        });
        self.shelf.prune(&next.catalog);
        self.current.store(next.clone());
        next
    }

    /// The view of an audience in a snapshot.
    pub fn of(&self, snapshot: &Snapshot, audience: &Audience) -> Arc<View> {
        let slot = self.slot(snapshot, audience);
        slot.view_or(|previous| self.build(snapshot, audience, previous))
    }

    fn slot(&self, snapshot: &Snapshot, audience: &Audience) -> Arc<Slot> {
        let slots = self.slots.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = slots.get(audience).filter(|slot| slot.serial() == snapshot.serial) {
            return Arc::clone(slot);
        }
        drop(slots);
        let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
        let known = slots.get(audience);
        if let Some(slot) = known.filter(|slot| slot.serial() == snapshot.serial) {
            return Arc::clone(slot);
        }
        // A call with an older snapshot gets its own view, which must not replace a newer one.
        if known.is_some_and(|slot| slot.serial() > snapshot.serial) {
            return Arc::new(Slot::new(snapshot.serial, None));
        }
        let slot = Arc::new(Slot::new(snapshot.serial, known.map(Arc::as_ref)));
        slots.insert(audience.clone(), slot.clone());
        slot
    }

    fn build(
        &self,
        snapshot: &Snapshot,
        audience: &Audience,
        previous: Option<Arc<View>>,
    ) -> Arc<View> {
        let offers = match audience {
            Audience::Agent(agent) => self.declared_by(snapshot, agent),
            Audience::Everyone => self.newest_of_all(snapshot),
            Audience::Nobody => Vec::new(),
        };
        let view = View::new(offers, previous.as_deref());
        match previous {
            Some(previous) if view.is_of_same_offers(&previous) => previous,
            _ => Arc::new(view),
        }
    }

    fn declared_by(&self, snapshot: &Snapshot, agent: &Key) -> Vec<Arc<Offer>> {
        let Some(record) = snapshot.catalog.find(agent) else { return Vec::new() };
        let Entity::Agent(agent) = record.document.entity() else { return Vec::new() };
        let (depends, _) = agent.depends();
        depends
            .iter()
            .filter(|dependency| dependency.target == DependencyTarget::Tool)
            .filter_map(|dependency| self.shelf.offer(snapshot, &dependency.key()))
            .collect()
    }

    fn newest_of_all(&self, snapshot: &Snapshot) -> Vec<Arc<Offer>> {
        let mut offers = Vec::new();
        let mut last: Option<&Name> = None;
        for (key, _) in snapshot.catalog.of_kind(Kind::Tool) {
            if last != Some(&key.name) {
                offers.extend(self.newest(snapshot, &key.name));
            }
            last = Some(&key.name);
        }
        offers
    }

    /// The newest version with a target. A version that uses the target of a lower version is
    /// skipped unless that target lists its definition: a registration alone must not change the
    /// tools that callers see.
    fn newest(&self, snapshot: &Snapshot, name: &Name) -> Option<Arc<Offer>> {
        let mut undeployed = None;
        for record in usable_versions(&snapshot.catalog, Kind::Tool, name) {
            let offer = self.shelf.offer(snapshot, record.document.key());
            match offer.filter(|offer| offer.missing_target().is_none()) {
                Some(offer) if !offer.is_undeployed() => return Some(offer),
                offer => undeployed = undeployed.or(offer),
            }
        }
        undeployed
    }

    /// A registered tool version, even if retired, for compensations.
    pub fn registered(&self, snapshot: &Snapshot, tool: &Key) -> Option<Arc<Offer>> {
        self.shelf.registered(snapshot, tool)
    }

    pub fn sight<'a>(&'a self, snapshot: &'a Snapshot) -> Sight<'a> {
        Sight { views: self, snapshot }
    }
}

/// Lookup of single tools, without computing a whole view.
#[derive(Debug, Clone, Copy)]
pub struct Sight<'a> {
    views: &'a Views,
    snapshot: &'a Snapshot,
}

impl Sight<'_> {
    /// The version that an agent declares.
    pub fn declared(&self, agent: &Key, name: &Name) -> Option<Arc<Offer>> {
        let view = self.views.of(self.snapshot, &Audience::Agent(agent.clone()));
        view.find(name).cloned()
    }

    /// The newest version with a target.
    pub fn newest(&self, name: &Name) -> Option<Arc<Offer>> {
        self.views.newest(self.snapshot, name)
    }
}

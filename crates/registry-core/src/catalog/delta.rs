//! Partial catalogs: some entities of a catalog at its revision, with the settings of their names.

use std::{collections::BTreeSet, sync::Arc};

use imbl::ordmap::DiffItem;

use super::{
    Catalog, Record,
    digest::{entity_line, setting_line},
};
use crate::{
    chain::{ChainHash, Revision},
    kind::Kind,
    name::Name,
    reference::Key,
    scope::Scope,
    setting::{Selector, SelectorSettings, Settings},
};

/// The difference between two states of a partial catalog.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CatalogDelta {
    /// New and changed entities.
    pub put: Vec<Arc<Record>>,
    /// Keys of removed entities.
    pub removed: Vec<Key>,
    /// New, changed and removed (`None`) settings.
    pub settings: Vec<(Selector, Option<SelectorSettings>)>,
}

impl Catalog {
    /// The partial catalog with these entities, which are those of the scope.
    pub(crate) fn filtered(&self, scope: Arc<Scope>, keys: &BTreeSet<Key>) -> Self {
        let mut part = Self::empty(self.registry.clone()).with_scope(scope);
        part.advance_filtered(self, keys);
        part
    }

    /// Advances a partial catalog of an earlier revision to a later one with these entities.
    pub(crate) fn advance_filtered(&mut self, source: &Self, keys: &BTreeSet<Key>) {
        for (key, record) in &self.records.clone() {
            if !keys.contains(key) {
                self.remove(key, record);
            }
        }
        for (key, record) in keys.iter().filter_map(|key| Some((key, source.records.get(key)?))) {
            if !self.records.get(key).is_some_and(|held| Arc::ptr_eq(held, record)) {
                self.put(record.clone());
            }
        }
        let names: BTreeSet<(Kind, &Name)> = keys.iter().map(|key| (key.kind, &key.name)).collect();
        let settings = names.into_iter().filter_map(|(kind, name)| {
            let on = Selector::Name(kind, name.clone());
            source.settings.get(&on).cloned().map(|set| (on, set))
        });
        let settings = Settings::restore(settings);
        let changes: Vec<_> = settings
            .changes_since(&self.settings)
            .map(|(on, set)| (on.clone(), set.cloned()))
            .collect();
        for (on, set) in &changes {
            self.put_setting(on, set.as_ref());
        }
        (self.revision, self.chain) = (source.revision, source.chain);
        self.attestation = None;
    }

    fn put_setting(&mut self, on: &Selector, set: Option<&SelectorSettings>) {
        let is_counted = self.content.get().is_some();
        let line = |set: Option<&SelectorSettings>| {
            set.filter(|_| is_counted).map(|set| setting_line(on, set))
        };
        let (before, after) = (line(self.settings.get(on)), line(set));
        self.settings.put(on, set);
        self.count(before.as_deref(), after.as_deref());
    }

    pub(super) fn put(&mut self, record: Arc<Record>) {
        let key = record.document.key().clone();
        for edge in record.document.edges() {
            // Keys that share the text of their name are compared without reading it.
            let known = self.records.get_key_value(edge).map_or(edge, |(known, _)| known);
            self.dependents.insert((known.clone(), key.clone()));
        }
        let is_counted = self.content.get().is_some();
        let after = is_counted.then(|| entity_line(&record));
        let before = self.records.insert(key, record).filter(|_| is_counted);
        let before = before.as_deref().map(entity_line);
        self.count(before.as_deref(), after.as_deref());
    }

    /// The same entities at another revision.
    pub fn at(&self, revision: Revision, chain: ChainHash) -> Self {
        Self { revision, chain, attestation: None, ..self.clone() }
    }

    /// The delta from another partial catalog to this one.
    pub fn delta_from(&self, other: &Self) -> CatalogDelta {
        let mut step = CatalogDelta::default();
        for difference in other.records.diff(&self.records) {
            match difference {
                DiffItem::Add(_, record) | DiffItem::Update { new: (_, record), .. } => {
                    step.put.push(record.clone());
                }
                DiffItem::Remove(key, _) => step.removed.push(key.clone()),
            }
        }
        let settings = self.settings.changes_since(&other.settings);
        step.settings = settings.map(|(on, set)| (on.clone(), set.cloned())).collect();
        step
    }

    /// Applies a delta at a revision. Returns `None` if a removed entity is not present.
    pub fn with_delta(
        &self,
        (revision, chain): (Revision, ChainHash),
        scope: Arc<Scope>,
        step: CatalogDelta,
    ) -> Option<Self> {
        let mut part = self.at(revision, chain).with_scope(scope);
        for key in &step.removed {
            let record = part.records.get(key)?.clone();
            part.remove(key, &record);
        }
        for record in step.put {
            part.put(record);
        }
        for (on, set) in &step.settings {
            part.put_setting(on, set.as_ref());
        }
        Some(part)
    }
}

//! A part of a catalog: some of its entities, at its revision, without settings.

use std::{collections::BTreeSet, sync::Arc};

use imbl::ordmap::DiffItem;

use super::{Catalog, Record, digest::entity_line};
use crate::{
    chain::{ChainHash, Revision},
    reference::Key,
    scope::Scope,
};

/// What has to change in one part to make it another.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Step {
    /// Entities that are new or changed.
    pub put: Vec<Arc<Record>>,
    /// Entities that are gone.
    pub removed: Vec<Key>,
}

impl Catalog {
    /// Only these entities of it, which are those of a scope.
    pub(crate) fn with_only(&self, scope: Arc<Scope>, keys: &BTreeSet<Key>) -> Self {
        let mut part = Self::empty(self.registry.clone()).as_part(scope);
        part.follow_with_only(self, keys);
        part
    }

    /// Makes a part of an earlier state that of a later one, where it has these entities.
    pub(crate) fn follow_with_only(&mut self, source: &Self, keys: &BTreeSet<Key>) {
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
        (self.revision, self.chain) = (source.revision, source.chain);
        self.attestation = None;
    }

    pub(super) fn put(&mut self, record: Arc<Record>) {
        let key = record.document.key().clone();
        for edge in record.document.edges() {
            self.dependents.insert((edge.clone(), key.clone()));
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

    /// What has to change in another part to make it this one.
    pub fn step_from(&self, other: &Self) -> Step {
        let mut step = Step::default();
        for difference in other.records.diff(&self.records) {
            match difference {
                DiffItem::Add(_, record) | DiffItem::Update { new: (_, record), .. } => {
                    step.put.push(record.clone());
                }
                DiffItem::Remove(key, _) => step.removed.push(key.clone()),
            }
        }
        step
    }

    /// Takes a step to what is in a scope at a revision. `None`: what is to be removed is not here.
    pub fn stepped(
        &self,
        (revision, chain): (Revision, ChainHash),
        scope: Arc<Scope>,
        step: Step,
    ) -> Option<Self> {
        let mut part = self.at(revision, chain).as_part(scope);
        for key in &step.removed {
            let record = part.records.get(key)?.clone();
            part.remove(key, &record);
        }
        for record in step.put {
            part.put(record);
        }
        Some(part)
    }
}

//! Conflicts: a batch whose keys are registered with other content is rejected, reduced or given
//! new versions.

mod change;
mod same;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use same::Same;
use schema_compat::compatibility::Budget;

use crate::{
    catalog::Catalog,
    document::Document,
    kind::Kind,
    lifecycle::Notice,
    reference::Key,
    rewrite::rewritten,
    rules::Proposed,
    version::{ReleaseChange, Version},
};

/// The strategy for keys that are registered with other content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnConflict {
    /// Leave the batch unchanged; the registry rejects it.
    #[default]
    Fail,
    /// Remove conflicting changes.
    Skip,
    /// Assign a new version, and update references to it within the batch.
    Bump,
}

/// The resolution of one conflict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resolution {
    /// The change was removed.
    Skipped(Key),
    /// The entity has another version: a new one, or a registered one with the same content.
    Bumped {
        /// The key in the original batch.
        from: Key,
        /// The key after the version bump.
        to: Key,
    },
}

/// A batch without conflicts. Each change has its index in the original batch.
#[derive(Debug, Default)]
pub struct ResolvedBatch {
    /// The remaining changes.
    pub changes: Vec<(usize, Proposed)>,
    /// The resolved conflicts.
    pub resolutions: Vec<Resolution>,
}

/// The newest version of a name has no successor because its numbers are at the 64-bit maximum.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{key} is registered with other content, and no version comes after {newest}: \
     choose an unused version below that one"
)]
pub struct NoNextVersion {
    /// The conflicting key.
    pub key: Key,
    /// The newest registered version.
    pub newest: Version,
}

/// Resolves the conflicts of a batch with the catalog.
pub fn resolve_conflicts(
    catalog: &Catalog,
    batch: &[Proposed],
    how: OnConflict,
) -> Result<ResolvedBatch, NoNextVersion> {
    match how {
        OnConflict::Fail => Ok(ResolvedBatch {
            changes: batch.iter().cloned().enumerate().collect(),
            resolutions: Vec::new(),
        }),
        OnConflict::Skip => Ok(skip(catalog, batch)),
        OnConflict::Bump => Bump::new(catalog, batch).resolve(),
    }
}

fn skip(catalog: &Catalog, batch: &[Proposed]) -> ResolvedBatch {
    let conflicts: BTreeSet<&Key> = batch
        .iter()
        .filter_map(|proposed| match proposed {
            Proposed::Register(document) if is_other(catalog, document) => Some(document.key()),
            _ => None,
        })
        .collect();
    let kept = |(_, proposed): &(usize, Proposed)| !conflicts.contains(proposed.key());
    ResolvedBatch {
        changes: batch.iter().cloned().enumerate().filter(kept).collect(),
        resolutions: conflicts.into_iter().cloned().map(Resolution::Skipped).collect(),
    }
}

/// Whether the key is registered with other content.
fn is_other(catalog: &Catalog, document: &Document) -> bool {
    let registered = catalog.find(document.key());
    registered.is_some_and(|record| record.document.digest() != document.digest())
}

/// Assigns new versions until no conflict remains.
struct Bump<'a> {
    catalog: &'a Catalog,
    batch: &'a [Proposed],
    renamed: BTreeMap<Key, Key>,
    budget: Budget,
}

/// The batch with all versions assigned so far, by original key.
type Documents<'a> = BTreeMap<&'a Key, Arc<Document>>;

impl<'a> Bump<'a> {
    fn new(catalog: &'a Catalog, batch: &'a [Proposed]) -> Self {
        Self { catalog, batch, renamed: BTreeMap::new(), budget: Budget::for_batch() }
    }

    fn resolve(mut self) -> Result<ResolvedBatch, NoNextVersion> {
        self.find_the_same();
        // Each round assigns the final version to at least one more key, or is the last.
        loop {
            let documents = self.documents();
            let conflicts: Vec<_> = documents
                .iter()
                .filter(|(_, document)| is_other(self.catalog, document))
                .map(|(key, document)| ((*key).clone(), Arc::clone(document)))
                .collect();
            if conflicts.is_empty() {
                return Ok(self.settled(&documents));
            }
            // The schemas that a schema refers to get their versions first, so that references stay
            // consistent.
            let waiting: BTreeSet<&Key> = conflicts.iter().map(|(key, _)| key).collect();
            let ready = |(key, _): &&(Key, Arc<Document>)| !leads_to(key, &documents, &waiting);
            let mut ready: Vec<_> = conflicts.iter().filter(ready).collect();
            if ready.is_empty() {
                // A cycle of schemas, which the registry rejects.
                ready = conflicts.iter().collect();
            }
            for (key, document) in ready {
                let to = self.next(key, document, &documents)?;
                self.renamed.insert(key.clone(), to);
            }
        }
    }

    /// Finds entities whose content is already registered under a later version. All candidates are
    /// assumed to match; mismatches are eliminated until the assumption is consistent.
    fn find_the_same(&mut self) {
        for (key, versions) in Same::new(self.catalog, self.batch).find() {
            if let Some(newest) = versions.last()
                && *newest != key
            {
                self.renamed.insert(key.clone(), (*newest).clone());
            }
        }
        loop {
            let documents = self.documents();
            let before = self.renamed.len();
            let differs = |key: &Key| {
                documents.get(key).is_none_or(|document| is_other(self.catalog, document))
            };
            let kept = self.renamed.iter().filter(|(key, _)| !differs(key));
            self.renamed = kept.map(|(from, to)| (from.clone(), to.clone())).collect();
            if self.renamed.len() == before {
                return;
            }
        }
    }

    fn documents(&self) -> Documents<'a> {
        let mut documents = BTreeMap::new();
        for proposed in self.batch {
            let Proposed::Register(document) = proposed else { continue };
            documents.entry(document.key()).or_insert_with(|| self.rewritten(document));
        }
        documents
    }

    fn rewritten(&self, document: &Arc<Document>) -> Arc<Document> {
        let concerns = |key: &Key| self.renamed.contains_key(key);
        if !concerns(document.key()) && !document.edges().iter().any(concerns) {
            return Arc::clone(document);
        }
        let value = rewritten(document, &self.renamed);
        // Only versions change. If the result exceeds a limit, the registry reports that for the
        // original.
        Document::from_value(document.key().kind, value)
            .map_or_else(|_| Arc::clone(document), Arc::new)
    }

    /// The first free version after the newest one, chosen by the kind of change.
    fn next(
        &mut self,
        key: &Key,
        document: &Document,
        documents: &Documents<'_>,
    ) -> Result<Key, NoNextVersion> {
        let newest = self.catalog.versions(key.kind, &key.name).last();
        let (mut version, mut change) = match newest {
            Some((newest, record)) => {
                let change = self.change(&record.document, document, documents);
                (newest.version.clone().max(key.version.clone()), change)
            }
            None => (key.version.clone(), ReleaseChange::Editorial),
        };
        loop {
            let Some(next) = version.next(change) else {
                return Err(NoNextVersion { key: key.clone(), newest: version });
            };
            let to = Key::new(key.kind, key.name.clone(), next.clone());
            let is_taken = self.catalog.find(&to).is_some()
                || documents.contains_key(&to)
                || self.renamed.values().any(|other| *other == to);
            if !is_taken {
                return Ok(to);
            }
            (version, change) = (next, ReleaseChange::Editorial);
        }
    }

    /// The change since a registered version. References already have their final versions.
    fn change(
        &mut self,
        registered: &Document,
        document: &Document,
        documents: &Documents<'_>,
    ) -> ReleaseChange {
        let now: BTreeMap<&Key, &Key> = self.renamed.iter().map(|(from, to)| (to, from)).collect();
        let (catalog, budget) = (self.catalog, &mut self.budget);
        let resolve = |key: &Key| {
            let renamed = now.get(key).and_then(|from| documents.get(*from));
            let registered = || catalog.find(key).map(|record| &record.document);
            let document = renamed.or_else(registered).or_else(|| documents.get(key))?;
            Some(document.entity())
        };
        change::between(registered.entity(), document.entity(), &resolve, budget)
    }

    fn settled(self, documents: &Documents<'_>) -> ResolvedBatch {
        let mut changes = Vec::new();
        for (i, proposed) in self.batch.iter().enumerate() {
            let change = match proposed {
                Proposed::Register(document) => {
                    Proposed::Register(Arc::clone(&documents[document.key()]))
                }
                Proposed::SetLifecycle { key, state, notice } => {
                    let now = |key: &Key| self.renamed.get(key).unwrap_or(key).clone();
                    let replacement = notice.replacement.as_ref().map(now);
                    let notice = Notice { replacement, ..notice.clone() };
                    Proposed::SetLifecycle { key: now(key), state: *state, notice }
                }
            };
            changes.push((i, change));
        }
        let bumped = self.renamed.into_iter().map(|(from, to)| Resolution::Bumped { from, to });
        ResolvedBatch { changes, resolutions: bumped.collect() }
    }
}

/// Whether a referenced schema, direct or transitive, is still waiting for its version.
fn leads_to(key: &Key, documents: &Documents<'_>, waiting: &BTreeSet<&Key>) -> bool {
    let schemas = |key: &Key| {
        let edges = documents.get(key).map(|document| document.edges()).unwrap_or_default();
        edges.iter().filter(|key| key.kind == Kind::Schema)
    };
    let mut open: Vec<&Key> = schemas(key).collect();
    let mut seen = BTreeSet::new();
    while let Some(next) = open.pop() {
        if seen.insert(next) {
            if waiting.contains(next) {
                return true;
            }
            open.extend(schemas(next));
        }
    }
    false
}

#[cfg(test)]
mod tests;

//! A batch that meets other content under its keys: refused, left out, or given new versions.

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
    version::{Change, Version},
};

/// What to do when a key is registered with other content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnConflict {
    /// Let the registry refuse the batch.
    #[default]
    Fail,
    /// Leave out what is in conflict.
    Skip,
    /// Give it a new version, and rewrite what refers to it in the batch.
    Bump,
}

/// What became of a conflict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settlement {
    /// It was left out.
    Skipped(Key),
    /// It got another version: a new one or, where the same content is registered, that one.
    Bumped {
        /// The key in the batch.
        from: Key,
        /// The key instead.
        to: Key,
    },
}

/// A batch whose conflicts are settled; each change with its place in the batch before.
#[derive(Debug, Default)]
pub struct Settled {
    /// The changes.
    pub changes: Vec<(usize, Proposed)>,
    /// What was done.
    pub settlements: Vec<Settlement>,
}

/// There is no version after the newest one of a name: its numbers are the last of 64 bits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{key} is registered with other content, and no version comes after {newest}: \
     give it a free version yourself, below that"
)]
pub struct NoNextVersion {
    /// What is in conflict.
    pub key: Key,
    /// The version that none comes after.
    pub newest: Version,
}

/// Settles the conflicts of a batch with what is registered.
pub fn settle(
    catalog: &Catalog,
    batch: &[Proposed],
    how: OnConflict,
) -> Result<Settled, NoNextVersion> {
    match how {
        OnConflict::Fail => Ok(Settled {
            changes: batch.iter().cloned().enumerate().collect(),
            settlements: Vec::new(),
        }),
        OnConflict::Skip => Ok(skip(catalog, batch)),
        OnConflict::Bump => Bump::new(catalog, batch).settle(),
    }
}

fn skip(catalog: &Catalog, batch: &[Proposed]) -> Settled {
    let conflicts: BTreeSet<&Key> = batch
        .iter()
        .filter_map(|proposed| match proposed {
            Proposed::Register(document) if is_other(catalog, document) => Some(document.key()),
            _ => None,
        })
        .collect();
    let kept = |(_, proposed): &(usize, Proposed)| !conflicts.contains(proposed.key());
    Settled {
        changes: batch.iter().cloned().enumerate().filter(kept).collect(),
        settlements: conflicts.into_iter().cloned().map(Settlement::Skipped).collect(),
    }
}

/// Whether the key is registered with other content.
fn is_other(catalog: &Catalog, document: &Document) -> bool {
    let registered = catalog.find(document.key());
    registered.is_some_and(|record| record.document.digest() != document.digest())
}

/// New versions for what is in conflict, until nothing is.
struct Bump<'a> {
    catalog: &'a Catalog,
    batch: &'a [Proposed],
    renamed: BTreeMap<Key, Key>,
    budget: Budget,
}

/// The batch with all versions that were given so far, by its own keys.
type Documents<'a> = BTreeMap<&'a Key, Arc<Document>>;

impl<'a> Bump<'a> {
    fn new(catalog: &'a Catalog, batch: &'a [Proposed]) -> Self {
        Self { catalog, batch, renamed: BTreeMap::new(), budget: Budget::of_batch() }
    }

    fn settle(mut self) -> Result<Settled, NoNextVersion> {
        self.find_the_same();
        // Each round gives at least one more key its version for good, or is the last.
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
            // What a schema leads to gets its version first: then no reference means two things.
            let waiting: BTreeSet<&Key> = conflicts.iter().map(|(key, _)| key).collect();
            let ready = |(key, _): &&(Key, Arc<Document>)| !leads_to(key, &documents, &waiting);
            let mut ready: Vec<_> = conflicts.iter().filter(ready).collect();
            if ready.is_empty() {
                // A circle of schemas, which the registry refuses.
                ready = conflicts.iter().collect();
            }
            for (key, document) in ready {
                let to = self.next(key, document, &documents)?;
                self.renamed.insert(key.clone(), to);
            }
        }
    }

    /// Finds those whose content is registered under a later version already: for all that are
    /// concerned that is supposed where it can be, and those for which it is wrong fall out.
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
        // Only versions differ; should that be too much, the registry says so of the original.
        Document::parse(document.key().kind, &value).map_or_else(|_| Arc::clone(document), Arc::new)
    }

    /// A free version after the newest one, by what has changed since that.
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
            None => (key.version.clone(), Change::Words),
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
            (version, change) = (next, Change::Words);
        }
    }

    /// What has changed since a registered version; what it refers to has its version already.
    fn change(
        &mut self,
        registered: &Document,
        document: &Document,
        documents: &Documents<'_>,
    ) -> Change {
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

    fn settled(self, documents: &Documents<'_>) -> Settled {
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
        let bumped = self.renamed.into_iter().map(|(from, to)| Settlement::Bumped { from, to });
        Settled { changes, settlements: bumped.collect() }
    }
}

/// Whether the schemas that this one refers to, directly or through others, are waiting themselves.
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

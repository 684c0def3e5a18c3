//! The index and its updates.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use imbl::Vector;
use registry_core::{
    catalog::{Catalog, Record},
    chain::Revision,
    parallel,
    reference::Key,
};

use crate::{
    entry::{Entry, rank_versions},
    postings::{Doc, MOST, Posting, Postings, Term},
    terms::{Terms, name_term},
    weights,
};

/// Number of new entities per batch, because their words take more memory than their postings.
const AT_ONCE: usize = 2_048;

/// A searchable index of a catalog.
#[derive(Debug, Clone)]
pub struct Index {
    pub(super) catalog: Catalog,
    pub(super) terms: Terms,
    pub(super) postings: Postings,
    pub(super) entries: Vector<Entry>,
}

impl Index {
    /// Builds the index of a catalog.
    pub fn build(catalog: &Catalog) -> Self {
        let mut index = Self::empty(catalog);
        index.advance(catalog);
        index
    }

    fn empty(catalog: &Catalog) -> Self {
        let catalog = Catalog::empty(catalog.registry().clone());
        let (terms, postings) = (Terms::default(), Postings::default());
        Self { catalog, terms, postings, entries: Vector::new() }
    }

    /// Advances to a later revision of the catalog, at a cost proportional to the changes.
    pub fn advance(&mut self, catalog: &Catalog) {
        let head = self.catalog.revision();
        let Some(changed) = catalog.changed_since(&self.catalog) else {
            *self = Self::build(catalog);
            return;
        };
        let (mut new, old): (Vec<_>, Vec<_>) =
            changed.into_iter().partition(|record| record.registered > head);
        // Records of one revision stay in the order of their keys.
        new.sort_by_key(|record| record.registered);
        let mut touched: BTreeSet<String> =
            old.iter().map(|record| name_term(record.document.key())).collect();
        touched.extend(self.add(new));
        self.catalog = catalog.clone();
        for name in touched {
            self.rank_name(&name);
        }
    }

    /// The index of an earlier revision.
    pub fn rewind_to(&self, catalog: &Catalog) -> Self {
        let head = catalog.revision();
        let mut index = Self { catalog: catalog.clone(), entries: Vector::new(), ..self.clone() };
        let mut names = BTreeSet::new();
        for entry in &self.entries {
            // Numbers follow registration, so all further entities are newer.
            if entry.record.registered > head {
                break;
            }
            let key = entry.record.document.key();
            let record = catalog.find(key).unwrap_or(&entry.record);
            index.entries.push_back(Entry::new(record.clone()));
            names.insert(name_term(key));
        }
        for name in &names {
            index.rank_name(name);
        }
        index
    }

    /// Adds entities. Returns the terms of their names that had versions before.
    fn add(&mut self, new: Vec<Arc<Record>>) -> BTreeSet<String> {
        let (mut rest, mut with_versions) = (new, BTreeSet::new());
        while !rest.is_empty() {
            let later = rest.split_off(rest.len().min(AT_ONCE));
            let these = std::mem::replace(&mut rest, later);
            let weighed = parallel::map(these, |record| (weights::terms(&record), record));
            let count = weighed.iter().map(|(terms, _)| 1 + terms.len()).sum();
            let (mut postings, mut recent) = (Vec::with_capacity(count), HashMap::new());
            for (terms, record) in &weighed {
                let Some(doc) = Doc::try_from(self.entries.len()).ok() else { break };
                if self.entries.len() >= MOST {
                    break;
                }
                let name = name_term(record.document.key());
                let known_terms = self.terms.len();
                postings.extend(self.terms.intern(&name).map(|name| Posting::new(name, doc, 0)));
                if self.terms.len() == known_terms {
                    with_versions.insert(name);
                }
                let known = terms.iter().filter_map(|(term, weight)| {
                    Some(Posting::new(self.term_id(term, &mut recent)?, doc, weight))
                });
                postings.extend(known);
                self.entries.push_back(Entry::new(record.clone()));
            }
            self.postings.add(postings);
        }
        with_versions
    }

    /// The id of a term. A cache of recent terms avoids most lookups.
    fn term_id<'t>(&mut self, term: &'t str, recent: &mut HashMap<&'t str, Term>) -> Option<Term> {
        if let Some(number) = recent.get(term) {
            return Some(*number);
        }
        let number = self.terms.intern(term)?;
        recent.insert(term, number);
        Some(number)
    }

    /// Recomputes the representative versions of a name.
    fn rank_name(&mut self, name: &str) {
        let docs = self.docs_with(name);
        let entries = docs.iter().filter_map(|doc| self.entry(*doc));
        let mut versions: Vec<Entry> = entries
            .map(|entry| {
                let now = self.catalog.find(entry.record.document.key());
                Entry::new(now.unwrap_or(&entry.record).clone())
            })
            .collect();
        rank_versions(&mut versions);
        for (doc, version) in docs.into_iter().zip(versions) {
            if self.entry(doc) != Some(&version) {
                self.entries.set(doc as usize, version);
            }
        }
    }

    /// The entities that contain a term, by number.
    pub(super) fn docs_with(&self, term: &str) -> Vec<Doc> {
        let Some(term) = self.terms.find(term) else { return Vec::new() };
        let mut docs: Vec<Doc> = self
            .postings
            .of_term(term, self.end())
            .flatten()
            .map(|posting| posting.doc())
            .collect();
        docs.sort_unstable();
        docs
    }

    pub(super) fn find_doc(&self, key: &Key) -> Option<Doc> {
        let is_it = |doc: &Doc| self.entry(*doc).is_some_and(|e| e.record.document.key() == key);
        self.docs_with(&name_term(key)).into_iter().find(is_it)
    }

    pub(super) fn entry(&self, doc: Doc) -> Option<&Entry> {
        self.entries.get(doc as usize)
    }

    /// The number after the last entity's.
    pub(super) fn end(&self) -> Doc {
        Doc::try_from(self.entries.len()).unwrap_or(Doc::MAX)
    }

    /// The indexed revision.
    pub fn revision(&self) -> Revision {
        self.catalog.revision()
    }

    /// The indexed catalog.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// The numbers of terms and postings, for metrics.
    pub fn size(&self) -> (usize, usize) {
        (self.terms.len(), self.postings.len())
    }
}

//! A scope's part of a catalog, kept up to date from revision to revision.
//!
//! A commit that changes nothing in it costs a look at what the commit changed; another one costs
//! as much as the part is big, never as much as the registry. Deliberately absent: the log; the two
//! catalogs share what did not change, which says what did.

use std::{collections::BTreeSet, sync::Arc};

use super::{Scope, closure};
use crate::{catalog::Catalog, reference::Key};

/// A scope's part of a catalog.
#[derive(Debug, Clone)]
pub struct Part {
    scope: Arc<Scope>,
    source: Catalog,
    /// The registered entities that the scope names.
    named: BTreeSet<Key>,
    catalog: Catalog,
}

impl Part {
    /// The part of a catalog. Looks at every entity.
    pub fn of(scope: Arc<Scope>, source: &Catalog) -> Self {
        let named = source.iter().filter(|(_, record)| scope.names(record));
        let named: BTreeSet<Key> = named.map(|(key, _)| key.clone()).collect();
        let catalog = source.with_only(scope.clone(), &closure(source, &named));
        Self { scope, source: source.clone(), named, catalog }
    }

    /// What is in scope, at the revision of the whole.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Goes on to a later catalog of the same registry. Says whether anything in scope changed.
    pub fn advance(&mut self, source: &Catalog) -> bool {
        let Some(changed) = source.changed_since(&self.source) else {
            let before = std::mem::replace(self, Self::of(self.scope.clone(), source));
            return !before.catalog.has_same_records(&self.catalog);
        };
        let mut is_touched = false;
        for record in &changed {
            let key = record.document.key();
            let moved = if self.scope.names(record) {
                self.named.insert(key.clone())
            } else {
                self.named.remove(key)
            };
            // What nothing refers to is neither in scope nor enters it with another.
            let is_in_sight = || self.catalog.dependents(key).next().is_some();
            is_touched |= moved || self.catalog.find(key).is_some() || is_in_sight();
        }
        self.source = source.clone();
        if is_touched {
            self.catalog.follow_with_only(source, &closure(source, &self.named));
        } else {
            self.catalog = self.catalog.at(source.revision(), source.chain());
        }
        is_touched
    }
}

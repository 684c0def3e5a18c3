//! A scope's part of a catalog, kept up to date from revision to revision.
//!
//! A commit that changes nothing in it costs a look at what the commit changed; another one costs
//! as much as the part is big, never as much as the registry. Deliberately absent: the log; the two
//! catalogs share what did not change, which says what did.

use std::sync::Arc;

use imbl::OrdSet;

use super::{Scope, closure};
use crate::{
    catalog::{Catalog, Record},
    reference::Key,
};

/// A scope's part of a catalog.
#[derive(Debug, Clone)]
pub struct Part {
    scope: Arc<Scope>,
    source: Catalog,
    /// The registered entities that the scope names.
    named: OrdSet<Key>,
    catalog: Catalog,
}

impl Part {
    /// The part of a catalog. Looks at every entity.
    pub fn of(scope: Arc<Scope>, source: &Catalog) -> Self {
        let named = scope.named(source);
        Self::of_named(scope, source, named)
    }

    /// The same. Stops with `None` as soon as `is_wanted` returns false; it is called for each
    /// entity.
    pub fn of_while(
        scope: Arc<Scope>,
        source: &Catalog,
        is_wanted: impl Fn() -> bool,
    ) -> Option<Self> {
        let named = scope.named_while(source, &is_wanted)?;
        is_wanted().then(|| Self::of_named(scope, source, named))
    }

    fn of_named(scope: Arc<Scope>, source: &Catalog, named: OrdSet<Key>) -> Self {
        let catalog = source.with_only(scope.clone(), &closure(source, &named));
        Self { scope, source: source.clone(), named, catalog }
    }

    /// What is in scope, at the revision of the whole.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// The whole catalog that it was worked out from last.
    pub fn source(&self) -> &Catalog {
        &self.source
    }

    /// Goes on to a later catalog of the same registry, which differs in these records
    /// ([`Catalog::changed_since`]). Says whether anything in scope may have changed.
    pub fn advance(&mut self, source: &Catalog, changed: Option<&[Arc<Record>]>) -> bool {
        let Some(changed) = changed else {
            *self = Self::of(self.scope.clone(), source);
            return true;
        };
        let mut is_touched = false;
        for record in changed {
            let key = record.document.key();
            let moved = if self.scope.names(record) {
                self.named.insert(key.clone()).is_none()
            } else {
                self.named.remove(key).is_some()
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

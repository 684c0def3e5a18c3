//! Queries on the dependency graph: closure, dependents, paths, impact and cycles.
//!
//! An agent depends on the tools and agents that it declares. A tool depends on its source server,
//! its declared dependencies and its schemas, and a schema on the schemas that it refers to. A
//! server depends on nothing: `provides` is an offer, so closures do not follow it.
//! The cost is proportional to the entities reached. Entities keep their edges, so only impact
//! analysis parses documents.

mod impact;
mod paths;
mod promise;
mod reach;
mod scratch;

use std::collections::BTreeSet;

pub use impact::{
    Affected, Effect, HypotheticalChange, Impact, Replacement, ReplacementComparison, impact,
};
pub use paths::{Paths, paths};
pub use reach::{Direction, Reach, Reached};

use crate::{catalog::Catalog, reference::Key};

/// The registered roots and all their registered dependencies, direct and transitive.
pub fn closure<'a>(catalog: &Catalog, roots: impl IntoIterator<Item = &'a Key>) -> BTreeSet<Key> {
    Reach::from_roots(catalog, roots, Direction::Dependencies, None).into_keys().collect()
}

/// All direct and transitive dependents of this registered key, without the key itself.
pub fn dependents(catalog: &Catalog, key: &Key) -> BTreeSet<Key> {
    Reach::from_roots(catalog, [key], Direction::Dependents, None).into_keys().skip(1).collect()
}

#[cfg(test)]
mod tests;

//! Questions about who needs whom: closure, dependents, paths, impact, cycles.
//!
//! An agent needs the tools and agents that it declares; a tool its source server, what it
//! declares, and its schemas; a schema the schemas that it refers to. A server needs nothing: that
//! it provides a tool says what it can do, so closures do not spread through `provides`.
//! All of it costs in proportion to what is reached, and reads no document but those that impact
//! moves: entities keep their edges.

mod impact;
mod paths;
mod promise;
mod reach;
mod scratch;

use std::collections::BTreeSet;

pub use impact::{Affected, Compared, Effect, Impact, Planned, impact};
pub use paths::{Paths, paths};
pub use reach::{Direction, Reach, Reached};

use crate::{catalog::Catalog, reference::Key};

/// Everything that the roots need, themselves included, as far as it is registered.
pub fn closure<'a>(catalog: &Catalog, roots: impl IntoIterator<Item = &'a Key>) -> BTreeSet<Key> {
    Reach::of(catalog, roots, Direction::Dependencies, None).into_keys().collect()
}

/// Everything that needs this key, directly or through others: what breaks when it goes. The key
/// itself is not in it.
pub fn dependents(catalog: &Catalog, key: &Key) -> BTreeSet<Key> {
    Reach::of(catalog, [key], Direction::Dependents, None).into_keys().skip(1).collect()
}

#[cfg(test)]
mod tests;

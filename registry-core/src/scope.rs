//! Which part of a catalog somebody follows.
//!
//! Deliberately absent: who may follow what, and the computing of deltas between two scopes.

use std::collections::BTreeSet;

use crate::{catalog::Catalog, graph, reference::Key};

/// The part of a catalog that a gateway needs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Scope {
    /// The whole catalog.
    #[default]
    Everything,
    /// These agents and everything that they need; an agent that is not registered yet is in scope
    /// as soon as it is.
    Agents(BTreeSet<Key>),
}

impl Scope {
    /// The keys in scope.
    pub fn keys(&self, catalog: &Catalog) -> BTreeSet<Key> {
        match self {
            Self::Everything => catalog.iter().map(|(key, _)| key.clone()).collect(),
            Self::Agents(agents) => graph::closure(catalog, agents),
        }
    }
}

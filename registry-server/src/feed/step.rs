//! What leads from one state of a scope to another.

use std::sync::Arc;

use registry_core::{Attestation, Digest, Key, Record, Scope, chain::Position};

use super::scopes::State;

/// From this size on a snapshot is sent instead, in bytes: it comes in pieces.
const BYTES: usize = 4 * 1024 * 1024;

/// What has to change in one state of a scope to make it another.
pub struct Step {
    from: Arc<State>,
    to: Arc<State>,
    attestation: Option<Attestation>,
    /// Entities that are new or changed.
    pub put: Vec<Arc<Record>>,
    /// Entities that are no longer in scope.
    pub removed: Vec<Key>,
}

impl Step {
    pub(super) fn new(from: Arc<State>, to: Arc<State>) -> Self {
        let registry_core::catalog::CatalogDelta { put, removed } =
            to.catalog.delta_from(&from.catalog);
        let attestation = to.catalog.attestation().copied();
        Self { from, to, attestation, put, removed }
    }

    /// No change: only the registry's word on a state, for whoever works out the state itself.
    pub(super) fn only_signed(to: Arc<State>, attestation: Option<Attestation>) -> Self {
        Self { from: to.clone(), to, attestation, put: Vec::new(), removed: Vec::new() }
    }

    pub(super) fn is_between(&self, from: &Arc<State>, to: &Arc<State>) -> bool {
        Arc::ptr_eq(&self.from, from) && Arc::ptr_eq(&self.to, to)
    }

    /// Whether a snapshot is the better way.
    pub(super) fn is_too_big(&self) -> bool {
        self.put.iter().map(|record| record.document.bytes().len()).sum::<usize>() > BYTES
    }

    /// Where it leads to.
    pub fn position(&self) -> Position {
        Position::of_catalog(&self.to.catalog)
    }

    /// In which scope that is.
    pub fn scope(&self) -> &Scope {
        self.to.catalog.scope()
    }

    /// The registry's word on the state after it.
    pub fn attestation(&self) -> Option<&Attestation> {
        self.attestation.as_ref()
    }

    /// The content digest of what is in scope after it.
    pub fn content(&self) -> Digest {
        self.to.content
    }
}

impl std::fmt::Debug for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (put, removed) = (self.put.len(), self.removed.len());
        write!(f, "Step to {}: {put} put, {removed} removed", self.to.revision())
    }
}

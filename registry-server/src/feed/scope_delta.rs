//! Deltas between two states of a scope.

use std::sync::Arc;

use registry_core::{
    Attestation, Digest, Key, Record, Scope, Selector, catalog::CatalogDelta, chain::Position,
    setting::SelectorSettings,
};

use super::scopes::ScopeState;

/// Bytes above which a snapshot replaces the delta, because a snapshot has chunks.
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// Changes from one state of a scope to another.
pub struct ScopeDelta {
    from: Arc<ScopeState>,
    to: Arc<ScopeState>,
    attestation: Option<Attestation>,
    /// New and changed entities.
    pub put: Vec<Arc<Record>>,
    /// Entities that are no longer in the scope.
    pub removed: Vec<Key>,
    /// New, changed and removed (`None`) settings.
    pub settings: Vec<(Selector, Option<SelectorSettings>)>,
}

impl ScopeDelta {
    pub(super) fn new(from: Arc<ScopeState>, to: Arc<ScopeState>) -> Self {
        let CatalogDelta { put, removed, settings } = to.catalog.delta_from(&from.catalog);
        let attestation = to.catalog.attestation().copied();
        Self { from, to, attestation, put, removed, settings }
    }

    /// A delta with only the signature of a state, for a relay that computes the state itself.
    pub(super) fn signature_only(to: Arc<ScopeState>, attestation: Option<Attestation>) -> Self {
        let (put, removed, settings) = (Vec::new(), Vec::new(), Vec::new());
        Self { from: to.clone(), to, attestation, put, removed, settings }
    }

    pub(super) fn is_between(&self, from: &Arc<ScopeState>, to: &Arc<ScopeState>) -> bool {
        Arc::ptr_eq(&self.from, from) && Arc::ptr_eq(&self.to, to)
    }

    /// Whether to send a snapshot instead.
    pub(super) fn is_too_big(&self) -> bool {
        self.put.iter().map(|record| record.document.bytes().len()).sum::<usize>() > MAX_BYTES
    }

    /// Position of the new state.
    pub fn position(&self) -> Position {
        Position::of_catalog(&self.to.catalog)
    }

    /// Scope of the new state.
    pub fn scope(&self) -> &Scope {
        self.to.catalog.scope()
    }

    /// Signature of the new state.
    pub fn attestation(&self) -> Option<&Attestation> {
        self.attestation.as_ref()
    }

    /// Content digest of the new state.
    pub fn content(&self) -> Digest {
        self.to.content
    }
}

impl std::fmt::Debug for ScopeDelta {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (put, removed) = (self.put.len(), self.removed.len());
        write!(f, "ScopeDelta to {}: {put} put, {removed} removed", self.to.revision())
    }
}

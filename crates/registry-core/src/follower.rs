//! Reports of followers: the state of their disk cache, and rejected revisions.

use crate::{chain::Revision, diagnostic::Diagnostic};

/// The state of a follower's disk cache.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum CacheState {
    /// The follower has not reported it.
    #[default]
    Unknown,
    /// The cache is up to date.
    Ok,
    /// The cache cannot be written, with the reason.
    Failing(String),
    /// The follower has no cache.
    None,
}

/// A follower rejected a revision and keeps its previous state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nack {
    /// The rejected revision.
    pub revision: Revision,
    /// The reason, for people.
    pub message: String,
    /// Findings of validation, if there are any.
    pub diagnostics: Vec<Diagnostic>,
}

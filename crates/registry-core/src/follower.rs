//! Reports of followers: the state of their copy on disk, and refused revisions.

use crate::{chain::Revision, diagnostic::Diagnostic};

/// State of the copy on a follower's disk.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum CacheState {
    /// Not reported.
    #[default]
    Unknown,
    /// The copy is written.
    Ok,
    /// The copy cannot be written, and the reason.
    Failing(String),
    /// The follower keeps no copy.
    None,
}

/// A follower refused a revision and keeps what it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nack {
    /// Which revision.
    pub revision: Revision,
    /// The message for people.
    pub message: String,
    /// Findings, where there are any.
    pub diagnostics: Vec<Diagnostic>,
}

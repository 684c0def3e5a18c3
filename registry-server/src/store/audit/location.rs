//! Locations in findings.

use std::fmt;

/// A commit.
#[derive(Clone, Copy)]
pub(super) struct CommitLocation(pub(super) i64);

impl fmt::Display for CommitLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "revision {}", self.0)
    }
}

/// A part of a commit: revision, type and ordinal.
#[derive(Clone, Copy)]
pub(super) struct PartLocation(pub(super) i64, pub(super) &'static str, pub(super) i64);

impl fmt::Display for PartLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "revision {}, {} {}", self.0, self.1, self.2)
    }
}

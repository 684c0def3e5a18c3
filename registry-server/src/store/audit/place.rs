//! Where something was found, in words.

use std::fmt;

/// A commit, in findings.
#[derive(Clone, Copy)]
pub(super) struct Place(pub(super) i64);

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "revision {}", self.0)
    }
}

/// A part of a commit, in findings: of which, what, and where in it.
#[derive(Clone, Copy)]
pub(super) struct Row(pub(super) i64, pub(super) &'static str, pub(super) i64);

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "revision {}, {} {}", self.0, self.1, self.2)
    }
}

//! The validators: one for each promise. Each is a function from a history to what violates it.

mod acknowledged;
mod atomic;
mod bookmarkable;
mod caches;
mod chain;
mod filtered;
mod linearizable;
mod ordered;
mod references;
mod reliable;
mod resumable;
mod unique;

use crate::history::History;

/// What shows that a promise was not kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The lines of the history that show it.
    pub lines: Vec<u64>,
    /// What is wrong.
    pub what: String,
}

impl Violation {
    pub(crate) fn new(lines: impl IntoIterator<Item = u64>, what: impl Into<String>) -> Self {
        Self { lines: lines.into_iter().collect(), what: what.into() }
    }
}

/// A promise, and how to look for what violates it.
#[derive(Debug, Clone, Copy)]
pub struct Validator {
    /// Its name: one word.
    pub name: &'static str,
    /// What it looks for.
    pub promise: &'static str,
    /// Finds what violates it.
    pub check: fn(&History) -> Vec<Violation>,
}

/// All validators.
pub const VALIDATORS: [Validator; 12] = [
    Validator {
        name: "chain",
        promise: "the log has no gap, every seal is what its bytes give, and relays have the same",
        check: chain::check,
    },
    Validator {
        name: "ordered",
        promise: "nobody who follows ever goes back, and every place is one of the log",
        check: ordered::check,
    },
    Validator {
        name: "unique",
        promise: "no commit is told twice, and no request commits twice",
        check: unique::check,
    },
    Validator {
        name: "atomic",
        promise: "a commit is applied and shown whole or not at all",
        check: atomic::check,
    },
    Validator {
        name: "reliable",
        promise: "no commit is skipped, and in the end everybody has all of them",
        check: reliable::check,
    },
    Validator {
        name: "resumable",
        promise: "after any disconnect a stream goes on from what the follower has",
        check: resumable::check,
    },
    Validator {
        name: "bookmarkable",
        promise: "progress is true, and what has not changed is not sent again",
        check: bookmarkable::check,
    },
    Validator {
        name: "filtered",
        promise: "a scoped stream leads to exactly the closure of its scope, at every revision",
        check: filtered::check,
    },
    Validator {
        name: "linearizable",
        promise: "writes take their places in real time, and each server reads its own answers",
        check: linearizable::check,
    },
    Validator {
        name: "references",
        promise: "at no revision does anything refer to nothing, or to itself in a circle",
        check: references::check,
    },
    Validator {
        name: "acknowledged",
        promise: "what was acknowledged is in the log, what was refused is not, and nothing else is",
        check: acknowledged::check,
    },
    Validator {
        name: "caches",
        promise: "what a gateway has on disk is a true past state, whatever happened to it",
        check: caches::check,
    },
];

//! One validator per invariant. A validator is a function from a history to its violations.

mod acknowledged;
mod approved;
mod atomic;
mod bookmarkable;
mod budget;
mod caches;
mod chain;
mod charged;
mod denied;
mod filtered;
mod linearizable;
mod ordered;
mod recovered;
mod references;
mod rejected;
mod reliable;
mod resumable;
mod single;
mod stored;
mod unique;

use crate::{event::Workload, history::History};

/// A violation of an invariant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The relevant lines of the history.
    pub lines: Vec<u64>,
    /// A description of the violation.
    pub what: String,
}

impl Violation {
    pub(crate) fn new(lines: impl IntoIterator<Item = u64>, what: impl Into<String>) -> Self {
        Self { lines: lines.into_iter().collect(), what: what.into() }
    }
}

/// An invariant and its check.
#[derive(Debug, Clone, Copy)]
pub struct Validator {
    /// The name, one word.
    pub name: &'static str,
    /// The invariant as a sentence.
    pub invariant: &'static str,
    /// Returns the violations.
    pub check: fn(&History) -> Vec<Violation>,
}

/// The validators of a history, by its workload.
pub fn validators_of(history: &History) -> &'static [Validator] {
    match history.workload() {
        Workload::Catalog => &VALIDATORS,
        Workload::Budgets => &BUDGET_VALIDATORS,
        Workload::Approvals => &APPROVAL_VALIDATORS,
    }
}

/// The validators of histories with budgets.
pub const BUDGET_VALIDATORS: [Validator; 4] = [
    Validator {
        name: "budget",
        invariant: "spending and executed calls stay within the limit and its stated exceptions",
        check: budget::check,
    },
    Validator {
        name: "charged",
        invariant: "every executed call is charged",
        check: charged::check,
    },
    Validator {
        name: "denied",
        invariant: "denied calls are not sent, and state their budget and price",
        check: denied::check,
    },
    Validator {
        name: "recovered",
        invariant: "restarted gateways leave no rights in doubt, and a crash overcharges at most one second",
        check: recovered::check,
    },
];

/// The validators of histories with approvals.
pub const APPROVAL_VALIDATORS: [Validator; 4] = [
    Validator {
        name: "approved",
        invariant: "each executed call was approved before, for its caller and its arguments",
        check: approved::check,
    },
    Validator {
        name: "single",
        invariant: "an approval is used by one call, which is sent once, and a round is continued once",
        check: single::check,
    },
    Validator {
        name: "rejected",
        invariant: "rejected calls are not sent, and state their reason",
        check: rejected::check,
    },
    Validator {
        name: "stored",
        invariant: "a used approval is never open again",
        check: stored::check,
    },
];

/// The validators of histories of a catalog.
pub const VALIDATORS: [Validator; 12] = [
    Validator {
        name: "chain",
        invariant: "the log has no gaps, its hashes are correct, and relays have the same log",
        check: chain::check,
    },
    Validator {
        name: "ordered",
        invariant: "no follower goes back, and every position is one of the log",
        check: ordered::check,
    },
    Validator {
        name: "unique",
        invariant: "no commit is delivered twice, and no request commits twice",
        check: unique::check,
    },
    Validator {
        name: "atomic",
        invariant: "commits are applied and shown atomically",
        check: atomic::check,
    },
    Validator {
        name: "reliable",
        invariant: "no commit is skipped, and all followers converge",
        check: reliable::check,
    },
    Validator {
        name: "resumable",
        invariant: "after a disconnect, a stream resumes from the follower's state",
        check: resumable::check,
    },
    Validator {
        name: "bookmarkable",
        invariant: "progress is correct, and unchanged content is not sent again",
        check: bookmarkable::check,
    },
    Validator {
        name: "filtered",
        invariant: "a scoped stream delivers exactly the closure of its scope at every revision",
        check: filtered::check,
    },
    Validator {
        name: "linearizable",
        invariant: "writes are ordered in real time, and each server reads its own answers",
        check: linearizable::check,
    },
    Validator {
        name: "references",
        invariant: "references resolve and are acyclic at every revision",
        check: references::check,
    },
    Validator {
        name: "acknowledged",
        invariant: "the log has exactly the acknowledged batches, and no rejected one",
        check: acknowledged::check,
    },
    Validator {
        name: "caches",
        invariant: "a gateway's files are correct past states after any fault",
        check: caches::check,
    },
];

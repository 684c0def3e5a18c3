//! Decides whether one JSON Schema accepts every value that another accepts, independent of how the
//! schemas are written.
//!
//! Verdicts are sound: "yes" is a proof over all values, and "no" comes with a counterexample
//! confirmed by the validators of both schemas. Otherwise the verdict is "undecided". Every
//! comparison is a pure function with a budget of steps.

mod arena;
mod arrays;
mod cases;
mod cycle;
mod decide;
mod empty;
mod equality;
mod eval;
mod logic;
mod lower;
mod names;
mod objects;
mod prover;
mod regex;
mod rejection;
mod rules;
mod sample;
mod scalars;
mod strings;
mod unevaluated;
mod value_set;

use std::fmt;

use serde_json::Value;

pub use decide::{Placed, covers, samples};

use crate::{
    limits,
    name::{Definition, SchemaName},
};

/// Maximum length of a counterexample in a message in characters.
const EXAMPLE: usize = 200;

/// Looks up named schemas.
pub type Resolve<'a> = &'a dyn Fn(&SchemaName) -> Option<Definition<'a>>;

/// The remaining steps of a series of comparisons.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Budget(usize);

impl Budget {
    /// The budget for two versions with two schemas each, compared in both directions.
    pub fn for_pair() -> Self {
        Self(4 * limits::COMPARISON_STEPS)
    }

    /// The budget for all comparisons of one batch.
    pub fn for_batch() -> Self {
        Self(limits::BATCH_COMPARISON_STEPS)
    }

    /// A budget with this number of steps.
    pub fn with_steps(steps: usize) -> Self {
        Self(steps)
    }

    /// The share of one of `parts` remaining comparisons, at least `least` steps.
    pub fn divided(&self, parts: usize, least: usize) -> Self {
        Self((self.0 / parts.max(1)).max(least))
    }

    /// Deducts the steps that a share has used.
    pub fn take_spent(&mut self, (share, left): (&Self, &Self)) {
        self.0 = self.0.saturating_sub(share.0 - left.0);
    }

    /// Whether the budget is exhausted.
    pub fn is_spent(&self) -> bool {
        self.0 == 0
    }

    fn share(&self) -> usize {
        self.0.min(limits::COMPARISON_STEPS)
    }

    /// Deducts steps; a step takes at most about a microsecond.
    pub fn spend(&mut self, steps: usize) {
        self.0 = self.0.saturating_sub(steps.max(1));
    }
}

/// Whether one JSON Schema accepts everything that another accepts.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// It accepts every such value.
    Yes,
    /// It rejects a value, which is included.
    No(Difference),
    /// Neither was proved.
    Undecided(UndecidedCheck),
}

/// The cause of a rejection: a keyword, a schema or a missing part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Assertion {
    /// A JSON Schema keyword.
    Keyword(&'static str),
    /// A whole schema: `false`, or the keyword is unknown.
    Schema,
    /// A missing part, described in words.
    Part(String),
}

impl Assertion {
    /// The keyword, if there is one.
    pub fn keyword(&self) -> Option<&'static str> {
        match self {
            Self::Keyword(keyword) => Some(keyword),
            Self::Schema | Self::Part(_) => None,
        }
    }
}

impl fmt::Display for Assertion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keyword(keyword) => write!(f, "`{keyword}`"),
            Self::Schema => f.write_str("the schema"),
            Self::Part(part) => f.write_str(part),
        }
    }
}

/// A difference between two versions, with its location.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// The rejecting keyword, or the missing part.
    pub assertion: Assertion,
    /// JSON pointer into the new document; to the `$ref` if the keyword is in another document.
    pub pointer: String,
    /// The location of the keyword in another document or version:
    /// `in schema/A@1.0.0 at /schema/type`, or `at /outputSchema/type` of the old version.
    pub referenced_location: Option<String>,
    /// A value that one version accepts and the other rejects; absent for missing parts.
    pub instance: Option<Value>,
    /// The version that rejects the value.
    pub rejected_by: Side,
}

impl Difference {
    /// Describes the counterexample, if there is one.
    pub fn example(&self) -> Option<String> {
        let Self { assertion, instance, .. } = self;
        instance.as_ref().map(|value| format!("{assertion} rejects {}", shortened(value)))
    }

    /// Describes the difference; `old` and `new` name the versions.
    pub fn explain(&self, old: &dyn fmt::Display, new: &dyn fmt::Display) -> String {
        let Self { assertion, referenced_location, instance, rejected_by, .. } = self;
        let place =
            referenced_location.as_ref().map(|place| format!(" ({place})")).unwrap_or_default();
        match (instance.as_ref().map(shortened), rejected_by) {
            (Some(value), Side::New) => {
                format!("{assertion}{place} rejects a value that {old} accepts: {value}")
            }
            (Some(value), Side::Old) => {
                format!("{assertion} of {old}{place} rejects a value that {new} accepts: {value}")
            }
            (None, Side::New) => format!("{assertion} of {old} was removed"),
            (None, Side::Old) => format!("{assertion} is not in {old}"),
        }
    }
}

/// A value on one line, truncated if long.
pub fn shortened(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(EXAMPLE) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// A comparison without a verdict, with location and reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UndecidedCheck {
    /// JSON pointer into the new document.
    pub pointer: String,
    /// The reason.
    pub reason: String,
}

/// One of the two versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The earlier version.
    Old,
    /// The later version.
    New,
}

#[cfg(test)]
mod tests;

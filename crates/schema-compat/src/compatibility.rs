//! Whether one JSON Schema accepts every value that another accepts. The comparison is about the
//! values, not about how the schemas are written.
//!
//! The answers are sound: "yes" is a proof over all values, and "no" comes with a value about which
//! real validators of the two schemas disagree. Otherwise the answer is "undecided". Every
//! comparison is a pure function with a counted budget.

mod arena;
mod arrays;
mod cases;
mod circle;
mod decide;
mod empty;
mod eval;
mod given;
mod logic;
mod lower;
mod names;
mod objects;
mod prover;
mod refusing;
mod regex;
mod rules;
mod same;
mod sample;
mod scalars;
mod texts;
mod unevaluated;

use std::fmt;

use serde_json::Value;

pub use decide::{Placed, covers, samples};

use crate::{
    limits,
    name::{Definition, SchemaName},
};

/// Longest example that a message shows, in characters.
const EXAMPLE: usize = 200;

/// Gives named schemas.
pub type Resolve<'a> = &'a dyn Fn(&SchemaName) -> Option<Definition<'a>>;

/// The steps that comparisons may still take together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Budget(usize);

impl Budget {
    /// What comparing two versions may take: two schemas of each, both ways.
    pub fn of_one() -> Self {
        Self(4 * limits::COMPARISON_STEPS)
    }

    /// The steps for all comparisons of one batch.
    pub fn of_batch() -> Self {
        Self(limits::BATCH_COMPARISON_STEPS)
    }

    /// A number of steps.
    pub fn of(steps: usize) -> Self {
        Self(steps)
    }

    /// The share of one of `parts` that still need steps, at least `least` steps.
    pub fn divided(&self, parts: usize, least: usize) -> Self {
        Self((self.0 / parts.max(1)).max(least))
    }

    /// Takes the steps that a share has spent.
    pub fn take_spent(&mut self, (share, left): (&Self, &Self)) {
        self.0 = self.0.saturating_sub(share.0 - left.0);
    }

    /// Whether nothing is left.
    pub fn is_spent(&self) -> bool {
        self.0 == 0
    }

    fn share(&self) -> usize {
        self.0.min(limits::COMPARISON_STEPS)
    }

    /// Takes steps; a step is at most about a microsecond.
    pub fn spend(&mut self, steps: usize) {
        self.0 = self.0.saturating_sub(steps.max(1));
    }
}

/// Whether one JSON Schema accepts everything that another accepts.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// It does, for every value.
    Yes,
    /// It does not, and here is a value.
    No(Difference),
    /// Neither was found.
    Undecided(UndecidedCheck),
}

/// What refuses a value, or is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Demand {
    /// A keyword of JSON Schema.
    Keyword(&'static str),
    /// All of a schema: it is `false`, or it is not known which keyword it is.
    Schema,
    /// A part that is missing, in words.
    Part(String),
}

impl Demand {
    /// The keyword, if it is one.
    pub fn keyword(&self) -> Option<&'static str> {
        match self {
            Self::Keyword(keyword) => Some(keyword),
            Self::Schema | Self::Part(_) => None,
        }
    }
}

impl fmt::Display for Demand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keyword(keyword) => write!(f, "`{keyword}`"),
            Self::Schema => f.write_str("the schema"),
            Self::Part(part) => f.write_str(part),
        }
    }
}

/// Where and how two versions differ.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// What refuses the value, or is missing.
    pub demand: Demand,
    /// JSON pointer into the new document; to the `$ref` where it leads out of the document.
    pub pointer: String,
    /// Where the keyword itself is, when that is elsewhere: `in schema/A@1.0.0 at /schema/type`, or
    /// `at /outputSchema/type` of the old version.
    pub elsewhere: Option<String>,
    /// A value that the one accepts and the other refuses; absent where no value is concerned.
    pub instance: Option<Value>,
    /// Whether it is the new version that refuses the value, or the old one.
    pub refused_by: Side,
}

impl Difference {
    /// What refuses an example, and the example; where there is one.
    pub fn example(&self) -> Option<String> {
        let Self { demand, instance, .. } = self;
        instance.as_ref().map(|value| format!("{demand} refuses {}", shortened(value)))
    }

    /// What it means, in words for people; `old` and `new` are what the two are called.
    pub fn explain(&self, old: &dyn fmt::Display, new: &dyn fmt::Display) -> String {
        let Self { demand, elsewhere, instance, refused_by, .. } = self;
        let place = elsewhere.as_ref().map(|place| format!(" ({place})")).unwrap_or_default();
        match (instance.as_ref().map(shortened), refused_by) {
            (Some(value), Side::New) => {
                format!("{demand}{place} refuses what {old} allows: {value}")
            }
            (Some(value), Side::Old) => {
                format!("{demand} of {old}{place} refuses what {new} allows: {value}")
            }
            (None, Side::New) => format!("{demand} of {old} is gone"),
            (None, Side::Old) => format!("{demand} is not in {old}"),
        }
    }
}

/// A value on one line, cut where it is long.
pub fn shortened(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(EXAMPLE) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// Where and why two versions could not be compared to the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UndecidedCheck {
    /// JSON pointer into the new document.
    pub pointer: String,
    /// Why.
    pub reason: String,
}

/// One of the two versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The earlier one.
    Old,
    /// The later one.
    New,
}

#[cfg(test)]
mod tests;

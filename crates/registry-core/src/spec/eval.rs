//! What is pure of running a composition: projections, bindings, predicates and aggregation.
//!
//! Everything is a function of values and a [`Budget`]: no evaluation looks, produces or nests more
//! than that allows, whatever was registered and whatever comes in. An [`Error`] says where in the
//! spec and why, and never what a value was.

mod aggregation;
mod binding;
mod budget;
mod order;
mod predicate;
mod projection;

use schema_compat::pointer::At;
use serde_json::Value;

pub use self::{
    aggregation::aggregate,
    binding::{Scope, keys},
    budget::Budget,
    order::{compare, is_same},
};
pub use crate::decode::describe_kind;
use crate::limits;

/// Why something could not be evaluated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("at {}: {reason}", if .pointer.is_empty() { "the top" } else { .pointer })]
pub struct Error {
    /// Where in what was evaluated, as a JSON pointer.
    pub pointer: String,
    /// Why.
    pub reason: Reason,
}

/// Why something could not be evaluated, wherever it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// The paths look at too much.
    #[error(
        "the paths could take more than {max} looks at a value of this size",
        max = limits::EVAL_LOOKS
    )]
    TooMuchWork,
    /// Too much would be produced.
    #[error("more than {max_bytes} bytes would be produced")]
    TooLarge {
        /// How much is allowed.
        max_bytes: usize,
    },
    /// Too many values would be produced.
    #[error("more than {max} values would be produced", max = limits::EVAL_VALUES)]
    TooMany,
    /// It would nest too deep.
    #[error("it would nest deeper than {max} levels", max = limits::EVAL_DEPTH)]
    TooDeep,
    /// A binding that stands alone selects nothing.
    #[error("it selects nothing")]
    Nothing,
    /// A step has no result.
    #[error("the step that it refers to has no result")]
    NoResult,
    /// Nothing has failed.
    #[error("there is no error that it could refer to")]
    NoError,
    /// An array is needed.
    #[error("it needs an array, and there is {found}")]
    NotAnArray {
        /// What there is.
        found: &'static str,
    },
    /// Only objects can be merged.
    #[error("it needs an array of objects, and there is {found} in it")]
    NotAnObject {
        /// What there is.
        found: &'static str,
    },
}

impl Reason {
    fn at(self, at: At<'_>) -> Error {
        Error { pointer: at.to_string(), reason: self }
    }

    fn not_an_array(value: &Value) -> Self {
        Self::NotAnArray { found: describe_kind(value) }
    }
}

#[cfg(test)]
mod tests;

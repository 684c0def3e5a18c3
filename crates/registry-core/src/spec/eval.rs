//! Pure evaluation for running compositions: projections, bindings, predicates and aggregation.
//!
//! Everything is a function of values and a [`Budget`], which limits visits, output and nesting for
//! any registered path and any input. An [`Error`] contains the location in the spec and the
//! reason, but never a value.

mod aggregation;
mod binding;
mod budget;
mod order;
mod predicate;
mod projection;

use schema_compat::pointer::Location;
use serde_json::Value;

pub use self::{
    aggregation::aggregate,
    binding::{BindingContext, keys},
    budget::Budget,
    order::{compare, is_same},
};
pub use crate::decode::describe_kind;
use crate::limits;

/// An evaluation failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("at {}: {reason}", if .pointer.is_empty() { "the top" } else { .pointer })]
pub struct Error {
    /// JSON pointer into the evaluated part of the spec.
    pub pointer: String,
    /// The reason.
    pub reason: Reason,
}

/// The reason of a failed evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// The paths could visit too many values.
    #[error(
        "the paths could visit more than {max} values of an input of this size",
        max = limits::EVAL_LOOKS
    )]
    TooMuchWork,
    /// The result would have too many bytes.
    #[error("the result would exceed {max_bytes} bytes")]
    TooLarge {
        /// The limit in bytes.
        max_bytes: usize,
    },
    /// The result would have too many values.
    #[error("the result would exceed {max} values", max = limits::EVAL_VALUES)]
    TooMany,
    /// The result would be nested too deep.
    #[error("the result would be nested deeper than {max} levels", max = limits::EVAL_DEPTH)]
    TooDeep,
    /// A binding outside of a `construct` selects nothing.
    #[error("the binding selects nothing")]
    Nothing,
    /// The referenced step has no result.
    #[error("the referenced step has no result")]
    NoResult,
    /// There is no error to refer to.
    #[error("there is no error to refer to")]
    NoError,
    /// The value is not an array.
    #[error("expected an array, got {found}")]
    NotAnArray {
        /// The type of the value.
        found: &'static str,
    },
    /// An item is not an object, so the items cannot be merged.
    #[error("expected an array of objects, but it contains {found}")]
    NotAnObject {
        /// The type of the item.
        found: &'static str,
    },
}

impl Reason {
    fn at(self, at: Location<'_>) -> Error {
        Error { pointer: at.to_string(), reason: self }
    }

    fn not_an_array(value: &Value) -> Self {
        Self::NotAnArray { found: describe_kind(value) }
    }
}

#[cfg(test)]
mod tests;

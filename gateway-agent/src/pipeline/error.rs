//! Why a call gives no result of the tool's own.
//!
//! Deliberately absent: how each is answered; `respond` has the one mapping.

use registry_core::schema_compile::Violation;

use super::{arguments::InvalidArguments, mirror::Mismatch, projection};
use crate::{composition, permit::Denial, upstream};

/// Why a call failed in the gateway or beyond it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The gateway knows no tools at all.
    #[error("no catalog yet")]
    NoCatalog,
    /// The policy says no.
    #[error(transparent)]
    Denied(#[from] Denial),
    /// A header does not mirror its argument.
    #[error(transparent)]
    Mirror(#[from] Mismatch),
    /// The arguments are no object that all readers read alike.
    #[error(transparent)]
    Arguments(#[from] InvalidArguments),
    /// An argument that the caller may not send.
    #[error("the argument {pointer} is hidden")]
    HiddenField {
        /// Where it is.
        pointer: String,
    },
    /// The arguments break the input schema.
    #[error("the arguments break the input schema: {}", summary(.violations))]
    InvalidInput {
        /// What is wrong; values are not part of the log's message.
        violations: Vec<Violation>,
    },
    /// The input schema itself cannot be used, so nothing can be checked.
    #[error("the input schema cannot be used: {reason}")]
    UnusableSchema {
        /// Why.
        reason: String,
    },
    /// A default needs a variable that is not configured.
    #[error("the default at {pointer} needs the variable `{name}`, which is not configured")]
    MissingVariable {
        /// The default's place.
        pointer: String,
        /// The variable.
        name: String,
    },
    /// The result breaks the output schema.
    #[error("the result breaks the output schema: {}", summary(.violations))]
    InvalidOutput {
        /// What is wrong.
        violations: Vec<Violation>,
    },
    /// A composition came to no result.
    #[error(transparent)]
    Composition(Box<composition::Failed>),
    /// The result could not be projected, so nothing of it passes.
    #[error("the result could not be projected: {0}")]
    Projection(#[from] projection::Failure),
    /// The upstream wants to ask the user something for which this caller has no means.
    #[error("the upstream asks for {capability}, which the caller did not declare")]
    Incapable {
        /// The capability that is missing.
        capability: &'static str,
    },
    /// The upstream asks again and again.
    #[error("the upstream asked for input {rounds} times without coming to a result")]
    EndlessInput {
        /// How often it was answered.
        rounds: usize,
    },
    /// What the caller sends does not go on with anything that waits for it.
    #[error("nothing waits for this input any more")]
    NothingWaits,
    /// The call is a task, or is none, against the tool's `execution.taskSupport`.
    #[error("{}", if *.is_required {
        "the tool must be called as a task"
    } else {
        "the tool cannot be called as a task"
    })]
    TaskSupport {
        /// Whether it must be a task.
        is_required: bool,
    },
    /// The upstream gave no result.
    #[error(transparent)]
    Upstream(#[from] upstream::Error),
}

/// Where it is wrong, without the values.
fn summary(violations: &[Violation]) -> String {
    let pointers: Vec<_> = violations.iter().map(|found| found.pointer.as_str()).collect();
    format!("at [{}]", pointers.join(", "))
}

//! The causes of failures, with messages for logs.

use std::sync::Arc;

use gateway_policy::QuotaExceeded;
use registry_core::spec::{Path, Target, eval};
use serde_json::Value;

use super::Failure;
use crate::{
    StepError,
    history::{SagaEnd, SagaStatus},
};

/// The cause of a failure. No message contains a value, except the error message of a tool.
#[derive(Debug, thiserror::Error)]
pub enum Cause {
    /// The call returned no result.
    #[error("{tool}: {error}")]
    Call {
        /// The tool.
        tool: Target,

        /// The error of the call.
        error: StepError,
    },
    /// The tool returned an error.
    #[error("{tool} returned an error")]
    Tool {
        /// The tool.
        tool: Target,
        /// The error message.
        text: Option<String>,
        /// The value of the result.
        value: Box<Value>,
    },
    /// The result of a tool cannot be parsed.
    #[error(
        "cannot read the result of {tool}: it is nested too deeply or has a number out of range"
    )]
    UnreadableResult {
        /// The tool.
        tool: Target,
    },
    /// The result of a saga step is nested too deeply for the journal.
    #[error("the step succeeded, but its result is nested too deeply for the saga journal")]
    ResultTooDeep,
    /// The input of a tool is not an object.
    #[error("the input of {tool} must be an object, not {found}")]
    NotAnObject {
        /// The tool.
        tool: Target,
        /// The kind of the value.
        found: &'static str,
    },
    /// An expression of the spec cannot be evaluated.
    #[error("{what} {error}")]
    Evaluation {
        /// The field of the spec.
        what: &'static str,
        /// The evaluation error.
        error: eval::Error,
    },
    /// The time limit has passed.
    #[error("timed out after {after_ms} ms")]
    Timeout {
        /// The time limit.
        after_ms: u64,
        /// The message that the spec sets.
        message: Option<String>,
    },
    /// No target of a scatter returned a result.
    #[error("{}", describe_no_results(*.of, .first.as_ref(), Failure::to_string))]
    NoResults {
        /// The number of targets.
        of: usize,
        /// The first failure. `None`: no target failed before the timeout.
        first: Option<Failure>,
    },
    /// An array has too many items.
    #[error("the array has {found} items; the limit is {most}")]
    TooManyItems {
        /// The number of items.
        found: usize,
        /// The limit.
        most: usize,
    },
    /// The run has reached its limit of tool calls.
    #[error("the composition exceeds the limit of {most} tool calls")]
    TooManyCalls {
        /// The limit.
        most: u32,
    },
    /// The results of the run exceed the size limit.
    #[error("the results of the composition exceed {most} bytes")]
    TooLarge {
        /// The limit in bytes.
        most: usize,
    },
    /// The result exceeds the memory that is left for the caller.
    #[error("the result was discarded: {0}")]
    BufferLimit(QuotaExceeded),
    /// The circuit breaker is open.
    #[error("circuit breaker `{name}` is open, retry in {retry_after_s} s; nothing was done")]
    CircuitOpen {
        /// The name of the breaker.
        name: Box<str>,
        /// Seconds until the next probe.
        retry_after_s: u64,
    },
    /// The key of an idempotent operation or saga is missing.
    #[error("the key path {path} selects no value in the input; nothing was done")]
    MissingKey {
        /// The key path.
        path: Path,
    },
    /// The key has a number that may have lost precision.
    #[error(
        "the key has a number that cannot be compared exactly (outside the 64-bit integers or a \
         fraction beyond ±2^53); nothing was done; pass the number as a string"
    )]
    InexactKey,
    /// The saga id is too long.
    #[error("the saga id exceeds {most} bytes; nothing was done")]
    IdTooLong {
        /// The limit in bytes.
        most: usize,
    },
    /// The key was used before.
    #[error("a call with the same key has run or is running; nothing was done")]
    Duplicate,
    /// There is no room for another key.
    #[error("{0}; nothing was done")]
    NoCapacity(QuotaExceeded),
    /// The operation and its dead-letter tool failed.
    #[error("{failure}; the dead-letter tool failed too: {letter}")]
    DeadLetter {
        /// The failure of the operation.
        failure: Failure,
        /// The failure of the dead-letter tool.
        letter: Failure,
    },
    /// The caller cancelled.
    #[error("cancelled by the caller")]
    Cancelled,
    /// The operation ended without an outcome.
    #[error("the operation was abandoned; its outcome is unknown")]
    Abandoned,
    /// A saga did not complete.
    #[error("{}", describe_end(.0, "reason"))]
    Saga(Arc<SagaEnd>),
    /// Too many sagas are running or wait for an operator.
    #[error("too many sagas{whose} are running or wait for an operator; nothing was done")]
    TooManySagas {
        /// Empty, or ` of this caller` for the limit of one caller.
        whose: &'static str,
    },
    /// The journal cannot be written, so the step was not started.
    #[error("cannot write the saga journal: {0}; the step was not started")]
    Journal(String),
    /// The result cannot be serialized.
    #[error("cannot serialize the result as JSON")]
    Unserializable,
}

/// Formats the failure of a scatter.
pub(super) fn describe_no_results(
    of: usize,
    first: Option<&Failure>,
    words: impl Fn(&Failure) -> String,
) -> String {
    let first = first.map_or_else(|| "the timeout passed".to_owned(), words);
    format!("none of the {of} targets returned a result; first failure: {first}")
}

/// Formats the end of a saga. `member` selects the `message` for callers or the `reason` for logs.
pub(super) fn describe_end(end: &SagaEnd, member: &str) -> String {
    let error = end.error.as_ref().and_then(|error| error.get(member));
    let error = error.and_then(Value::as_str).unwrap_or("stopped");
    let step = end.failed_step.as_deref().map(|id| format!(" at `{id}`")).unwrap_or_default();
    if end.status == SagaStatus::CompensationFailed && end.steps.is_empty() {
        return format!("the saga needs the gateway's operator: {error}");
    }
    let (left, unsure) = (end.left().join("`, `"), end.unsure().join("`, `"));
    if !left.is_empty() {
        return format!(
            "the saga failed{step}; `{left}` could not be compensated and needs the gateway's \
             operator: {error}"
        );
    }
    if !unsure.is_empty() {
        return format!(
            "the saga failed{step}; the outcome of `{unsure}` is unknown and was not compensated, \
             because the step does not set `compensateOnUnknown`; the steps before it were \
             compensated: {error}"
        );
    }
    if end.is_idle() {
        return format!("the saga failed{step} before any step had effects: {error}");
    }
    format!("the saga failed{step}; its completed steps were compensated: {error}")
}

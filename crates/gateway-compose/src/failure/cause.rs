//! The causes of failures, in words for logs.

use std::sync::Arc;

use gateway_policy::Exhausted;
use registry_core::spec::{Path, Target, eval};
use serde_json::Value;

use super::Failure;
use crate::{
    StepError,
    history::{End, Status},
};

/// Why a step failed. No message repeats a value, but for what a tool says of itself.
#[derive(Debug, thiserror::Error)]
pub enum Cause {
    /// The call gave no result.
    #[error("{tool}: {error}")]
    Call {
        /// The tool.
        tool: Target,
        /// Why.
        error: StepError,
    },
    /// The tool says that it failed.
    #[error("{tool} says that it failed")]
    Tool {
        /// The tool.
        tool: Target,
        /// Its words.
        text: Option<String>,
        /// What its result holds, or else its words.
        said: Value,
    },
    /// What a tool gave cannot be worked with.
    #[error("the result of {tool} nests too deep, or has a number that is too large")]
    Unreadable {
        /// The tool.
        tool: Target,
    },
    /// What a step of a saga gave cannot be written down.
    #[error("its result nests too deep for the journal of sagas; it was done")]
    TooDeep,
    /// What a tool would get is no object.
    #[error("{tool} takes an object, and there is {found}")]
    NoObject {
        /// The tool.
        tool: Target,
        /// What there is.
        found: &'static str,
    },
    /// Something of the spec does not fit what came.
    #[error("{what} {error}")]
    Evaluation {
        /// What was evaluated.
        what: &'static str,
        /// Where and why.
        error: eval::Error,
    },
    /// It took too long.
    #[error("no result in {after_ms} ms")]
    Timeout {
        /// The limit.
        after_ms: u64,
        /// What the spec says for this case.
        message: Option<String>,
    },
    /// Nothing of a scatter came in, or not in time.
    #[error("{}", told_nothing(*.of, .first.as_ref(), Failure::to_string))]
    NothingArrived {
        /// How many there are.
        of: usize,
        /// What failed first; `None`: nothing did, in the time that there was.
        first: Option<Failure>,
    },
    /// An array has more items than are worked through.
    #[error("{found} items, {most} are worked through at most")]
    TooManyItems {
        /// How many there are.
        found: usize,
        /// How many may be.
        most: usize,
    },
    /// The run has made as many calls as it may.
    #[error("one call of a composition makes at most {most} calls of tools")]
    TooManyCalls {
        /// How many may be.
        most: u32,
    },
    /// The run's values, or its result, take too much.
    #[error("the results in one call of a composition, or its own, take more than {most} bytes")]
    TooLarge {
        /// How much they may.
        most: usize,
    },
    /// The caller has no memory left for the result.
    #[error("no memory for the result: {0}; it was discarded")]
    NoMemory(Exhausted),
    /// Its breaker is open; nothing was done.
    #[error("the circuit breaker `{name}` is open for {retry_after_s} s; nothing was done")]
    Open {
        /// The breaker.
        name: Box<str>,
        /// When it will let something through, in seconds.
        retry_after_s: u64,
    },
    /// A key of what must not happen twice is not there.
    #[error("the key {path} selects nothing in the input; nothing was done")]
    NoKey {
        /// The path.
        path: Path,
    },
    /// A key has a number that may have lost digits.
    #[error(
        "the key has a number that cannot be compared exactly, beyond the 64-bit integers or a \
         fraction beyond ±2^53; nothing was done; pass it as a string"
    )]
    InexactKey,
    /// The id of a saga takes too much.
    #[error("the id of the saga takes more than {most} bytes; nothing was done")]
    LongId {
        /// How much it may.
        most: usize,
    },
    /// It was done before.
    #[error("the same was done before, or is being done; nothing was done")]
    Duplicate,
    /// What must not happen twice cannot be remembered.
    #[error("{0}; nothing was done")]
    Full(Exhausted),
    /// It failed, and so did the tool that was to be told.
    #[error("{failure}; the dead-letter tool failed, too: {letter}")]
    DeadLetter {
        /// The failure.
        failure: Failure,
        /// Why it could not be delivered.
        letter: Failure,
    },
    /// Its caller went away.
    #[error("its caller went away")]
    Cancelled,
    /// Nobody goes on with it.
    #[error("it was given up; nobody knows what was done")]
    GivenUp,
    /// A saga did not complete.
    #[error("{}", told_end(.0, "reason"))]
    Saga(Arc<End>),
    /// As many sagas are under way, or need somebody, as may be, or they hold as much.
    #[error(
        "as many sagas{whose} are under way or wait for an operator as may be; nothing was done"
    )]
    TooManySagas {
        /// Whose there are too many: one caller's, or all.
        whose: &'static str,
    },
    /// What is about to be done cannot be written down.
    #[error("the journal of sagas cannot be written: {0}; it was not done")]
    Journal(String),
    /// What came out cannot be written.
    #[error("the result cannot be written as JSON")]
    Unwritable,
}

/// That nothing of a scatter came in, with the first failure in these words.
pub(super) fn told_nothing(
    of: usize,
    first: Option<&Failure>,
    words: impl Fn(&Failure) -> String,
) -> String {
    let first = first.map_or_else(|| "the time was over".to_owned(), words);
    format!("none of {of} targets gave a result; the first failure: {first}")
}

/// What became of a saga, and why: the `message` is for callers, the `reason` is one word.
pub(super) fn told_end(end: &End, why: &str) -> String {
    let error = end.error.as_ref().and_then(|error| error.get(why));
    let error = error.and_then(Value::as_str).unwrap_or("it was stopped");
    let step = end.failed_step.as_deref().map(|id| format!(" at `{id}`")).unwrap_or_default();
    if end.status == Status::CompensationFailed && end.steps.is_empty() {
        return format!("the saga is left to the gateway's operator: {error}");
    }
    let (left, unsure) = (end.left().join("`, `"), end.unsure().join("`, `"));
    if !left.is_empty() {
        return format!(
            "the saga failed{step}, and `{left}` could not be undone, which is left to the \
             gateway's operator: {error}"
        );
    }
    if !unsure.is_empty() {
        return format!(
            "the saga failed{step}; what `{unsure}` has done is not known, and was not undone, for \
             it does not say `compensateOnUnknown`; what was done before was undone: {error}"
        );
    }
    if end.is_idle() {
        return format!("the saga failed{step}, before which it had done nothing: {error}");
    }
    format!("the saga failed{step}, and what it had done was undone: {error}")
}

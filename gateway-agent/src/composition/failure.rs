//! Why a step of a composition failed, and whether anybody knows what it did.
//!
//! Deliberately absent: the words for callers (`respond`).

use std::{fmt, sync::Arc};

use registry_core::spec::{Path, Target, eval};
use serde_json::{Value, json};

use super::sagas::{End, Status};
use crate::{audit::Ended, pipeline::Error, respond, shares::Exhausted};

/// A step that failed. Cheap to copy: several may wait for the same.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The step, with the ids of those around it before it; empty: the composition as a whole.
    pub step: Box<str>,
    /// Why.
    pub cause: Arc<Cause>,
    /// What else the same operation has done.
    beside: Beside,
}

/// What else an operation of several parts has done, or may have, when one of them failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Beside {
    /// Nothing that lasts.
    Nothing,
    /// Something.
    Done,
    /// Nobody knows.
    Unknown,
}

/// Why a step failed. No message repeats a value, but for what a tool says of itself.
#[derive(Debug, thiserror::Error)]
pub enum Cause {
    /// The call gave no result.
    #[error("{tool}: {error}")]
    Call {
        /// The tool.
        tool: Target,
        /// Why.
        error: Error,
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
    #[error("none of {of} targets gave a result; the first failure: {}", told(first.as_ref(), Failure::to_string))]
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
    /// As many sagas are under way, or need somebody, as may be.
    #[error("as many sagas are under way or wait for an operator as may be; nothing was done")]
    TooManySagas,
    /// What is about to be done cannot be written down.
    #[error("the journal of sagas cannot be written: {0}; it was not done")]
    Journal(String),
    /// What came out cannot be written.
    #[error("the result cannot be written as JSON")]
    Unwritable,
}

fn told(failure: Option<&Failure>, words: impl Fn(&Failure) -> String) -> String {
    failure.map_or_else(|| "the time was over".to_owned(), words)
}

/// What became of a saga, and why: the `message` is for callers, the `reason` is one word.
fn told_end(end: &End, why: &str) -> String {
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

impl Failure {
    pub(super) fn new(step: &str, cause: Cause) -> Self {
        Self { step: step.into(), cause: Arc::new(cause), beside: Beside::Nothing }
    }

    /// The same, where this was done beside.
    pub(super) fn beside(self, beside: Beside) -> Self {
        Self { beside: self.beside.max(beside), ..self }
    }

    /// What an operation that failed so has done, apart from what failed.
    pub(super) fn what_else(&self) -> Beside {
        if self.is_unknown() {
            return Beside::Unknown;
        }
        match &*self.cause {
            Cause::Call { error: Error::Composition(failed), .. } => {
                self.beside.max(failed.failure.what_else())
            }
            _ => self.beside,
        }
    }

    pub(super) fn evaluation(step: &str, what: &'static str, error: eval::Error) -> Self {
        Self::new(step, Cause::Evaluation { what, error })
    }

    /// Whether nobody knows what was done, if anything.
    pub(super) fn is_unknown(&self) -> bool {
        self.beside == Beside::Unknown || self.is_unknown_itself()
    }

    fn is_unknown_itself(&self) -> bool {
        match &*self.cause {
            Cause::Call { error, .. } => is_unknown(error),
            Cause::Timeout { .. }
            | Cause::TooLarge { .. }
            | Cause::Unreadable { .. }
            | Cause::Cancelled
            | Cause::GivenUp => true,
            Cause::Saga(end) => {
                end.status == Status::CompensationFailed || !end.unsure().is_empty()
            }
            Cause::DeadLetter { failure, .. } => failure.is_unknown(),
            Cause::Tool { .. }
            | Cause::NoObject { .. }
            | Cause::NothingArrived { .. }
            | Cause::Evaluation { .. }
            | Cause::TooManyItems { .. }
            | Cause::TooManyCalls { .. }
            | Cause::Open { .. }
            | Cause::NoKey { .. }
            | Cause::LongId { .. }
            | Cause::Duplicate
            | Cause::Full(_)
            | Cause::TooManySagas
            | Cause::Journal(_)
            | Cause::Unwritable => false,
        }
    }

    /// In one word.
    pub fn reason(&self) -> &'static str {
        match &*self.cause {
            Cause::Call { error, .. } => Ended::of(error).as_str(),
            Cause::Tool { .. } => "tool-error",
            Cause::NoObject { .. } | Cause::Evaluation { .. } | Cause::Unreadable { .. } => {
                "invalid-value"
            }
            Cause::Timeout { .. } => "timeout",
            Cause::NothingArrived { .. } => "nothing-arrived",
            Cause::TooManyItems { .. }
            | Cause::TooManyCalls { .. }
            | Cause::TooLarge { .. }
            | Cause::LongId { .. }
            | Cause::Unwritable => "limit",
            Cause::Open { .. } => "breaker-open",
            Cause::NoKey { .. } => "no-key",
            Cause::Duplicate => "duplicate",
            Cause::Full(_) | Cause::TooManySagas => "full",
            Cause::Cancelled => "cancelled",
            Cause::GivenUp => "given-up",
            Cause::Saga(_) => "saga-failed",
            Cause::Journal(_) => "journal",
            Cause::DeadLetter { .. } => "dead-letter-failed",
        }
    }

    /// For the caller's eyes.
    pub fn message(&self) -> String {
        match &*self.cause {
            Cause::Call { tool, error } => respond::words_for(&tool.to_string(), error),
            Cause::Tool { tool, text: Some(text), .. } => format!("{tool} failed: {text}"),
            Cause::Timeout { message: Some(message), .. } => message.clone(),
            Cause::Saga(end) => told_end(end, "message"),
            Cause::NothingArrived { of, first } => {
                let words = |first: &Self| format!("step `{}`: {}", first.step, first.message());
                let first = told(first.as_ref(), words);
                format!("none of {of} targets gave a result; the first failure: {first}")
            }
            Cause::DeadLetter { failure, letter } => format!(
                "{}; the dead-letter tool failed, too: {}",
                failure.message(),
                letter.message()
            ),
            other => other.to_string(),
        }
    }

    /// As conditions, dead letters and compensations see it.
    pub fn to_value(&self) -> Value {
        let mut value = json!({
            "step": &*self.step,
            "reason": self.reason(),
            "message": self.message(),
        });
        if let Cause::Tool { tool, said, .. } = &*self.cause {
            value["tool"] = tool.to_string().into();
            value["result"] = said.clone();
        }
        if let Cause::Call { tool, .. } = &*self.cause {
            value["tool"] = tool.to_string().into();
        }
        if let (Cause::Saga(end), Value::Object(members)) = (&*self.cause, &mut value)
            && let Ok(Value::Object(end)) = serde_json::to_value(&**end)
        {
            members.extend(end);
        }
        value
    }
}

/// Whether the tool may have done something without saying how it went.
fn is_unknown(error: &Error) -> bool {
    match error {
        Error::Composition(failed) => failed.failure.is_unknown(),
        Error::Upstream(error) => error.may_have_run(),
        Error::InvalidOutput { .. }
        | Error::Projection(_)
        // It had begun when it asked.
        | Error::Incapable { .. }
        | Error::EndlessInput { .. }
        | Error::NothingWaits => true,
        Error::NoCatalog
        | Error::Denied(_)
        | Error::Mirror(_)
        | Error::Arguments(_)
        | Error::HiddenField { .. }
        | Error::InvalidInput { .. }
        | Error::UnusableSchema { .. }
        | Error::MissingVariable { .. } => false,
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.step.is_empty() {
            write!(f, "step `{}`: ", self.step)?;
        }
        self.cause.fmt(f)
    }
}

#[cfg(test)]
mod tests;

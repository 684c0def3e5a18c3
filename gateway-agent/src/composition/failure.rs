//! Why a step of a composition failed, and whether anybody knows what it did.
//!
//! Deliberately absent: the words for callers (`respond`).

mod cause;

use std::{fmt, sync::Arc, time::Duration};

use registry_core::spec::eval;
use serde_json::{Value, json};

pub use self::cause::Cause;
use self::cause::{told_end, told_nothing};
use super::sagas::Status;
use crate::{audit::Ended, pipeline::Error, respond, upstream};

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

impl Failure {
    pub(super) fn new(step: &str, cause: Cause) -> Self {
        Self { step: step.into(), cause: Arc::new(cause), beside: Beside::Nothing }
    }

    /// The same, where this was done beside.
    pub(super) fn beside(self, beside: Beside) -> Self {
        Self { beside: self.beside.max(beside), ..self }
    }

    /// What an operation that failed so has done, or may have.
    pub(super) fn what_else(&self) -> Beside {
        self.beside.max(itself(&self.cause))
    }

    /// Whether nobody knows what was done, if anything.
    pub(super) fn is_unknown(&self) -> bool {
        self.what_else() == Beside::Unknown
    }

    /// When it may go better, where nothing was done because what was to be called is spared.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        if self.what_else() > Beside::Nothing {
            return None;
        }
        match &*self.cause {
            Cause::Call { error: Error::Upstream(upstream::Error::Spared(open)), .. } => {
                Some(open.retry_after)
            }
            Cause::Call { error: Error::Composition(failed), .. } => failed.failure.retry_after(),
            Cause::Open { retry_after_s, .. } => Some(Duration::from_secs(*retry_after_s)),
            _ => None,
        }
    }

    pub(super) fn evaluation(step: &str, what: &'static str, error: eval::Error) -> Self {
        Self::new(step, Cause::Evaluation { what, error })
    }

    /// Whether the tool gave a result that does not say that it failed, and only that result is refused.
    pub(super) fn is_about_result(&self) -> bool {
        matches!(
            &*self.cause,
            Cause::Call { error: Error::InvalidOutput { .. } | Error::Projection(_), .. }
                | Cause::Unreadable { .. }
                | Cause::NoMemory(_)
        )
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
            | Cause::NoMemory(_)
            | Cause::LongId { .. }
            | Cause::TooDeep
            | Cause::Unwritable => "limit",
            Cause::Open { .. } => "breaker-open",
            Cause::NoKey { .. } => "no-key",
            Cause::InexactKey => "inexact-key",
            Cause::Duplicate => "duplicate",
            Cause::Full(_) | Cause::TooManySagas { .. } => "full",
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
                told_nothing(*of, first.as_ref(), words)
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

/// What that which failed so has done itself, or may have without saying how it went.
fn itself(cause: &Cause) -> Beside {
    let is_unknown = match cause {
        Cause::Call { error: Error::Composition(failed), .. } => return failed.failure.what_else(),
        Cause::DeadLetter { failure, letter } => {
            return failure.what_else().max(letter.what_else());
        }
        Cause::Call { error, .. } => may_have_run(error),
        Cause::Timeout { .. }
        | Cause::TooLarge { .. }
        | Cause::NoMemory(_)
        | Cause::Unreadable { .. }
        | Cause::TooDeep
        | Cause::Cancelled
        | Cause::GivenUp => true,
        Cause::Saga(end) => end.status == Status::CompensationFailed || !end.unsure().is_empty(),
        Cause::Tool { .. }
        | Cause::NoObject { .. }
        | Cause::NothingArrived { .. }
        | Cause::Evaluation { .. }
        | Cause::TooManyItems { .. }
        | Cause::TooManyCalls { .. }
        | Cause::Open { .. }
        | Cause::NoKey { .. }
        | Cause::InexactKey
        | Cause::LongId { .. }
        | Cause::Duplicate
        | Cause::Full(_)
        | Cause::TooManySagas { .. }
        | Cause::Journal(_)
        | Cause::Unwritable => false,
    };
    if is_unknown { Beside::Unknown } else { Beside::Nothing }
}

/// Whether the tool may have run without saying how it went.
fn may_have_run(error: &Error) -> bool {
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
        | Error::TaskSupport { .. }
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

//! The failures of steps, and their side effects.

mod cause;

use std::{fmt, sync::Arc, time::Duration};

use gateway_policy::Outcome;
use registry_core::spec::eval;
use serde_json::{Value, json};

pub use self::cause::Cause;
use self::cause::{told_end, told_nothing};
use super::{Effects, StepError};
use crate::history::Status;

/// A step that failed. Cheap to copy: several may wait for the same.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The step, with the ids of those around it before it; empty: the composition as a whole.
    pub step: Box<str>,
    /// Why.
    pub cause: Arc<Cause>,
    /// The side effects of the other parts of the operation.
    beside: Effects,
}

impl Failure {
    pub(super) fn new(step: &str, cause: Cause) -> Self {
        Self { step: step.into(), cause: Arc::new(cause), beside: Effects::None }
    }

    /// The same, where this was done beside.
    pub(super) fn beside(self, beside: Effects) -> Self {
        Self { beside: self.beside.max(beside), ..self }
    }

    /// What an operation that failed so has done, or may have.
    pub fn effects(&self) -> Effects {
        self.beside.max(own_effects(&self.cause))
    }

    /// Whether nobody knows what was done, if anything.
    pub(super) fn is_unknown(&self) -> bool {
        self.effects() == Effects::Unknown
    }

    /// When it may go better, where nothing was done because what was to be called is spared.
    pub fn retry_after(&self) -> Option<Duration> {
        if self.effects() > Effects::None {
            return None;
        }
        match &*self.cause {
            Cause::Call { error, .. } => error.retry_after,
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
            Cause::Call { error: StepError { rejects_result: true, .. }, .. }
                | Cause::Unreadable { .. }
                | Cause::NoMemory(_)
        )
    }

    /// The outcome of a composition that failed so.
    pub fn outcome(&self) -> Outcome {
        match &*self.cause {
            Cause::Call { error, .. } => error.outcome,
            Cause::Timeout { .. } => Outcome::UpstreamTimeout,
            _ => Outcome::ToolError,
        }
    }

    /// In one word.
    pub fn reason(&self) -> &'static str {
        match &*self.cause {
            Cause::Call { error, .. } => error.outcome.as_str(),
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
            Cause::Call { error, .. } => error.message.clone(),
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
fn own_effects(cause: &Cause) -> Effects {
    let is_unknown = match cause {
        Cause::Call { error, .. } => return error.effects,
        Cause::DeadLetter { failure, letter } => {
            return failure.effects().max(letter.effects());
        }
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
    if is_unknown { Effects::Unknown } else { Effects::None }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.step.is_empty() {
            write!(f, "step `{}`: ", self.step)?;
        }
        self.cause.fmt(f)
    }
}

/// The place of a step within another.
pub(super) fn under(at: &str, step: &str) -> String {
    if at.is_empty() { step.to_owned() } else { format!("{at}/{step}") }
}

#[cfg(test)]
mod tests;

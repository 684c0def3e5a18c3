//! The failures of steps, and their side effects.

mod cause;

use std::{fmt, sync::Arc, time::Duration};

use gateway_policy::CallOutcome;
use registry_core::spec::eval;
use serde_json::{Value, json};

pub use self::cause::Cause;
use self::cause::{describe_end, describe_no_results};
use crate::history::SagaStatus;
use crate::{Effects, StepError};

/// The failure of a step. It is cheap to clone.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The path of the step: the ids of the enclosing steps and its own. Empty: the whole
    /// composition.
    pub step: Box<str>,
    /// The cause.
    pub cause: Arc<Cause>,
    /// The side effects of the other parts of the operation.
    other_effects: Effects,
}

impl Failure {
    pub(super) fn new(step: &str, cause: Cause) -> Self {
        Self { step: step.into(), cause: Arc::new(cause), other_effects: Effects::None }
    }

    /// Adds the side effects of other parts of the operation.
    pub(super) fn with_effects(self, effects: Effects) -> Self {
        Self { other_effects: self.other_effects.max(effects), ..self }
    }

    /// The side effects of the failed operation.
    pub fn effects(&self) -> Effects {
        self.other_effects.max(own_effects(&self.cause))
    }

    /// Whether the side effects are unknown.
    pub(super) fn is_unknown(&self) -> bool {
        self.effects() == Effects::Unknown
    }

    /// The time after which a retry can succeed, if a circuit breaker prevented the call and
    /// nothing else had effects.
    pub fn retry_after(&self) -> Option<Duration> {
        if self.effects() > Effects::None {
            return None;
        }
        match &*self.cause {
            Cause::Call { error, .. } => error.retry_after,
            Cause::CircuitOpen { retry_after_s, .. } => Some(Duration::from_secs(*retry_after_s)),
            _ => None,
        }
    }

    pub(super) fn evaluation(step: &str, what: &'static str, error: eval::Error) -> Self {
        Self::new(step, Cause::Evaluation { what, error })
    }

    /// Whether the tool succeeded and only its result was rejected.
    pub(super) fn is_about_result(&self) -> bool {
        matches!(
            &*self.cause,
            Cause::Call { error: StepError { rejects_result: true, .. }, .. }
                | Cause::UnreadableResult { .. }
                | Cause::BufferLimit(_)
        )
    }

    /// The outcome in the audit.
    pub fn outcome(&self) -> CallOutcome {
        match &*self.cause {
            Cause::Call { error, .. } => error.outcome,
            Cause::Timeout { .. } => CallOutcome::UpstreamTimeout,
            _ => CallOutcome::ToolError,
        }
    }

    /// The reason code.
    pub fn reason(&self) -> &'static str {
        match &*self.cause {
            Cause::Call { error, .. } => error.outcome.as_str(),
            Cause::Tool { .. } => "tool-error",
            Cause::NotAnObject { .. }
            | Cause::Evaluation { .. }
            | Cause::UnreadableResult { .. } => "invalid-value",
            Cause::Timeout { .. } => "timeout",
            Cause::NoResults { .. } => "no-results",
            Cause::TooManyItems { .. }
            | Cause::TooManyCalls { .. }
            | Cause::TooLarge { .. }
            | Cause::BufferLimit(_)
            | Cause::IdTooLong { .. }
            | Cause::ResultTooDeep
            | Cause::Unserializable => "limit",
            Cause::CircuitOpen { .. } => "circuit-open",
            Cause::MissingKey { .. } => "missing-key",
            Cause::InexactKey => "inexact-key",
            Cause::Duplicate => "duplicate",
            Cause::NoCapacity(_) | Cause::TooManySagas { .. } => "capacity",
            Cause::Cancelled => "cancelled",
            Cause::Abandoned => "abandoned",
            Cause::Saga(_) => "saga-failed",
            Cause::Journal(_) => "journal",
            Cause::DeadLetter { .. } => "dead-letter-failed",
        }
    }

    /// The message for callers.
    pub fn message(&self) -> String {
        match &*self.cause {
            Cause::Call { error, .. } => error.message.clone(),
            Cause::Tool { tool, text: Some(text), .. } => format!("{tool} failed: {text}"),
            Cause::Timeout { message: Some(message), .. } => message.clone(),
            Cause::Saga(end) => describe_end(end, "message"),
            Cause::NoResults { of, first } => {
                let words = |first: &Self| format!("step `{}`: {}", first.step, first.message());
                describe_no_results(*of, first.as_ref(), words)
            }
            Cause::DeadLetter { failure, letter } => format!(
                "{}; the dead-letter tool failed too: {}",
                failure.message(),
                letter.message()
            ),
            other => other.to_string(),
        }
    }

    /// The JSON form that conditions, dead letters and compensations receive.
    pub fn to_value(&self) -> Value {
        let mut object = json!({
            "step": &*self.step,
            "reason": self.reason(),
            "message": self.message(),
        });
        if let Cause::Tool { tool, value, .. } = &*self.cause {
            object["tool"] = tool.to_string().into();
            object["result"] = Value::clone(value);
        }
        if let Cause::Call { tool, .. } = &*self.cause {
            object["tool"] = tool.to_string().into();
        }
        if let (Cause::Saga(end), Value::Object(members)) = (&*self.cause, &mut object)
            && let Ok(Value::Object(end)) = serde_json::to_value(&**end)
        {
            members.extend(end);
        }
        object
    }
}

/// The side effects of the failed step itself.
fn own_effects(cause: &Cause) -> Effects {
    let is_unknown = match cause {
        Cause::Call { error, .. } => return error.effects,
        Cause::DeadLetter { failure, letter } => {
            return failure.effects().max(letter.effects());
        }
        Cause::Timeout { .. }
        | Cause::TooLarge { .. }
        | Cause::BufferLimit(_)
        | Cause::UnreadableResult { .. }
        | Cause::ResultTooDeep
        | Cause::Cancelled
        | Cause::Abandoned => true,
        Cause::Saga(end) => {
            end.status == SagaStatus::CompensationFailed || !end.unsure().is_empty()
        }
        Cause::Tool { .. }
        | Cause::NotAnObject { .. }
        | Cause::NoResults { .. }
        | Cause::Evaluation { .. }
        | Cause::TooManyItems { .. }
        | Cause::TooManyCalls { .. }
        | Cause::CircuitOpen { .. }
        | Cause::MissingKey { .. }
        | Cause::InexactKey
        | Cause::IdTooLong { .. }
        | Cause::Duplicate
        | Cause::NoCapacity(_)
        | Cause::TooManySagas { .. }
        | Cause::Journal(_)
        | Cause::Unserializable => false,
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

/// The path of a step inside another.
pub(super) fn under(at: &str, step: &str) -> String {
    if at.is_empty() { step.to_owned() } else { format!("{at}/{step}") }
}

#[cfg(test)]
mod tests;

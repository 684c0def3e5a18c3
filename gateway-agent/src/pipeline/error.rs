//! The errors of operations.

use std::time::Duration;

use gateway_compose::{Effects, Failed, StepError};
use gateway_policy::{Denial, Outcome};
use schema_compat::schema_compile::Violation;

use super::{arguments::InvalidArguments, message, mirror::Mismatch, projection};
use crate::{audit::CallRecord, identity::challenge::Refusal};

#[cfg(test)]
mod tests;

/// Why a call failed in the gateway or beyond it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The gateway knows no tools at all.
    #[error("no catalog yet")]
    NoCatalog,
    /// The policy says no.
    #[error(transparent)]
    Denied(#[from] Denial),
    /// The caller lacks scopes of the tool.
    #[error(transparent)]
    Scopes(#[from] Refusal),
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
    Composition(Box<Failed>),
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
    Upstream(#[from] gateway_upstream::Error),
}

impl Error {
    /// Records the failure of an operation.
    pub(crate) fn record_in(&self, record: &mut CallRecord) {
        let denial = if let Self::Denied(denial) = self { Some(*denial) } else { None };
        record.failed(self.outcome(), self.to_string(), denial);
    }

    /// The outcome of an operation that failed with this error.
    pub(crate) fn outcome(&self) -> Outcome {
        match self {
            Self::Denied(_)
            | Self::Scopes(_)
            | Self::Upstream(gateway_upstream::Error::NoSubject { .. }) => Outcome::Denied,
            Self::Mirror(_)
            | Self::Arguments(_)
            | Self::HiddenField { .. }
            | Self::Incapable { .. }
            | Self::NothingWaits
            | Self::TaskSupport { .. }
            | Self::InvalidInput { .. } => Outcome::InvalidInput,
            Self::Composition(failed) => failed.failure.outcome(),
            Self::NoCatalog
            | Self::UnusableSchema { .. }
            | Self::MissingVariable { .. }
            | Self::Upstream(gateway_upstream::Error::NotConfigured { .. }) => {
                Outcome::Misconfigured
            }
            Self::InvalidOutput { .. } | Self::Projection(_) | Self::EndlessInput { .. } => {
                Outcome::InvalidOutput
            }
            Self::Upstream(gateway_upstream::Error::Timeout { .. }) => Outcome::UpstreamTimeout,
            Self::Upstream(
                gateway_upstream::Error::Exhausted(_)
                | gateway_upstream::Error::Spared(_)
                | gateway_upstream::Error::Crowded(_)
                | gateway_upstream::Error::NoTurn(_)
                | gateway_upstream::Error::Overloaded(_)
                | gateway_upstream::Error::Stopped { .. },
            ) => Outcome::UpstreamBusy,
            Self::Upstream(
                gateway_upstream::Error::Unavailable { .. }
                | gateway_upstream::Error::Ended { .. }
                | gateway_upstream::Error::Refused { .. }
                | gateway_upstream::Error::NoCredentials(_)
                | gateway_upstream::Error::TooLarge { .. }
                | gateway_upstream::Error::Protocol { .. }
                | gateway_upstream::Error::OpenTask { .. }
                | gateway_upstream::Error::Rpc { .. },
            ) => Outcome::UpstreamFailed,
        }
    }

    /// The side effects of a call that failed with this error.
    pub(crate) fn effects(&self) -> Effects {
        let is_unknown = match self {
            Self::Composition(failed) => return failed.failure.effects(),
            Self::Upstream(error) => error.may_have_run(),
            Self::InvalidOutput { .. }
            | Self::Projection(_)
            // The tool had started when it asked for input.
            | Self::Incapable { .. }
            | Self::EndlessInput { .. }
            | Self::NothingWaits => true,
            Self::NoCatalog
            | Self::Denied(_)
            | Self::Scopes(_)
            | Self::Mirror(_)
            | Self::Arguments(_)
            | Self::HiddenField { .. }
            | Self::InvalidInput { .. }
            | Self::TaskSupport { .. }
            | Self::UnusableSchema { .. }
            | Self::MissingVariable { .. } => false,
        };
        if is_unknown { Effects::Unknown } else { Effects::None }
    }

    /// The time after which a retry can succeed, if the call had no effects.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Upstream(gateway_upstream::Error::Spared(open)) => Some(open.retry_after),
            Self::Composition(failed) => failed.failure.retry_after(),
            _ => None,
        }
    }

    /// The same error for the step of a composition that called `tool`.
    pub(crate) fn to_step(&self, tool: &str) -> StepError {
        StepError {
            outcome: self.outcome(),
            message: message::of(tool, self).into_owned(),
            detail: self.to_string(),
            effects: self.effects(),
            retry_after: self.retry_after(),
            rejects_result: matches!(self, Self::InvalidOutput { .. } | Self::Projection(_)),
        }
    }
}

/// Where it is wrong, without the values.
fn summary(violations: &[Violation]) -> String {
    let pointers: Vec<_> = violations.iter().map(|found| found.pointer.as_str()).collect();
    format!("at [{}]", pointers.join(", "))
}

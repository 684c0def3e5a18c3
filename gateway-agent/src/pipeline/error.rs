//! The errors of operations.

mod details;

use std::time::Duration;

use a2a::Failure;
use gateway_compose::{CompositionError, Effects, StepError};
use gateway_policy::{CallOutcome, Denial};
use policy::{Finding, Reason};
use registry_core::{Key, Version, chain::RegistryId, tool_schema::defaults::DefaultError};
use schema_compat::schema_compile::Violation;
use uuid::Uuid;

use super::{arguments::InvalidArguments, mcp_headers::Mismatch, message, projection};
use crate::{
    audit::{CallRecord, denied},
    identity::challenge::AuthenticationError,
};

#[cfg(test)]
mod tests;

/// Why an operation failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The gateway has no catalog.
    #[error("no catalog yet")]
    NoCatalog,
    /// The policy denied the operation.
    #[error(transparent)]
    Denied(#[from] Denial),
    /// The policy denied the operation, because the caller declares a retired version.
    #[error(transparent)]
    Retired(#[from] Box<RetiredDependency>),
    /// A policy denied the operation.
    #[error("{}", denied(&.0.finding))]
    Policy(Box<PolicyDenial>),
    /// The caller lacks scopes of the tool.
    #[error(transparent)]
    Scopes(#[from] AuthenticationError),
    /// A header does not match its argument.
    #[error(transparent)]
    HeaderMismatch(#[from] Mismatch),
    /// The arguments are not an object, or ambiguous.
    #[error(transparent)]
    Arguments(#[from] InvalidArguments),
    /// The caller sent a hidden argument.
    #[error("the argument {pointer} is hidden")]
    HiddenField {
        /// JSON Pointer of the argument.
        pointer: String,
    },
    /// The arguments have a placeholder that the gateway did not issue to the caller, or that has
    /// expired.
    #[error("the placeholder {placeholder} is unknown")]
    UnknownPlaceholder {
        /// The placeholder.
        placeholder: String,
    },
    /// The arguments violate the input schema.
    #[error("the arguments violate the input schema: {}", summary(.violations))]
    InvalidInput {
        /// The violations. The log message omits the values.
        violations: Vec<Violation>,
    },
    /// The input schema cannot be compiled, so arguments cannot be validated.
    #[error("the input schema cannot be used: {reason}")]
    UnusableSchema {
        /// Why compiling failed.
        reason: String,
    },
    /// A default needs a variable that is not configured.
    #[error("the default at {pointer} needs the variable `{name}`, which is not configured")]
    MissingVariable {
        /// JSON Pointer of the default.
        pointer: String,
        /// Name of the variable.
        name: String,
    },
    /// The result violates the output schema.
    #[error("the result violates the output schema: {}", summary(.violations))]
    InvalidOutput {
        /// The violations. The log message omits the values.
        violations: Vec<Violation>,
    },
    /// A composition failed.
    #[error(transparent)]
    Composition(Box<CompositionError>),
    /// The result could not be projected; the caller receives nothing of it.
    #[error("the result could not be projected: {0}")]
    Projection(#[from] projection::ProjectionError),
    /// The upstream requests input of a kind that the client does not support.
    #[error("the upstream requests {capability}, a capability that the client did not declare")]
    MissingCapability {
        /// The missing client capability.
        capability: &'static str,
    },
    /// The upstream requested input in too many rounds.
    #[error("the upstream requested input in {rounds} rounds without a result")]
    TooManyInputRounds {
        /// Number of answered rounds.
        rounds: usize,
    },
    /// The caller sent input for an operation that no longer exists.
    #[error("no operation is waiting for this input")]
    UnknownInput,
    /// The call is or is not a task, against the tool's `execution.taskSupport`.
    #[error("{}", if *.is_required {
        "the tool must be called as a task"
    } else {
        "the tool cannot be called as a task"
    })]
    TaskSupport {
        /// Whether the tool requires a task.
        is_required: bool,
    },
    /// The gateway rejects an operation of A2A.
    #[error(transparent)]
    Agent(#[from] Box<Failure>),
    /// The upstream returned no result.
    #[error(transparent)]
    Upstream(#[from] gateway_upstream::Error),
}

/// The retired version of a tool or agent that the caller declares.
#[derive(Debug, thiserror::Error)]
#[error("the caller {}", self.declares())]
pub struct RetiredDependency {
    /// The declared version.
    pub declared: Key,
    /// Whether only the server of the tool is retired.
    pub is_of_retired_server: bool,
    /// The newest active version, unless a policy hides it from the caller.
    pub newest: Option<Version>,
}

impl RetiredDependency {
    /// The end of a sentence that begins with the caller.
    pub(super) fn declares(&self) -> String {
        let retired = if self.is_of_retired_server { "whose server" } else { "which" };
        format!("declares {}, {retired} is retired", self.declared)
    }
}

/// A denial by a policy, with the ids of its response.
#[derive(Debug)]
pub struct PolicyDenial {
    /// The violation.
    pub finding: Finding,
    /// The id of the agent: `agent_UUID`. The same name in the same registry has the same id.
    pub agent_id: Option<String>,
    /// The id of the tool: `tool_UUID`.
    pub tool_id: String,
    /// The id of the call: `inv_UUID`. The audit event has it, too.
    pub invocation_id: String,
    /// Whether the operation was running when a new policy denied it.
    pub was_running: bool,
}

impl PolicyDenial {
    pub(super) fn new(
        finding: Finding,
        registry: &RegistryId,
        agent: Option<&Key>,
        tool: &str,
    ) -> Self {
        let id = |kind: &str, name: &str| {
            let name = format!("{}/{kind}/{name}", registry.as_str());
            format!("{kind}_{}", Uuid::new_v5(&Uuid::NAMESPACE_URL, name.as_bytes()))
        };
        Self {
            finding,
            agent_id: agent.map(|agent| id("agent", agent.name.as_str())),
            tool_id: id("tool", tool),
            invocation_id: format!("inv_{}", Uuid::now_v7()),
            was_running: false,
        }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        Self::Agent(Box::new(failure))
    }
}

impl From<DefaultError> for Error {
    fn from(error: DefaultError) -> Self {
        match error {
            DefaultError::HiddenField { pointer } => Self::HiddenField { pointer },
            DefaultError::MissingVariable { pointer, name } => {
                Self::MissingVariable { pointer, name }
            }
        }
    }
}

impl Error {
    pub(crate) fn record_in(&self, record: &mut CallRecord) {
        let denial = match self {
            Self::Denied(denial) => Some(*denial),
            Self::Retired(_) => Some(Denial::RetiredDependency),
            _ => None,
        };
        let text = match self {
            // It can quote the caller.
            Self::Agent(failure) => record.shown(&failure.message).into_owned(),
            _ => self.to_string(),
        };
        record.failed(self.outcome(), text, denial);
    }

    /// The outcome of an operation that failed with this error.
    pub(crate) fn outcome(&self) -> CallOutcome {
        match self {
            Self::Denied(_)
            | Self::Retired(_)
            | Self::Policy(_)
            | Self::Scopes(_)
            | Self::Upstream(gateway_upstream::Error::NoSubject { .. }) => CallOutcome::Denied,
            Self::HeaderMismatch(_)
            | Self::Arguments(_)
            | Self::HiddenField { .. }
            | Self::UnknownPlaceholder { .. }
            | Self::MissingCapability { .. }
            | Self::UnknownInput
            | Self::TaskSupport { .. }
            | Self::Agent(_)
            | Self::InvalidInput { .. } => CallOutcome::InvalidInput,
            Self::Composition(failed) => failed.failure.outcome(),
            Self::NoCatalog
            | Self::UnusableSchema { .. }
            | Self::MissingVariable { .. }
            | Self::Upstream(gateway_upstream::Error::NotConfigured { .. }) => {
                CallOutcome::Misconfigured
            }
            Self::InvalidOutput { .. } | Self::Projection(_) | Self::TooManyInputRounds { .. } => {
                CallOutcome::InvalidOutput
            }
            Self::Upstream(gateway_upstream::Error::Timeout { .. }) => CallOutcome::UpstreamTimeout,
            Self::Upstream(
                gateway_upstream::Error::QuotaExceeded(_)
                | gateway_upstream::Error::CircuitOpen(_)
                | gateway_upstream::Error::ChildLimitReached(_)
                | gateway_upstream::Error::CallNotStarted(_)
                | gateway_upstream::Error::LimitReached(_)
                | gateway_upstream::Error::Stopped { .. },
            ) => CallOutcome::UpstreamBusy,
            Self::Upstream(
                gateway_upstream::Error::Unavailable { .. }
                | gateway_upstream::Error::Ended { .. }
                | gateway_upstream::Error::Refused { .. }
                | gateway_upstream::Error::MissingToken(_)
                | gateway_upstream::Error::TooLarge { .. }
                | gateway_upstream::Error::Protocol { .. }
                | gateway_upstream::Error::OpenTask { .. }
                | gateway_upstream::Error::Agent(_)
                | gateway_upstream::Error::Rpc { .. },
            ) => CallOutcome::UpstreamFailed,
        }
    }

    /// The side effects of a call that failed with this error.
    pub(crate) fn effects(&self) -> Effects {
        let is_unknown = match self {
            Self::Composition(failed) => return failed.failure.effects(),
            Self::Upstream(error) => error.may_have_run(),
            Self::Policy(denial) => denial.was_running,
            Self::InvalidOutput { .. }
            | Self::Projection(_)
            // The tool had started when it requested input.
            | Self::MissingCapability { .. }
            | Self::TooManyInputRounds { .. }
            | Self::UnknownInput => true,
            Self::NoCatalog
            | Self::Denied(_)
            | Self::Retired(_)
            | Self::Scopes(_)
            | Self::HeaderMismatch(_)
            | Self::Arguments(_)
            | Self::HiddenField { .. }
            | Self::UnknownPlaceholder { .. }
            | Self::InvalidInput { .. }
            | Self::TaskSupport { .. }
            | Self::Agent(_)
            | Self::UnusableSchema { .. }
            | Self::MissingVariable { .. } => false,
        };
        if is_unknown { Effects::Unknown } else { Effects::None }
    }

    /// The time after which a retry can succeed, if the call had no side effects.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Upstream(gateway_upstream::Error::CircuitOpen(open)) => Some(open.retry_after),
            Self::Composition(failed) => failed.failure.retry_after(),
            Self::Policy(denial) => match denial.finding.reason {
                Reason::RateLimited { retry_after } => retry_after,
                _ => None,
            },
            _ => None,
        }
    }

    /// Converts the error for the composition whose step called `tool`.
    pub(crate) fn to_step(&self, tool: &str) -> StepError {
        StepError {
            outcome: self.outcome(),
            message: message::for_caller(tool, self).into_owned(),
            detail: self.to_string(),
            effects: self.effects(),
            retry_after: self.retry_after(),
            rejects_result: matches!(self, Self::InvalidOutput { .. } | Self::Projection(_)),
        }
    }
}

/// The distinct pointers of violations, without the values.
fn summary(violations: &[Violation]) -> String {
    let mut places: Vec<&str> = Vec::new();
    for Violation { pointer, .. } in violations {
        let place = if pointer.is_empty() { "the top level" } else { pointer };
        if !places.contains(&place) {
            places.push(place);
        }
    }
    format!("at [{}]", places.join(", "))
}

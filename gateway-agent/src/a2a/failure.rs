//! Errors of the gateway as errors of A2A. They have the gateway's own domain and reasons, and never
//! a number of A2A.

use std::time::Duration;

use a2a::{ErrorKind, Failure};
use gateway_policy::{CallOutcome, Denial};
use http::{
    HeaderMap, HeaderValue, StatusCode,
    header::{ALLOW, RETRY_AFTER},
};
use policy::Reason;
use schema_compat::schema_compile::Violation;
use serde_json::Value;

use crate::{
    audit::CallRecord,
    ingress::IngressError,
    pipeline::{DenialForm, Error, PolicyDenial, message},
};

/// Maximum violations in an error.
const VIOLATIONS: usize = 16;

/// An error with what HTTP adds to it.
#[derive(Debug, Clone)]
pub(super) struct Refusal {
    pub(super) failure: Box<Failure>,
    /// `None`: the status of the error's kind.
    pub(super) status: Option<StatusCode>,
    pub(super) headers: HeaderMap,
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Box::new(failure).into()
    }
}

impl From<Box<Failure>> for Refusal {
    fn from(failure: Box<Failure>) -> Self {
        Self { failure, status: None, headers: HeaderMap::new() }
    }
}

impl From<IngressError> for Refusal {
    fn from(error: IngressError) -> Self {
        let status = error.status();
        let kind = match status {
            StatusCode::UNAUTHORIZED => ErrorKind::Unauthenticated,
            StatusCode::FORBIDDEN => ErrorKind::PermissionDenied,
            StatusCode::TOO_MANY_REQUESTS => ErrorKind::ResourceExhausted,
            StatusCode::SERVICE_UNAVAILABLE => ErrorKind::Unavailable,
            _ => ErrorKind::InvalidRequest,
        };
        let failure = Failure::new(kind, error.to_string()).with_reason(reason(error.as_str()));
        let mut headers = HeaderMap::new();
        error.add_headers(&mut headers);
        Self { failure: Box::new(failure), status: Some(status), headers }
    }
}

impl Refusal {
    /// The error of an operation that the gateway's stop interrupts.
    pub(super) fn stopping() -> Self {
        let message = "the gateway is stopping; retry, or request the task from another gateway";
        Failure::new(ErrorKind::Unavailable, message).with_reason("GATEWAY_STOPPING").into()
    }

    /// The error of a message whose answer is late. The caller finds its task if it has a list.
    pub(super) fn late(limit: Duration, is_listed: bool) -> Self {
        let ms = limit.as_millis();
        let task = if is_listed {
            "its task will be in ListTasks when the agent answers"
        } else {
            "its task cannot be found without an identity of the caller"
        };
        let message = format!(
            "the message was sent, and the agent did not answer within {ms} ms; {task}; repeating \
             the message may run it twice"
        );
        let failure = Failure::new(ErrorKind::DeadlineExceeded, message);
        failure.with_reason("AGENT_TIMEOUT").into()
    }

    /// The error of another HTTP method.
    pub(super) fn method_not_allowed(allowed: &'static str) -> Self {
        let message = format!("the method is not allowed for this path; use {allowed}");
        let mut refusal = Self::from(Failure::new(ErrorKind::MethodNotFound, message));
        refusal.status = Some(StatusCode::METHOD_NOT_ALLOWED);
        refusal.headers.insert(ALLOW, HeaderValue::from_static(allowed));
        refusal
    }

    /// The error of a body of another media type.
    pub(super) fn unsupported_media() -> Self {
        let message = "the Content-Type must be application/json or application/a2a+json";
        Failure::new(ErrorKind::ContentTypeNotSupported, message).into()
    }

    /// The error of a gateway without a catalog.
    pub(super) fn no_catalog() -> Self {
        Self::of_operation("", &Error::NoCatalog)
    }

    /// The error of a caller with too many push notification configurations.
    pub(super) fn too_many_push_configs() -> Self {
        let message = "too many push notification configurations; delete those of ended tasks";
        let failure = Failure::new(ErrorKind::ResourceExhausted, message);
        failure.with_reason("TOO_MANY_PUSH_CONFIGS").into()
    }

    /// The error of a notification whose receiver is slower than its agent.
    pub(super) fn push_queue_full() -> Self {
        let message = "too many push notifications wait for the receiver; retry later";
        let failure = Failure::new(ErrorKind::Unavailable, message).with_reason("PUSH_QUEUE_FULL");
        let mut refusal = Self::from(failure);
        refusal.headers.insert(RETRY_AFTER, HeaderValue::from_static("5"));
        refusal
    }

    /// Records the failure of an operation that the pipeline did not record.
    pub(super) fn record_in(&self, record: &mut CallRecord) {
        let outcome = match self.failure.kind {
            ErrorKind::Unauthenticated | ErrorKind::AgentNotFound | ErrorKind::PermissionDenied => {
                CallOutcome::Denied
            }
            ErrorKind::ResourceExhausted | ErrorKind::Unavailable => CallOutcome::UpstreamBusy,
            ErrorKind::DeadlineExceeded => CallOutcome::UpstreamTimeout,
            ErrorKind::Internal => CallOutcome::Misconfigured,
            ErrorKind::InvalidAgentResponse => CallOutcome::InvalidOutput,
            _ => CallOutcome::InvalidInput,
        };
        let text = record.shown(&self.failure.message).into_owned();
        record.failed(outcome, text, None);
    }

    /// The error of an operation of an agent.
    pub(super) fn of_operation(agent: &str, error: &Error) -> Self {
        if let Error::Scopes(refusal) = error {
            return IngressError::from(refusal.clone()).into();
        }
        let mut refusal = Self::from(failure(agent, error));
        if let Some(after) = error.retry_after() {
            refusal.failure = Box::new(refusal.failure.with_retry(after));
            refusal.headers.insert(RETRY_AFTER, seconds(after));
        }
        refusal
    }
}

fn failure(agent: &str, error: &Error) -> Failure {
    let (kind, reason) = match error {
        Error::Agent(failure) | Error::Upstream(gateway_upstream::Error::Agent(failure)) => {
            return Failure::clone(failure);
        }
        Error::Denied(Denial::Quarantined) => (ErrorKind::Unavailable, "QUARANTINED"),
        Error::Denied(Denial::Stale(_)) => (ErrorKind::Unavailable, "STALE_CATALOG"),
        // The caller must not learn whether the agent exists.
        Error::Denied(_) => return super::address::AgentName::not_found(agent),
        Error::Retired(_) => (ErrorKind::AgentNotFound, "AGENT_RETIRED"),
        Error::Policy(denial) => return denied(agent, error, denial),
        Error::InvalidInput { violations } => {
            return violated(ErrorKind::InvalidParams, agent, error, violations);
        }
        Error::InvalidOutput { violations } => {
            return violated(ErrorKind::Internal, agent, error, violations);
        }
        Error::NoCatalog => (ErrorKind::Unavailable, "NO_CATALOG"),
        Error::Arguments(_) => (ErrorKind::InvalidParams, "INVALID_INPUT"),
        Error::UnknownPlaceholder { .. } => (ErrorKind::InvalidParams, "UNKNOWN_PLACEHOLDER"),
        Error::Upstream(error) => of_upstream(error),
        _ => (ErrorKind::Internal, "GATEWAY_ERROR"),
    };
    Failure::new(kind, message::for_caller(agent, error)).with_reason(reason)
}

fn of_upstream(error: &gateway_upstream::Error) -> (ErrorKind, &'static str) {
    use gateway_upstream::{Error as Upstream, Phase, ProtocolViolation};
    match error {
        Upstream::Protocol { what: ProtocolViolation::CallStatus(_) } => {
            (ErrorKind::Unavailable, "AGENT_UNAVAILABLE")
        }
        Upstream::QuotaExceeded(_) => (ErrorKind::ResourceExhausted, "QUOTA_EXCEEDED"),
        Upstream::Timeout { phase: Phase::Stream, .. } => {
            (ErrorKind::DeadlineExceeded, "STREAM_TIME_LIMIT")
        }
        Upstream::Timeout { .. } => (ErrorKind::DeadlineExceeded, "AGENT_TIMEOUT"),
        Upstream::CircuitOpen(_) => (ErrorKind::Unavailable, "CIRCUIT_OPEN"),
        Upstream::LimitReached(_) | Upstream::ChildLimitReached(_) => {
            (ErrorKind::Unavailable, "AGENT_OVERLOADED")
        }
        Upstream::MissingToken(_) | Upstream::NoSubject { .. } => {
            (ErrorKind::PermissionDenied, "NO_AGENT_CREDENTIAL")
        }
        Upstream::NotConfigured { .. } => (ErrorKind::Unavailable, "AGENT_NOT_CONFIGURED"),
        Upstream::TooLarge { .. } => (ErrorKind::Internal, "AGENT_ANSWER_TOO_LARGE"),
        Upstream::Protocol { .. } | Upstream::Rpc { .. } | Upstream::OpenTask { .. } => {
            (ErrorKind::Internal, "INVALID_AGENT_ANSWER")
        }
        _ => (ErrorKind::Unavailable, "AGENT_UNAVAILABLE"),
    }
}

fn denied(agent: &str, error: &Error, denial: &PolicyDenial) -> Failure {
    let reason = &denial.finding.reason;
    let kind = match reason {
        Reason::RateLimited { .. }
        | Reason::TraceLimited { .. }
        | Reason::BudgetExceeded(_)
        | Reason::Unpriced { .. } => ErrorKind::ResourceExhausted,
        Reason::StalePolicy { .. } | Reason::ApprovalUnavailable { .. } => ErrorKind::Unavailable,
        Reason::Unauthorized
        | Reason::PolicyError(_)
        | Reason::PiiDetected { .. }
        | Reason::ApprovalRequired(_)
        | Reason::ApprovalDenied(_) => ErrorKind::PermissionDenied,
    };
    let failure = Failure::new(kind, message::for_caller(agent, error));
    let failure = failure.with_reason(reason.as_str());
    // The metadata of `ErrorInfo` has texts only.
    let details = denial.details(DenialForm::Result);
    details.as_object().into_iter().flatten().fold(failure, |failure, (name, value)| match value {
        Value::Null => failure,
        Value::String(text) => failure.with_metadata(name, text.as_str()),
        other => failure.with_metadata(name, other.to_string()),
    })
}

/// The first pointer is that of `ErrorInfo`.
fn violated(kind: ErrorKind, agent: &str, error: &Error, violations: &[Violation]) -> Failure {
    let reason = if kind == ErrorKind::Internal { "INVALID_OUTPUT" } else { "INVALID_INPUT" };
    let failure = Failure::new(kind, message::for_caller(agent, error)).with_reason(reason);
    let shown = violations.iter().take(VIOLATIONS).rev();
    shown.fold(failure, |failure, Violation { pointer, message }| {
        failure.with_violation(pointer, message)
    })
}

/// A reason code in the form of `ErrorInfo`.
fn reason(code: &str) -> String {
    code.to_ascii_uppercase().replace('-', "_")
}

/// Whole seconds, rounded up.
fn seconds(after: Duration) -> HeaderValue {
    HeaderValue::from(u64::try_from(after.as_millis().div_ceil(1_000)).unwrap_or(u64::MAX))
}

//! Errors: their kinds, and their shape in each binding (section 5.4).
//!
//! Errors of A2A have `google.rpc.ErrorInfo` with the domain [`A2A_DOMAIN`]. Errors of the gateway
//! have the domain [`GATEWAY_DOMAIN`] and never a number of A2A.

mod shape;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, fmt};

use serde_json::{Value, json};

pub use self::shape::{GrpcCode, GrpcStatus, RequestSubject, RestError};

/// The domain of A2A's errors.
pub const A2A_DOMAIN: &str = "a2a-protocol.org";
/// The domain of the gateway's errors.
pub const GATEWAY_DOMAIN: &str = "gateway-agent";
/// The JSON-RPC code of the gateway's errors. A2A reserves -32001 to -32099.
pub const GATEWAY_CODE: i64 = -32000;

/// The reason of an invalid answer of an agent.
const INVALID_ANSWER: &str = "INVALID_AGENT_ANSWER";
const ERROR_INFO: &str = "type.googleapis.com/google.rpc.ErrorInfo";
const BAD_REQUEST: &str = "type.googleapis.com/google.rpc.BadRequest";
const RETRY_INFO: &str = "type.googleapis.com/google.rpc.RetryInfo";

/// The kind of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// A2A: the task does not exist for this caller.
    TaskNotFound,
    /// A2A: the task is in a state that cannot be canceled.
    TaskNotCancelable,
    /// A2A: the agent does not support push notifications.
    PushNotificationNotSupported,
    /// A2A: the agent does not support the operation, or not in this state.
    UnsupportedOperation,
    /// A2A: the agent does not support a media type.
    ContentTypeNotSupported,
    /// A2A: the agent reports that its own answer is invalid.
    InvalidAgentResponse,
    /// A2A: the agent declares an extended card but has none.
    ExtendedAgentCardNotConfigured,
    /// A2A: the client does not support a required extension.
    ExtensionSupportRequired,
    /// A2A: the version is not supported.
    VersionNotSupported,
    /// JSON-RPC: the body is not JSON.
    ParseError,
    /// JSON-RPC: the body is not a request.
    InvalidRequest,
    /// JSON-RPC: the method or the path is unknown.
    MethodNotFound,
    /// JSON-RPC: the parameters are invalid.
    InvalidParams,
    /// JSON-RPC: the server failed.
    Internal,
    /// Gateway: credentials are missing or invalid.
    Unauthenticated,
    /// Gateway: the agent does not exist for this caller.
    AgentNotFound,
    /// Gateway: a policy rejects the request.
    PermissionDenied,
    /// Gateway: a rate, quota or budget is exhausted.
    ResourceExhausted,
    /// Gateway: the agent is temporarily unavailable.
    Unavailable,
    /// Gateway: the agent did not answer in time.
    DeadlineExceeded,
    /// Another JSON-RPC code of an agent.
    Other(i64),
}

/// An error of an operation.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// The kind.
    pub kind: ErrorKind,
    /// The message for people.
    pub message: String,
    /// The reason of `ErrorInfo` in `UPPER_SNAKE_CASE`, if it is not the one of the kind.
    pub reason: Option<String>,
    /// The metadata of `ErrorInfo`.
    pub metadata: BTreeMap<String, String>,
    /// Further details: objects with `@type`.
    pub details: Vec<Value>,
}

impl Failure {
    /// Creates an error.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let (metadata, details) = (BTreeMap::new(), Vec::new());
        Self { kind, message: message.into(), reason: None, metadata, details }
    }

    /// `TaskNotFound`, also for tasks of other callers, whose existence must not be revealed.
    pub fn task_not_found(id: &str) -> Self {
        let shown: String = id.chars().take(128).collect();
        // Messages are logged, and a caller can write anything as an id.
        Self::new(ErrorKind::TaskNotFound, "the task is not found").with_metadata("taskId", shown)
    }

    /// `PushNotificationNotSupported`, whether the agent or the gateway does not support them.
    pub fn push_not_supported() -> Self {
        let message = "push notifications are not supported; subscribe to the task";
        Self::new(ErrorKind::PushNotificationNotSupported, message)
    }

    /// The error of an answer of an agent that violates the protocol. It is the gateway's own:
    /// `InvalidAgentResponse` is an error that an agent reports.
    pub fn invalid_answer(problem: impl fmt::Display) -> Self {
        let message = format!("the agent's answer is invalid: {problem}");
        Self::new(ErrorKind::Internal, message).with_reason(INVALID_ANSWER)
    }

    /// Whether the gateway found the answer of an agent invalid.
    pub fn is_invalid_answer(&self) -> bool {
        self.reason.as_deref() == Some(INVALID_ANSWER)
    }

    /// `InvalidParams` with the JSON pointer of the invalid value.
    pub fn invalid_params(pointer: &str, problem: impl Into<String>) -> Self {
        let problem = problem.into();
        Self::new(ErrorKind::InvalidParams, format!("{pointer}: {problem}"))
            .with_violation(pointer, &problem)
    }

    /// Sets a reason of the gateway, which replaces the one of the kind.
    pub fn with_reason(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }

    /// Adds metadata to `ErrorInfo`.
    pub fn with_metadata(mut self, name: &str, value: impl Into<String>) -> Self {
        self.metadata.insert(name.to_owned(), value.into());
        self
    }

    /// Adds a field violation as `google.rpc.BadRequest`, and its pointer to `ErrorInfo`.
    pub fn with_violation(mut self, pointer: &str, problem: &str) -> Self {
        let violation = json!({ "field": pointer, "description": problem });
        self.details.push(json!({ "@type": BAD_REQUEST, "fieldViolations": [violation] }));
        self.with_metadata("pointer", pointer)
    }

    /// Adds the delay after which a retry can succeed, as `google.rpc.RetryInfo`.
    pub fn with_retry(mut self, after: std::time::Duration) -> Self {
        let delay = format!("{}.{:03}s", after.as_secs(), after.subsec_millis());
        self.details.push(json!({ "@type": RETRY_INFO, "retryDelay": delay }));
        self
    }

    /// The reason of `ErrorInfo`.
    pub fn reason(&self) -> &str {
        self.reason.as_deref().unwrap_or(self.kind.reason())
    }
}

impl ErrorKind {
    /// The errors of A2A, in the order of their codes.
    pub const A2A: [Self; 9] = [
        Self::TaskNotFound,
        Self::TaskNotCancelable,
        Self::PushNotificationNotSupported,
        Self::UnsupportedOperation,
        Self::ContentTypeNotSupported,
        Self::InvalidAgentResponse,
        Self::ExtendedAgentCardNotConfigured,
        Self::ExtensionSupportRequired,
        Self::VersionNotSupported,
    ];

    /// The errors of JSON-RPC.
    const JSON_RPC: [Self; 5] = [
        Self::ParseError,
        Self::InvalidRequest,
        Self::MethodNotFound,
        Self::InvalidParams,
        Self::Internal,
    ];

    /// Whether the error belongs to the gateway.
    pub fn is_own(self) -> bool {
        matches!(
            self,
            Self::Unauthenticated
                | Self::AgentNotFound
                | Self::PermissionDenied
                | Self::ResourceExhausted
                | Self::Unavailable
                | Self::DeadlineExceeded
        )
    }
}

//! Errors of upstream calls.

mod child;
mod credentials;

use std::{fmt, sync::Arc};

use a2a::{ErrorKind, Failure};
use gateway_protocol::jsonrpc::InvalidMessage;
use registry_core::Key;
use serde_json::value::RawValue;

pub use self::{
    child::{CallNotStarted, ChildLimitReached},
    credentials::{MissingToken, TokenError},
};
use super::routing::TargetId;

/// The reason why a call has no result. [`Error::may_have_run`] returns whether the tool may
/// have run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No target serves the registered server.
    #[error("no target is configured for {server}")]
    NotConfigured {
        /// The registered server.
        server: Key,
    },
    /// An operator stopped the target. Nothing was sent.
    #[error("the target of {server} was stopped by an operator")]
    Stopped {
        /// The registered server.
        server: Key,
    },
    /// The upstream is unreachable: no connection, or no process. The tool did not run.
    #[error("could not reach {target}: {source}{}", connection_remedy(source.as_ref()))]
    Unavailable {
        /// The target.
        target: TargetId,
        /// The cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The child process exited after it got the request and before it responded.
    #[error("{how} before it responded")]
    Ended {
        /// How the process exited.
        how: Arc<str>,
    },
    /// The time limit has passed.
    #[error("no {phase} within {after_ms} ms{}", phase.remedy())]
    Timeout {
        /// The phase of the call.
        phase: Phase,
        /// The limit.
        after_ms: u64,
    },
    /// The response exceeds the size limit.
    #[error("the response of the upstream exceeds {limit_bytes} bytes")]
    TooLarge {
        /// The limit.
        limit_bytes: usize,
    },
    /// The upstream rejects the gateway's credentials or its request rate. The tool did not run.
    #[error("the upstream rejected the gateway's request (HTTP {status})")]
    Refused {
        /// 401, 403 or 429.
        status: u16,
    },
    /// The gateway has no token for the target. Nothing was sent.
    #[error(transparent)]
    MissingToken(#[from] Box<MissingToken>),
    /// The target requires token exchange and the caller presented no token. Nothing was sent.
    #[error("{target} requires token exchange and the caller presented no token")]
    NoSubject {
        /// The target.
        target: TargetId,
    },
    /// The upstream violated the protocol.
    #[error("the upstream violated the protocol: {what}")]
    Protocol {
        /// The violation.
        what: ProtocolViolation,
    },
    /// An agent accepted a message and its task did not end by itself. The agent's message may
    /// repeat arguments, so it is for the caller and not for logs.
    #[error("{why}")]
    OpenTask {
        /// The state of the task.
        why: String,
        /// The agent's message.
        said: Option<String>,
    },
    /// The circuit breaker is open. Nothing was sent.
    #[error(transparent)]
    CircuitOpen(#[from] super::breaker::CircuitOpen),
    /// The upstream or the caller is at its limit of requests or sessions. Nothing was sent.
    #[error(transparent)]
    LimitReached(#[from] super::concurrency::LimitReached),
    /// The limit of callers with their own process is reached. Nothing was sent.
    #[error(transparent)]
    ChildLimitReached(#[from] ChildLimitReached),
    /// A call to a child process waited too long for other calls. Nothing was sent.
    #[error(transparent)]
    CallNotStarted(#[from] CallNotStarted),
    /// A quota is exceeded.
    #[error(transparent)]
    QuotaExceeded(#[from] gateway_policy::QuotaExceeded),
    /// The upstream responded with an error. Its message may repeat arguments, so it is for the
    /// caller and not for logs.
    #[error("the upstream responded with error {code}")]
    Rpc {
        /// The code.
        code: i64,
        /// The message.
        message: String,
        /// The raw data.
        data: Option<Box<RawValue>>,
    },
    /// The agent responded with an error of A2A. Its message may repeat arguments, so it is for the
    /// caller and not for logs.
    #[error("the agent responded with error {}", .0.kind.code())]
    Agent(Box<Failure>),
}

/// The phase of a timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// The connection.
    Connect,
    /// The handshake that negotiates the protocol version.
    Handshake,
    /// The health check between calls.
    HealthCheck,
    /// Listing tools.
    List,
    /// Calling a tool.
    Call,
    /// The stream of an agent, whose task continues.
    Stream,
}

impl Phase {
    /// The name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Handshake => "handshake",
            Self::HealthCheck => "health_check",
            Self::List => "list",
            Self::Call => "call",
            Self::Stream => "stream",
        }
    }
}

impl Phase {
    /// The rest of the error message.
    fn remedy(self) -> &'static str {
        match self {
            Self::Connect => {
                "; check that the upstream is running and reachable, or raise its `timeout`"
            }
            Self::Handshake => {
                "; check that the upstream is an MCP server or A2A agent, or raise its `timeout`"
            }
            Self::HealthCheck => {
                "; check that the upstream is running and not overloaded, or raise its `timeout`"
            }
            Self::List => "; raise `timeout` of the upstream",
            Self::Call => "",
            Self::Stream => "; subscribe to the task again",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connect => "connection to the upstream",
            Self::Handshake => "response to the handshake",
            Self::HealthCheck => "response to the health check",
            Self::List => "complete list of tools",
            Self::Call => "response of the upstream",
            Self::Stream => "end of the stream",
        })
    }
}

/// The rest of the message for a failed connection.
fn connection_remedy(source: &(dyn std::error::Error + Send + Sync)) -> &'static str {
    let reason = source.to_string();
    if reason.contains("InvalidContentType") {
        "; if the server does not use TLS, write http:// in its target"
    } else if registry_tls::is_untrusted_ca(&reason) {
        "; set `tls.caFile` of the target to the CA of the server's certificate"
    } else if registry_tls::is_ca_certificate(&reason) {
        "; the server's certificate is a CA certificate, issue one with basicConstraints=CA:FALSE"
    } else {
        ""
    }
}

/// The rest of the message for an HTTP status.
fn status_remedy(status: u16) -> &'static str {
    match status {
        300..400 => "; redirects are not followed, set the URL of the target to the final URL",
        404 | 405 => "; check the path in the URL of the target",
        _ => "",
    }
}

/// A protocol violation of an upstream.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolViolation {
    /// The connection or the process ended before the response was complete.
    #[error("the connection closed before the response was complete")]
    Closed,
    /// The message is not a JSON-RPC response.
    #[error("not a JSON-RPC response: {0}")]
    Garbage(InvalidMessage),
    /// The message is nested too deeply.
    #[error(
        "the response is nested deeper than {limit} levels; flatten the schemas of the server's tools"
    )]
    TooDeep {
        /// The limit.
        limit: usize,
    },
    /// The response belongs to another request.
    #[error("the response belongs to another request")]
    WrongId,
    /// The response has a media type that was not accepted.
    #[error("the response has an unexpected media type")]
    ContentType,
    /// The HTTP status is an error without a JSON-RPC error. Redirects are not followed.
    #[error("unexpected HTTP status {0}{remedy}", remedy = status_remedy(*.0))]
    Status(u16),
    /// The gRPC status is not one of A2A.
    #[error("the call ended with gRPC status {0}")]
    CallStatus(&'static str),
    /// The result does not match the method.
    #[error("the result of {0} is malformed")]
    Shape(&'static str),
    /// The result has a type that was not requested.
    #[error("the result has an unknown `resultType`")]
    ResultType,
    /// The upstream supports no protocol version of the gateway.
    #[error("the upstream supports no protocol version that the gateway supports")]
    NoCommonVersion,
    /// The agent has no method for tasks, which detects its version.
    #[error(
        "the agent answered `GetTask` with -32601 (method not found); A2A requires this method, and the \
         gateway detects the version with `GetTask` of an unknown task"
    )]
    NoTaskMethod,
    /// The upstream supports only the HTTP+SSE transport of 2024-11-05.
    #[error(
        "the upstream uses HTTP+SSE (2024-11-05), which is not supported; configure the URL of its Streamable \
         HTTP transport, or a bridge to it over stdio"
    )]
    HttpSse,
    /// The upstream rejects the protocol headers of the gateway.
    #[error("the upstream rejected the request's protocol headers")]
    HeadersRefused,
    /// The tool list of the upstream has too many pages.
    #[error("the tool list of the upstream does not end")]
    EndlessList,
}

impl ProtocolViolation {
    /// Whether the tool may have run before the violation.
    pub fn may_have_run(&self) -> bool {
        !matches!(
            self,
            Self::NoCommonVersion | Self::NoTaskMethod | Self::HttpSse | Self::HeadersRefused
        )
    }
}

impl From<InvalidMessage> for ProtocolViolation {
    fn from(error: InvalidMessage) -> Self {
        match error {
            InvalidMessage::TooDeep { limit } => Self::TooDeep { limit },
            error => Self::Garbage(error),
        }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        Self::Agent(Box::new(failure))
    }
}

impl From<ProtocolViolation> for Error {
    fn from(what: ProtocolViolation) -> Self {
        Self::Protocol { what }
    }
}

impl Error {
    /// The error for a caller that shared the failed attempt.
    pub(super) fn again(&self, target: &TargetId) -> Self {
        match self {
            Self::MissingToken(none) => Self::MissingToken(none.clone()),
            Self::Timeout { phase, after_ms } => {
                Self::Timeout { phase: *phase, after_ms: *after_ms }
            }
            // An error that was shared before already has this form.
            Self::Unavailable { target, source } => {
                Self::Unavailable { target: target.clone(), source: source.to_string().into() }
            }
            other => Self::Unavailable { target: target.clone(), source: other.to_string().into() },
        }
    }

    /// The error of a request that was not sent because an earlier step failed.
    pub(super) fn before_request(self, target: &TargetId) -> Self {
        match self {
            Self::Protocol { what } if what.may_have_run() => {
                Self::Unavailable { target: target.clone(), source: what.into() }
            }
            Self::TooLarge { .. } => self.again(target),
            other => other,
        }
    }

    /// Whether the tool may have run. `false`: it certainly did not, or the upstream reported the
    /// outcome itself.
    pub fn may_have_run(&self) -> bool {
        match self {
            Self::Timeout { phase: Phase::Call | Phase::Stream, .. }
            | Self::Ended { .. }
            | Self::TooLarge { .. }
            | Self::OpenTask { .. }
            // The tool had started when it sent the question.
            | Self::QuotaExceeded(_) => true,
            Self::Protocol { what } => what.may_have_run(),
            // The skill ran, and nothing is known about its outcome.
            Self::Agent(failure) => {
                failure.is_invalid_answer() || failure.kind == ErrorKind::InvalidAgentResponse
            }
            Self::Timeout { phase: Phase::Connect | Phase::Handshake | Phase::HealthCheck | Phase::List, .. }
            | Self::NotConfigured { .. }
            | Self::Stopped { .. }
            | Self::Unavailable { .. }
            | Self::Refused { .. }
            | Self::MissingToken(_)
            | Self::NoSubject { .. }
            | Self::CircuitOpen(_)
            | Self::LimitReached(_)
            | Self::ChildLimitReached(_)
            | Self::CallNotStarted(_)
            | Self::Rpc { .. } => false,
        }
    }

    /// Whether the error is local, because nothing was sent to the upstream.
    pub(super) fn is_local(&self) -> bool {
        matches!(self, Self::MissingToken(_) | Self::NoSubject { .. } | Self::LimitReached(_))
    }

    /// Whether the error concerns reaching the upstream, not one call.
    pub fn is_about_reach(&self) -> bool {
        matches!(
            self,
            Self::Unavailable { .. }
                | Self::Ended { .. }
                | Self::Timeout {
                    phase: Phase::Connect | Phase::Handshake | Phase::HealthCheck,
                    ..
                }
                | Self::Protocol {
                    what: ProtocolViolation::Closed
                        | ProtocolViolation::Status(_)
                        | ProtocolViolation::CallStatus(_)
                        | ProtocolViolation::NoCommonVersion
                        | ProtocolViolation::NoTaskMethod
                        | ProtocolViolation::HttpSse
                }
        )
    }

    /// Whether the upstream failed, not the request or its caller.
    pub(super) fn is_failure(&self) -> bool {
        let is_timeout = matches!(self, Self::Timeout { phase, .. } if *phase != Phase::Stream);
        self.is_about_reach() || is_timeout
    }

    /// Whether the request was certainly not sent.
    pub(super) fn is_unsent(&self) -> bool {
        matches!(self, Self::Unavailable { .. })
    }

    /// Whether the connection was lost, so that a repeatable request may be retried.
    pub(super) fn is_lost(&self) -> bool {
        matches!(
            self,
            Self::Unavailable { .. }
                | Self::Ended { .. }
                | Self::Protocol { what: ProtocolViolation::Closed }
        )
    }
}

//! Why a call of an upstream gave no result.

mod child;
mod credentials;

use std::{fmt, sync::Arc};

use registry_core::Key;
use serde_json::value::RawValue;

pub use self::{
    child::{Crowded, NoTurn},
    credentials::{NoCredentials, NoToken},
};
use super::routing::TargetId;

/// Why there is no result. Whether the tool ran all the same, [`Error::may_have_run`] tells.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server is registered, but no target serves it.
    #[error("no target is configured for {server}")]
    NotConfigured {
        /// The registered server.
        server: Key,
    },
    /// An operator has stopped its target; nothing was sent.
    #[error("the target of {server} was stopped by an operator")]
    Stopped {
        /// The registered server.
        server: Key,
    },
    /// No connection could be made, or no process started; the tool did not run.
    #[error("could not reach {target}: {source}")]
    Unavailable {
        /// The target.
        target: TargetId,
        /// What happened.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The child process ended after it was sent the request and before it answered.
    #[error("{how} before it answered")]
    Ended {
        /// How the process ended.
        how: Arc<str>,
    },
    /// It took too long.
    #[error("waited longer than {after_ms} ms to {phase} the upstream")]
    Timeout {
        /// What was being done.
        phase: Phase,
        /// The limit.
        after_ms: u64,
    },
    /// The answer is over the limit.
    #[error("the answer of the upstream is longer than {limit_bytes} bytes")]
    TooLarge {
        /// The limit.
        limit_bytes: usize,
    },
    /// It does not let the gateway in, or not so often; the tool did not run.
    #[error("the upstream refused the gateway's request (HTTP {status})")]
    Refused {
        /// 401, 403 or 429.
        status: u16,
    },
    /// The gateway has no token for it; nothing was sent to it.
    #[error(transparent)]
    NoCredentials(#[from] Box<NoCredentials>),
    /// It is called in the name of callers, and this one showed no token; nothing was sent.
    #[error("{target} is called in the name of callers, and this one showed no token to exchange")]
    NoSubject {
        /// The target.
        target: TargetId,
    },
    /// What came is not what MCP allows.
    #[error("the upstream broke the protocol: {what}")]
    Protocol {
        /// How.
        what: Breach,
    },
    /// An agent has taken a message, and its task has come to no end of its own. Its words may repeat
    /// arguments, so they go to the caller and not into logs.
    #[error("{why}")]
    OpenTask {
        /// How the task stands.
        why: String,
        /// What the agent said.
        said: Option<String>,
    },
    /// It failed so often that it is spared for a while; nothing was sent.
    #[error(transparent)]
    Spared(#[from] super::breaker::Open),
    /// It, or the caller, has as many requests or sessions at once as are allowed; nothing was sent.
    #[error(transparent)]
    Overloaded(#[from] super::gate::Overloaded),
    /// No more callers may have a process of their own; nothing was sent.
    #[error(transparent)]
    Crowded(#[from] Crowded),
    /// A call at a child had to wait for other calls for too long; nothing was sent.
    #[error(transparent)]
    NoTurn(#[from] NoTurn),
    /// The caller, or all together, have as much of something as they may.
    #[error(transparent)]
    QuotaExceeded(#[from] gateway_policy::QuotaExceeded),
    /// The upstream's own answer is an error. Its message may repeat arguments, so it goes to the
    /// caller and not into logs.
    #[error("the upstream answered with error {code}")]
    Rpc {
        /// Its code.
        code: i64,
        /// Its message.
        message: String,
        /// Its data, raw.
        data: Option<Box<RawValue>>,
    },
}

/// What was being done when time ran out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Connecting, or the handshake that finds out the protocol version.
    Connect,
    /// Asking what tools there are.
    List,
    /// Calling a tool.
    Call,
}

impl Phase {
    /// In one word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::List => "list",
            Self::Call => "call",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connect => "connect to",
            Self::List => "list the tools of",
            Self::Call => "hear from",
        })
    }
}

/// How an upstream broke the protocol.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Breach {
    /// The connection or the process ended before the answer was complete.
    #[error("it went away before the answer was complete")]
    Closed,
    /// The answer is no JSON-RPC response.
    #[error("the answer is no response: {0}")]
    Garbage(#[from] gateway_protocol::jsonrpc::InvalidMessage),
    /// The answer is a response to something else.
    #[error("the answer belongs to another request")]
    WrongId,
    /// The answer is of a media type that was not asked for.
    #[error("the answer is of another media type than was asked for")]
    ContentType,
    /// The HTTP status says no, and no JSON-RPC error came with it. Redirects are not followed.
    #[error("the answer has the HTTP status {0}")]
    Status(u16),
    /// The result is not what the method promises.
    #[error("the result of {0} has the wrong shape")]
    Shape(&'static str),
    /// The result is of a type that nobody asked for.
    #[error("the result is of an unknown type")]
    ResultType,
    /// It speaks only versions that the gateway does not.
    #[error("it speaks no protocol version that the gateway speaks")]
    NoCommonVersion,
    /// It speaks only the HTTP+SSE transport of 2024-11-05.
    #[error(
        "it speaks HTTP+SSE (2024-11-05), which is not supported; configure the URL of its Streamable \
         HTTP transport, or a bridge to it over stdio"
    )]
    HttpSse,
    /// It insists that what the gateway sent does not fit together.
    #[error("it refused the request's protocol headers")]
    HeadersRefused,
    /// The pages of its list do not end.
    #[error("its list of tools does not end")]
    EndlessList,
}

impl Breach {
    /// Whether what came may have come after the tool ran.
    pub fn may_have_run(&self) -> bool {
        !matches!(self, Self::NoCommonVersion | Self::HttpSse | Self::HeadersRefused)
    }
}

impl From<Breach> for Error {
    fn from(what: Breach) -> Self {
        Self::Protocol { what }
    }
}

impl Error {
    /// What somebody is told who waited for the same attempt to reach a server.
    pub(super) fn again(&self, target: &TargetId) -> Self {
        match self {
            Self::NoCredentials(none) => Self::NoCredentials(none.clone()),
            Self::Timeout { phase, after_ms } => {
                Self::Timeout { phase: *phase, after_ms: *after_ms }
            }
            // One that was told once before already has the words.
            Self::Unavailable { target, source } => {
                Self::Unavailable { target: target.clone(), source: source.to_string().into() }
            }
            other => Self::Unavailable { target: target.clone(), source: other.to_string().into() },
        }
    }

    /// The same where it is certain that the request itself was not sent, because something before it failed.
    pub(super) fn before_request(self, target: &TargetId) -> Self {
        match self {
            Self::Protocol { what } if what.may_have_run() => {
                Self::Unavailable { target: target.clone(), source: what.into() }
            }
            Self::TooLarge { .. } => self.again(target),
            other => other,
        }
    }

    /// Whether the tool may have run, or have begun to; else it is certain that it did not, or it said
    /// itself how it went.
    pub fn may_have_run(&self) -> bool {
        match self {
            Self::Timeout { phase: Phase::Call, .. }
            | Self::Ended { .. }
            | Self::TooLarge { .. }
            | Self::OpenTask { .. }
            // It had begun when it asked.
            | Self::QuotaExceeded(_) => true,
            Self::Protocol { what } => what.may_have_run(),
            Self::Timeout { phase: Phase::Connect | Phase::List, .. }
            | Self::NotConfigured { .. }
            | Self::Stopped { .. }
            | Self::Unavailable { .. }
            | Self::Refused { .. }
            | Self::NoCredentials(_)
            | Self::NoSubject { .. }
            | Self::Spared(_)
            | Self::Overloaded(_)
            | Self::Crowded(_)
            | Self::NoTurn(_)
            | Self::Rpc { .. } => false,
        }
    }

    /// Whether it says nothing about how the upstream is, because nothing was sent to it.
    pub(super) fn is_beside_it(&self) -> bool {
        matches!(self, Self::NoCredentials(_) | Self::NoSubject { .. } | Self::Overloaded(_))
    }

    /// Whether this is about reaching the upstream at all, rather than about one call.
    pub(super) fn is_about_reach(&self) -> bool {
        matches!(
            self,
            Self::Unavailable { .. }
                | Self::Ended { .. }
                | Self::Timeout { phase: Phase::Connect, .. }
                | Self::Protocol {
                    what: Breach::Closed
                        | Breach::Status(_)
                        | Breach::NoCommonVersion
                        | Breach::HttpSse
                }
        )
    }

    /// Whether the upstream itself has failed, rather than the request or its caller.
    pub(super) fn is_failure(&self) -> bool {
        self.is_about_reach() || matches!(self, Self::Timeout { .. })
    }

    /// Whether it is certain that nothing was done.
    pub(super) fn is_unsent(&self) -> bool {
        matches!(self, Self::Unavailable { .. })
    }

    /// Whether the connection got lost, so that something harmless may be tried again.
    pub(super) fn is_lost(&self) -> bool {
        matches!(
            self,
            Self::Unavailable { .. } | Self::Ended { .. } | Self::Protocol { what: Breach::Closed }
        )
    }
}

//! Why a request is rejected before routing.

use agent_rpc::Failure;
use gateway_policy::QuotaExceeded;
use gateway_protocol::{
    jsonrpc::{InvalidMessage, InvalidObject},
    mcp::Era,
};

use crate::{
    identity::challenge::AuthenticationError, ingress::IngressError,
    pipeline::mcp_headers::Mismatch, view::pages::InvalidCursor,
};

/// Why a request is rejected. The messages contain only data that the caller sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// The request is rejected before the endpoint reads it.
    #[error(transparent)]
    Ingress(#[from] IngressError),
    /// The client does not accept the response's media types.
    #[error("the Accept header must list {needed}")]
    NotAcceptable {
        /// The missing media types.
        needed: &'static str,
    },
    /// The body is not JSON.
    #[error("the Content-Type must be application/json")]
    MediaType,
    /// The body is not a JSON-RPC message.
    #[error(transparent)]
    Invalid(#[from] InvalidMessage),
    /// A stateless client sent a response.
    #[error("a stateless client must not send responses")]
    ClientResponse,
    /// A parameter is missing or invalid.
    #[error("{what}")]
    Params {
        /// The problem.
        what: &'static str,
    },
    /// The arguments of `agent.execute` are invalid.
    #[error(transparent)]
    Function(#[from] Box<Failure>),
    /// Required metadata of a stateless request is missing.
    #[error("_meta must have {name} ({kind})")]
    MissingMeta {
        /// The key in `_meta`.
        name: &'static str,
        /// The expected type.
        kind: &'static str,
    },
    /// The request requires a protocol extension that the client did not declare.
    #[error("this request requires the extension {extension}, which the client did not declare")]
    MissingExtension {
        /// Name of the extension.
        extension: &'static str,
    },
    /// A header does not match the body.
    #[error(transparent)]
    Header(#[from] Mismatch),
    /// The protocol version is not supported.
    #[error("protocol version {requested} is not supported")]
    UnsupportedVersion {
        /// The requested version.
        requested: String,
    },
    /// The method is not supported.
    #[error("the method {method} is not supported")]
    UnknownMethod {
        /// The unknown method.
        method: String,
        /// The era of the request, which determines the HTTP status.
        era: Era,
    },
    /// The request has no session id and is not `initialize`.
    #[error(
        "the request needs an Mcp-Session-Id header; call initialize first. Only tools/list and \
             tools/call work without a session, if they also have no MCP-Protocol-Version and no \
             Mcp-Method header"
    )]
    SessionRequired,
    /// The session is unknown, has ended, or belongs to another caller.
    #[error("unknown or expired session; call initialize again")]
    SessionUnknown,
    /// The `Last-Event-ID` belongs to no resumable stream.
    #[error(
        "no stream can be resumed at this Last-Event-ID. A stream can be resumed for 60 s, in its \
             session, at the gateway that started it, after an event that the client received. A \
             request is cancelled when its connection drops while 64 requests of its caller (256 of \
             all callers) continue without a connection. Delivered events are evicted early if memory \
             is needed. Repeat the request if that is safe"
    )]
    EventUnknown,
    /// The session already runs a request with this id.
    #[error(
        "a request with this id is still running in this session; use a unique id for each request"
    )]
    IdInUse,
    /// The cursor is invalid.
    #[error(transparent)]
    Cursor(#[from] InvalidCursor),
    /// The gateway has no catalog. An empty list would be wrong.
    #[error("{}", crate::pipeline::message::NO_CATALOG)]
    NoCatalog,
    /// The limit of sessions is reached.
    #[error(transparent)]
    TooManySessions(QuotaExceeded),
    /// The operating system returned no random bytes.
    #[error("cannot open a session: the operating system returned no random bytes; retry later")]
    NoRandomness,
}

impl From<AuthenticationError> for Rejection {
    fn from(refusal: AuthenticationError) -> Self {
        Self::Ingress(refusal.into())
    }
}

impl From<InvalidObject> for Rejection {
    fn from(InvalidObject: InvalidObject) -> Self {
        Self::Params { what: "params and _meta must be objects without repeated member names" }
    }
}

impl Rejection {
    /// The reason code, for metrics.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Ingress(error) => error.as_str(),
            Self::NotAcceptable { .. } => "accept",
            Self::MediaType => "content-type",
            Self::Invalid(_) => "invalid-message",
            Self::ClientResponse => "client-response",
            Self::Params { .. } | Self::Function(_) => "invalid-params",
            Self::MissingMeta { .. } => "missing-meta",
            Self::MissingExtension { .. } => "missing-extension",
            Self::Header(_) => "header-mismatch",
            Self::UnsupportedVersion { .. } => "unsupported-version",
            Self::UnknownMethod { .. } => "unknown-method",
            Self::SessionRequired => "session-required",
            Self::SessionUnknown => "session-unknown",
            Self::EventUnknown => "event-unknown",
            Self::IdInUse => "id-in-use",
            Self::Cursor(_) => "invalid-cursor",
            Self::NoCatalog => "no-catalog",
            Self::TooManySessions(_) => "too-many-sessions",
            Self::NoRandomness => "no-randomness",
        }
    }
}

//! Why a request is refused before a tool comes into play.

use gateway_policy::Exhausted;
use gateway_protocol::{
    jsonrpc::{Invalid, InvalidObject},
    mcp::Era,
};

use crate::{
    identity::challenge::Refusal, origin::ForeignSource, pipeline::mirror::Mismatch,
    view::pages::InvalidCursor,
};

/// Why a request is refused. The texts are fit for callers: they only repeat what a caller sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// A caller that has not proved what it must.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A web page of somewhere else.
    #[error("requests from this origin are not allowed")]
    ForeignOrigin,
    /// A name that does not belong to this machine: DNS rebinding.
    #[error("requests to this host are not allowed")]
    ForeignHost,
    /// The client could not read an answer.
    #[error("the Accept header must list {needed}")]
    NotAcceptable {
        /// What it must list.
        needed: &'static str,
    },
    /// The body is something else than JSON.
    #[error("the Content-Type must be application/json")]
    MediaType,
    /// The body is over the limit.
    #[error("the request is longer than {limit_bytes} bytes")]
    TooLarge {
        /// The limit.
        limit_bytes: usize,
    },
    /// The body ended early.
    #[error("the request's body could not be read to its end")]
    Incomplete,
    /// The body is no JSON-RPC message.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The body is a response, but this gateway asks its clients nothing.
    #[error("clients have nothing to answer here")]
    ClientResponse,
    /// A parameter is missing or of a wrong kind.
    #[error("{what}")]
    Params {
        /// What is wrong.
        what: &'static str,
    },
    /// Metadata that every modern request must carry.
    #[error("_meta must have {name} ({kind})")]
    MissingMeta {
        /// The key.
        name: &'static str,
        /// What it must be.
        kind: &'static str,
    },
    /// An extension of the protocol that the request needs and its sender did not declare.
    #[error("the client must declare the extension {extension} for this")]
    MissingExtension {
        /// Its name.
        extension: &'static str,
    },
    /// A header that does not repeat the body.
    #[error(transparent)]
    Header(#[from] Mismatch),
    /// A protocol version that is not served.
    #[error("protocol version {requested} is not supported")]
    UnsupportedVersion {
        /// What the client asked for.
        requested: String,
    },
    /// A method that is not served.
    #[error("the method {method} is not served")]
    UnknownMethod {
        /// The method.
        method: String,
        /// In which era it was called.
        era: Era,
    },
    /// No session, and not `initialize` either.
    #[error(
        "the request needs an Mcp-Session-Id header; call initialize first. Only tools/list and \
         tools/call work without a session, if they have no Mcp-Session-Id, MCP-Protocol-Version \
         and Mcp-Method header either"
    )]
    SessionRequired,
    /// A session that never was, has ended, or belongs to somebody else.
    #[error("there is no such session; call initialize again")]
    SessionUnknown,
    /// A `Last-Event-ID` of no stream that can be resumed.
    #[error(
        "there is no stream to resume at this Last-Event-ID. A stream can be resumed for 60 s, in \
         its session, at the gateway that began it, after an event that it has had. A request is \
         cancelled when its connection drops while 64 requests of its caller (256 of all callers) \
         continue without a connection. Events that were delivered are dropped early when others \
         need the room. Send the request again if it is safe to repeat"
    )]
    EventUnknown,
    /// The id of a request that is still running in the session.
    #[error(
        "a request with this id is still running in this session; each request of a session needs \
         an id of its own"
    )]
    IdInUse,
    /// A cursor of somewhere else.
    #[error(transparent)]
    Cursor(#[from] InvalidCursor),
    /// The gateway knows no tools at all, which is not the same as a list without any.
    #[error("{}", crate::pipeline::message::NO_CATALOG)]
    NoCatalog,
    /// As many event streams as are allowed are open.
    #[error(transparent)]
    TooManyStreams(Exhausted),
    /// As many sessions as are allowed are in use.
    #[error(transparent)]
    TooManySessions(Exhausted),
    /// The memory for buffered requests and results is used up.
    #[error(
        "no memory for the request or its answer: {0}; wait for the answers of earlier requests, \
         then retry"
    )]
    Buffers(Exhausted),
    /// The operating system gave no random bytes.
    #[error("no session can be opened now")]
    NoRandomness,
}

impl From<ForeignSource> for Rejection {
    fn from(source: ForeignSource) -> Self {
        match source {
            ForeignSource::Origin => Self::ForeignOrigin,
            ForeignSource::Host => Self::ForeignHost,
        }
    }
}

impl From<InvalidObject> for Rejection {
    fn from(InvalidObject: InvalidObject) -> Self {
        Self::Params { what: "params and _meta must be objects that have each name once" }
    }
}

impl Rejection {
    /// One word for metrics.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Refused(refusal) => refusal.as_str(),
            Self::ForeignOrigin => "origin",
            Self::ForeignHost => "host",
            Self::NotAcceptable { .. } => "accept",
            Self::MediaType => "content-type",
            Self::TooLarge { .. } => "too-large",
            Self::Incomplete => "incomplete",
            Self::Invalid(_) => "invalid-message",
            Self::ClientResponse => "client-response",
            Self::Params { .. } => "invalid-params",
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
            Self::TooManyStreams(_) => "too-many-streams",
            Self::TooManySessions(_) => "too-many-sessions",
            Self::Buffers(_) => "buffers-full",
            Self::NoRandomness => "no-randomness",
        }
    }
}

//! The errors that the bridge itself sends to the client.

use std::time::Duration;

use bytes::Bytes;
use gateway_protocol::jsonrpc::{self, ErrorObject, Id, Invalid, code};
use http::StatusCode;
use retry_backoff::Backoff;
use serde_json::value::RawValue;

use super::endpoint::Lost;

/// Why a request has no response of the gateway.
#[derive(Debug, Clone, thiserror::Error)]
pub(super) enum Failure {
    /// The request was not sent.
    #[error(
        "cannot reach {gateway}: {reason}. Start the gateway or correct --gateway, then send the \
         request again; the bridge needs no restart"
    )]
    Unreachable { gateway: String, reason: String },
    /// The connection broke after the request was sent.
    #[error(
        "the connection to {gateway} was lost before the response: {reason}. The outcome of the \
         request is unknown: check whether it had an effect before you repeat it"
    )]
    Unknown { gateway: String, reason: String },
    /// The session was lost and could not be opened again.
    #[error("the session at {gateway} was lost and could not be opened again: {reason}")]
    Session { gateway: String, reason: String },
    /// A status without a JSON-RPC message.
    #[error("{gateway} answered with HTTP {status} and no JSON-RPC message{remedy}")]
    Status { gateway: String, status: StatusCode, remedy: &'static str },
    /// The response is longer than the limit.
    #[error("the response of {gateway} is longer than {limit_bytes} bytes")]
    TooLong { gateway: String, limit_bytes: usize },
    /// The body of the response is not a JSON-RPC response.
    #[error("{gateway} did not answer with a JSON-RPC response: {reason}")]
    NoResponse { gateway: String, reason: String },
}

impl Failure {
    /// A request without a response.
    pub(super) fn lost(gateway: String, lost: Lost) -> Self {
        match lost {
            Lost::NotSent(reason) => Self::Unreachable { gateway, reason },
            Lost::Unknown(reason) => Self::Unknown { gateway, reason },
        }
    }

    /// A status without a message.
    pub(super) fn status(gateway: String, status: StatusCode) -> Self {
        let remedy = match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                "; set a token with --token-file or GATEWAY_TOKEN"
            }
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => {
                "; correct the path of --gateway"
            }
            _ if status.is_redirection() => {
                "; redirects are not followed, so name the endpoint itself in --gateway"
            }
            _ => "",
        };
        Self::Status { gateway, status, remedy }
    }

    /// One word for programs, in `data.reason`.
    fn reason(&self) -> &'static str {
        match self {
            Self::Unreachable { .. } => "gateway-unreachable",
            Self::Unknown { .. } => "outcome-unknown",
            Self::Session { .. } => "session-lost",
            Self::Status { .. } | Self::NoResponse { .. } => "no-response",
            Self::TooLong { .. } => "response-too-long",
        }
    }

    /// The response to the request with this id.
    pub(super) fn response(&self, id: Id<'_>) -> Bytes {
        error(Some(id), code::INTERNAL_ERROR, self.reason(), self.to_string())
    }
}

/// A request that is more than the bridge runs at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Full {
    /// Too many requests.
    #[error("{0} requests are running, which is the limit; wait for a response, then retry")]
    Requests(usize),
    /// Too many bytes.
    #[error(
        "the running requests have {0} bytes together, which is the limit; wait for a response, \
         then retry"
    )]
    Bytes(usize),
    /// The same id twice.
    #[error("a request with this id is still running; each request needs an id of its own")]
    Id,
}

impl Full {
    pub(super) fn response(self, id: Id<'_>) -> Bytes {
        match self {
            Self::Id => error(Some(id), code::INVALID_REQUEST, "id-in-use", self.to_string()),
            _ => error(Some(id), code::INTERNAL_ERROR, "too-many-requests", self.to_string()),
        }
    }
}

/// The response to a line that is not a message. `id` is its id, if it has one.
pub(super) fn invalid(id: Option<Id<'_>>, invalid: &Invalid) -> Bytes {
    let code = match invalid {
        Invalid::Syntax { .. } => code::PARSE_ERROR,
        _ => code::INVALID_REQUEST,
    };
    error(id, code, "invalid-message", invalid.to_string())
}

/// The response to an empty batch.
pub(super) fn empty_batch() -> Bytes {
    error(None, code::INVALID_REQUEST, "invalid-message", "the batch is empty".to_owned())
}

fn error(id: Option<Id<'_>>, code: i64, reason: &str, message: String) -> Bytes {
    let data = format!(r#"{{"reason":"{reason}"}}"#);
    let data = RawValue::from_string(data).ok();
    let error = ErrorObject { code, message: message.into(), data: data.as_deref() };
    jsonrpc::error(id, &error)
}

/// The delays between the attempts at a stream.
pub(super) fn backoff() -> Backoff {
    Backoff::new(Duration::from_millis(250), Duration::from_secs(5))
}

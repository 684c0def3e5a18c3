//! Error responses of the bridge itself.

use std::time::Duration;

use bytes::Bytes;
use gateway_protocol::jsonrpc::{self, ErrorObject, Id, InvalidMessage, code};
use http::StatusCode;
use retry_backoff::Backoff;
use serde_json::value::RawValue;

use super::endpoint::SendError;

/// Failed handshakes, by a part of their reasons, with their remedies. The gateway has received no
/// request. hyper reports a TLS alert as an invalid version.
const FAILED_HANDSHAKES: [(&str, &str); 5] = [
    (
        "CaUsedAsEndEntity",
        "The certificate of the gateway is a CA certificate: issue one with \
         basicConstraints=CA:FALSE",
    ),
    ("InvalidContentType", "If the gateway does not use TLS, write http:// in --gateway"),
    ("invalid HTTP version", "If the gateway uses TLS, write https:// in --gateway"),
    (
        "fatal alert: CertificateRequired",
        "The gateway requires a client certificate: restart the bridge with --client-cert and \
         --client-key",
    ),
    (
        "fatal alert: CertificateExpired",
        "The client certificate has expired: renew the files of --client-cert and --client-key",
    ),
];
const WRONG_CA: &str = "Restart the bridge with --gateway-ca and the CA bundle that verifies the \
                        certificate of the gateway";

/// The remedy if the reason of a failed connection is a known failure of its handshake.
pub(super) fn connection_remedy(reason: &str) -> Option<&'static str> {
    if registry_tls::is_untrusted_ca(reason) {
        return Some(WRONG_CA);
    }
    FAILED_HANDSHAKES.iter().find(|(cause, _)| reason.contains(cause)).map(|(_, remedy)| *remedy)
}

/// Why the gateway returned no response.
#[derive(Debug, Clone, thiserror::Error)]
pub(super) enum BridgeError {
    /// The request was not sent.
    #[error("cannot reach {gateway}: {reason}. The request was not sent. {remedy}")]
    Unreachable { gateway: String, reason: String, remedy: &'static str },
    /// The connection was lost after the request was sent.
    #[error(
        "the connection to {gateway} was lost before the response: {reason}. The outcome of the \
         request is unknown: check whether it had an effect before you repeat it"
    )]
    Unknown { gateway: String, reason: String },
    /// The session was lost and could not be reopened.
    #[error("the session at {gateway} was lost and could not be reopened: {reason}")]
    Session { gateway: String, reason: String },
    /// An HTTP status without a JSON-RPC message.
    #[error("{gateway} responded with HTTP {status} and no JSON-RPC message{remedy}")]
    Status { gateway: String, status: StatusCode, remedy: &'static str },
    /// The response exceeds the limit.
    #[error("the response of {gateway} exceeds {limit_bytes} bytes")]
    TooLong { gateway: String, limit_bytes: usize },
    #[error("{gateway} did not respond with a JSON-RPC response: {reason}")]
    NoResponse { gateway: String, reason: String },
}

impl BridgeError {
    pub(super) fn lost(gateway: String, lost: SendError) -> Self {
        match lost {
            SendError::NotSent(reason) => {
                let remedy = connection_remedy(&reason).unwrap_or(
                    "Start the gateway or correct --gateway, then repeat the request; the bridge \
                     needs no restart",
                );
                Self::Unreachable { gateway, reason, remedy }
            }
            SendError::Unknown(reason) => Self::Unknown { gateway, reason },
        }
    }

    pub(super) fn status(gateway: String, status: StatusCode) -> Self {
        let remedy = match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                "; set a token with --token-file or GATEWAY_TOKEN"
            }
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => {
                "; correct the path of --gateway"
            }
            _ if status.is_redirection() => {
                "; redirects are not followed, set --gateway to the endpoint itself"
            }
            _ => "",
        };
        Self::Status { gateway, status, remedy }
    }

    /// The machine-readable `data.reason`.
    fn reason(&self) -> &'static str {
        match self {
            Self::Unreachable { .. } => "gateway-unreachable",
            Self::Unknown { .. } => "outcome-unknown",
            Self::Session { .. } => "session-lost",
            Self::Status { .. } | Self::NoResponse { .. } => "no-response",
            Self::TooLong { .. } => "response-too-long",
        }
    }

    /// The error response to a request.
    pub(super) fn response(&self, id: Id<'_>) -> Bytes {
        error(Some(id), code::INTERNAL_ERROR, self.reason(), self.to_string())
    }
}

/// Why the bridge rejects a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum LimitReached {
    #[error("the limit of {0} running requests is reached; wait for a response, then retry")]
    Requests(usize),
    #[error(
        "the limit of {0} bytes for running requests is reached; wait for a response, then retry"
    )]
    Bytes(usize),
    #[error("a request with this id is still running; use a unique id for each request")]
    Id,
}

impl LimitReached {
    pub(super) fn response(self, id: Id<'_>) -> Bytes {
        match self {
            Self::Id => error(Some(id), code::INVALID_REQUEST, "id-in-use", self.to_string()),
            _ => error(Some(id), code::INTERNAL_ERROR, "too-many-requests", self.to_string()),
        }
    }
}

/// The error response to an invalid line.
pub(super) fn invalid(id: Option<Id<'_>>, invalid: &InvalidMessage) -> Bytes {
    let code = match invalid {
        InvalidMessage::Syntax { .. } => code::PARSE_ERROR,
        _ => code::INVALID_REQUEST,
    };
    error(id, code, "invalid-message", invalid.to_string())
}

/// The error response to an empty batch.
pub(super) fn empty_batch() -> Bytes {
    error(None, code::INVALID_REQUEST, "invalid-message", "the batch is empty".to_owned())
}

fn error(id: Option<Id<'_>>, code: i64, reason: &str, message: String) -> Bytes {
    let data = format!(r#"{{"reason":"{reason}"}}"#);
    let data = RawValue::from_string(data).ok();
    let error = ErrorObject { code, message: message.into(), data: data.as_deref() };
    jsonrpc::error(id, &error)
}

/// The delays between attempts at a stream.
pub(super) fn backoff() -> Backoff {
    Backoff::new(Duration::from_millis(250), Duration::from_secs(5))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_handshakes_name_the_options() {
        for (reason, expected) in [
            ("invalid peer certificate: UnknownIssuer", "--gateway-ca"),
            ("invalid peer certificate: BadSignature", "--gateway-ca"),
            ("invalid peer certificate: Other(OtherError(CaUsedAsEndEntity))", "CA:FALSE"),
            ("received fatal alert: CertificateRequired", "--client-cert and --client-key"),
            ("received fatal alert: CertificateExpired", "--client-cert and --client-key"),
            ("invalid HTTP version parsed", "https:// in --gateway"),
            ("received corrupt message of type InvalidContentType", "http:// in --gateway"),
            ("Connection refused (os error 111)", "Start the gateway"),
        ] {
            let lost = SendError::new(true, reason.to_owned());
            let failure = BridgeError::lost("the gateway".to_owned(), lost);
            assert_eq!(failure.reason(), "gateway-unreachable");
            assert!(failure.to_string().contains(expected), "{failure}");
        }
    }

    #[test]
    fn outcome_is_known_after_failed_handshake() {
        for (reason, expected) in [
            ("received fatal alert: CertificateRequired", "gateway-unreachable"),
            ("invalid HTTP version parsed", "gateway-unreachable"),
            ("connection closed before message completed", "outcome-unknown"),
        ] {
            let lost = SendError::new(false, reason.to_owned());
            assert_eq!(BridgeError::lost("the gateway".to_owned(), lost).reason(), expected);
        }
    }
}

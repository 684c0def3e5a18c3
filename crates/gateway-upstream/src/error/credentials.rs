//! Errors of access tokens.

use crate::{TargetId, secret::SecretError};

/// A target without an access token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no token for {target} from {endpoint}: {why}")]
pub struct MissingToken {
    /// The registered server.
    pub target: TargetId,
    /// The token endpoint.
    pub endpoint: Box<str>,
    /// The reason.
    pub why: TokenError,
}

/// The reason why a token endpoint gave no token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// The client secret is unusable.
    #[error("the client secret: {0}")]
    Secret(#[from] SecretError),
    /// The endpoint is unreachable.
    #[error("the token endpoint is unreachable: {0}")]
    Unreachable(String),
    /// The request timed out.
    #[error("the token endpoint did not respond within {after_ms} ms")]
    Late {
        /// The limit.
        after_ms: u64,
    },
    /// The endpoint rejected the request.
    #[error("the token endpoint rejected the request (HTTP {status}{})", .reason.map(|r| format!(", {r}")).unwrap_or_default())]
    Refused {
        /// The HTTP status.
        status: u16,
        /// The error code of OAuth 2.0, if it is known.
        reason: Option<&'static str>,
    },
    /// The response is invalid.
    #[error("invalid response of the token endpoint: {0}")]
    Unusable(&'static str),
}

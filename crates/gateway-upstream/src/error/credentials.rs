//! Errors of access tokens.

use crate::{TargetId, secret::UnusableSecret};

/// A target without an access token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no token for {target} from {endpoint}: {why}")]
pub struct NoCredentials {
    /// The registered server.
    pub target: TargetId,
    /// The token endpoint.
    pub endpoint: Box<str>,
    /// The reason.
    pub why: NoToken,
}

/// The reason why a token endpoint gave no token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoToken {
    /// The client secret is unusable.
    #[error("the client secret: {0}")]
    Secret(#[from] UnusableSecret),
    /// The endpoint is unreachable.
    #[error("it cannot be reached: {0}")]
    Unreachable(String),
    /// The request timed out.
    #[error("it gave no answer in {after_ms} ms")]
    Late {
        /// The limit.
        after_ms: u64,
    },
    /// The endpoint rejected the request.
    #[error("it refused (HTTP {status}{})", .reason.map(|r| format!(", {r}")).unwrap_or_default())]
    Refused {
        /// The HTTP status.
        status: u16,
        /// The error code of OAuth 2.0, if it is known.
        reason: Option<&'static str>,
    },
    /// The response is invalid.
    #[error("its answer cannot be used: {0}")]
    Unusable(&'static str),
}

//! What a caller is told that did not prove enough: `WWW-Authenticate` (RFC 6750 and RFC 9728).
//!
//! The challenge does not explain why a token is invalid; the log does.

use http::HeaderValue;

/// What to come back with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Challenge {
    /// Where it is written how to get a token; `None` where tokens are not taken.
    pub(super) metadata: Option<String>,
    /// The scopes that are needed, with spaces between.
    pub(super) scope: String,
}

/// Why a request is not let in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It proves nothing.
    #[error("this gateway must know who is calling; send a token")]
    Missing(Challenge),
    /// What it proves itself with is wrong or over.
    #[error("the token is not valid here, or is over; get another one")]
    Invalid(Challenge),
    /// The token is good, and does not allow this.
    #[error("the token does not allow this; it takes the scopes: {}", .0.scope)]
    Insufficient(Challenge),
}

impl Refusal {
    /// One word for metrics.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Missing(_) => "unauthenticated",
            Self::Invalid(_) => "invalid-token",
            Self::Insufficient(_) => "insufficient-scope",
        }
    }

    /// The scopes that it takes.
    pub fn scopes(&self) -> &str {
        let (Self::Missing(challenge) | Self::Invalid(challenge) | Self::Insufficient(challenge)) =
            self;
        &challenge.scope
    }

    /// `WWW-Authenticate`.
    pub fn challenge(&self) -> HeaderValue {
        let (error, challenge) = match self {
            Self::Missing(challenge) => (None, challenge),
            Self::Invalid(challenge) => (Some("invalid_token"), challenge),
            Self::Insufficient(challenge) => (Some("insufficient_scope"), challenge),
        };
        let scope = Some(&*challenge.scope).filter(|scope| !scope.is_empty());
        let metadata = challenge.metadata.as_deref();
        let pairs = [("error", error), ("scope", scope), ("resource_metadata", metadata)];
        let pairs = pairs.into_iter().filter_map(|(name, value)| Some((name, value?)));
        let pairs: Vec<_> = pairs.map(|(name, value)| format!("{name}=\"{value}\"")).collect();
        let text = format!("Bearer {}", pairs.join(", "));
        // Scopes and URLs were looked at before; nothing in them can break out of the quotes.
        HeaderValue::try_from(text.trim_end()).unwrap_or(HeaderValue::from_static("Bearer"))
    }
}

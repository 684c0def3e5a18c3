//! The `WWW-Authenticate` challenge of rejected requests (RFC 6750 and RFC 9728).
//!
//! The challenge does not explain why a token is invalid; the log does.

use http::HeaderValue;

use super::accepted::AcceptedCredentials;

/// The parameters of a challenge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Challenge {
    /// The URL of the protected resource metadata. `None` if tokens are not accepted.
    pub(super) metadata: Option<String>,
    /// The required scopes, separated by spaces.
    pub(super) scope: String,
    /// The credentials that the gateway accepts.
    pub(super) accepted: AcceptedCredentials,
}

/// Why a request is not authenticated or authorized.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuthenticationError {
    /// The request has no credentials.
    #[error("authentication required{}", .0.accepted.remedy())]
    Missing(Challenge),
    /// The credentials are invalid or expired.
    #[error("{}", .0.accepted.problem())]
    Invalid(Challenge),
    /// The credentials lack scopes.
    #[error("insufficient scope; required scopes: {}", .0.scope)]
    Insufficient(Challenge),
}

impl AuthenticationError {
    /// The reason code, for metrics.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Missing(_) => "unauthenticated",
            Self::Invalid(_) => "invalid-token",
            Self::Insufficient(_) => "insufficient-scope",
        }
    }

    /// The required scopes.
    pub fn scopes(&self) -> &str {
        let (Self::Missing(challenge) | Self::Invalid(challenge) | Self::Insufficient(challenge)) =
            self;
        &challenge.scope
    }

    /// The value of `WWW-Authenticate`.
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
        // Scopes and URLs were validated and contain no quotes.
        HeaderValue::try_from(text.trim_end()).unwrap_or(HeaderValue::from_static("Bearer"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_accepted_credentials() {
        let message = |tokens, api_keys, certificates| {
            let accepted = AcceptedCredentials { tokens, api_keys, certificates };
            let challenge = Challenge { metadata: None, scope: String::new(), accepted };
            let missing = AuthenticationError::Missing(challenge.clone());
            format!("{missing}\n{}", AuthenticationError::Invalid(challenge))
        };
        insta::assert_snapshot!(message(true, false, true), @"
        authentication required; send an access token as `Authorization: Bearer`
        invalid or expired access token
        ");
        insta::assert_snapshot!(message(false, true, false), @"
        authentication required; send an API key as `X-API-Key`
        invalid API key
        ");
        insta::assert_snapshot!(message(true, true, false), @"
        authentication required; send an access token as `Authorization: Bearer`, or an API key as `X-API-Key`
        invalid API key, or invalid or expired access token
        ");
        insta::assert_snapshot!(message(false, false, true), @"
        authentication required; connect with a client certificate
        invalid or expired access token
        ");
    }
}

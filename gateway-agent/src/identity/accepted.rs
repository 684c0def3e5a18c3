//! The credentials that a gateway accepts, as messages name them.

/// The kinds of credentials that a gateway accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AcceptedCredentials {
    pub(super) tokens: bool,
    pub(super) api_keys: bool,
    pub(super) certificates: bool,
}

impl AcceptedCredentials {
    /// The remedy for a request without credentials.
    pub(super) fn remedy(self) -> &'static str {
        match (self.tokens, self.api_keys) {
            (true, true) => {
                "; send an access token as `Authorization: Bearer`, or an API key as `X-API-Key`"
            }
            (true, false) => "; send an access token as `Authorization: Bearer`",
            (false, true) => "; send an API key as `X-API-Key`",
            (false, false) if self.certificates => "; connect with a client certificate",
            (false, false) => "",
        }
    }

    /// The problem of an invalid token or API key.
    pub(super) fn problem(self) -> &'static str {
        match (self.tokens, self.api_keys) {
            (true, true) => "invalid API key, or invalid or expired access token",
            (false, true) => "invalid API key",
            (_, false) => "invalid or expired access token",
        }
    }
}

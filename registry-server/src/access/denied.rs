//! Rejections of requests by authentication, authorization and rate limits.
//!
//! Messages to clients do not reveal whether a token exists. The log has the details.

use std::time::Duration;

use super::Roles;

/// A rejected request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// A request without credentials.
    #[error("authentication required: send `authorization: Bearer TOKEN` or a client certificate")]
    Missing,
    /// Invalid credentials, with the reason for the log.
    #[error("invalid, expired or revoked credentials")]
    Invalid(String),
    /// Token data that is too old, because the database is unavailable.
    #[error("cannot verify the token: the database is unavailable")]
    TokensUnavailable,
    /// A principal without a required role.
    #[error("permission denied: `{name}` has {}, but this method requires the role {}", shown(*.has), any_of(*.needs))]
    Forbidden {
        /// Name of the principal.
        name: String,
        /// Roles of the principal.
        has: Roles,
        /// Roles that the method accepts.
        needs: Roles,
    },
    /// A method or path without an access rule.
    #[error("not found")]
    UnknownRoute,
    /// A request above the rate limit, with the time until the next one is accepted.
    #[error("rate limit exceeded; retry in {} ms", .0.as_millis() + 1)]
    RateLimited(Duration),
    /// Invalid credentials after too many failures from the same address.
    #[error(
        "invalid credentials; too many failed attempts from this address, retry in {} ms",
        .0.as_millis() + 1
    )]
    TooManyFailures(Duration),
}

fn any_of(roles: Roles) -> String {
    roles.to_string().replace(' ', " or ")
}

fn shown(roles: Roles) -> String {
    if roles.is_empty() { "no role".to_owned() } else { roles.to_string() }
}

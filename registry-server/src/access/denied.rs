//! Why a call is not let in.
//!
//! What the caller hears never tells whether a token exists; what is wrong with it goes to the log.

use std::time::Duration;

use super::Roles;

/// Why a call is not let in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// It shows nothing.
    #[error("who is calling? send `authorization: Bearer TOKEN`, or a client certificate")]
    Missing,
    /// What it shows proves nothing; why is for the log.
    #[error("the credentials are not valid: unknown, expired, revoked or not for this server")]
    Invalid(String),
    /// The database has been away for too long.
    #[error("tokens cannot be checked, because the database has not answered for too long")]
    Unverifiable,
    /// It may not do this.
    #[error("`{name}` may not do this: it has {}, and needs one of {needs}", shown(*.has))]
    Forbidden {
        /// Who.
        name: String,
        /// What it may do.
        has: Roles,
        /// Any of which would do.
        needs: Roles,
    },
    /// Nobody said who may call this, so it is as if it were not there.
    #[error("not found")]
    NoRule,
    /// Too many requests.
    #[error("too many requests; try again in {} ms", .0.as_millis() + 1)]
    Limited(Duration),
    /// Too many credentials from its address were not valid, and this one is not either.
    #[error(
        "the credentials are not valid, nor were too many before them from this address; try again in {} ms",
        .0.as_millis() + 1
    )]
    Failing(Duration),
}

fn shown(roles: Roles) -> String {
    if roles.is_empty() { "no role".to_owned() } else { roles.to_string() }
}

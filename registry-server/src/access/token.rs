//! API tokens: validation of new ones and conversion of stored ones.

use std::{net::SocketAddr, sync::Arc};

use axum::BoxError;
use registry_core::{Digest, Timestamp};

use super::{
    MAX_SCOPES, Method, Principal, Roles, Scopes,
    name::{ANONYMOUS, is_personal},
};
use crate::store::StoredToken;

/// Maximum bytes of the name of a principal or team.
const NAME_BYTES: usize = 128;

/// Parameters of a token to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewToken {
    /// Name of the principal.
    pub name: String,
    /// Team that owns the registered entities.
    pub team: String,
    /// Granted roles.
    pub roles: Roles,
    /// Names that the token may write.
    pub scopes: Scopes,
    /// Expiry; `None` never expires.
    pub expires_at: Option<Timestamp>,
}

/// Invalid parameters of a token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidToken {
    /// A name or team with invalid characters, or too long.
    #[error(
        "{field}: `{text}` is invalid; use 1 to {NAME_BYTES} of the characters A-Z a-z 0-9 _ . - @ : /"
    )]
    Name {
        /// `name` or `team`.
        field: &'static str,
        /// The invalid value, truncated.
        text: String,
    },
    /// The reserved name of unauthenticated callers.
    #[error("name: `{ANONYMOUS}` is reserved for unauthenticated callers; use another name")]
    Anonymous,
    /// A reserved personal team.
    #[error("team: `{0}` is invalid; the prefix `user:` is reserved for personal teams")]
    Personal(String),
    /// No role.
    #[error("roles: a token needs at least one role")]
    Roles,
    /// Too many scopes.
    #[error("scopes: there are {0}, at most {MAX_SCOPES} are allowed")]
    Scopes(usize),
    /// An expiry in the past.
    #[error("expire_time: {0} is not in the future")]
    Expired(Timestamp),
}

impl InvalidToken {
    /// The invalid field of `CreateTokenRequest`.
    pub fn field(&self) -> &'static str {
        match self {
            Self::Name { field, .. } => field,
            Self::Anonymous => "name",
            Self::Personal(_) => "team",
            Self::Roles => "roles",
            Self::Scopes(_) => "scopes",
            Self::Expired(_) => "expire_time",
        }
    }
}

impl NewToken {
    /// Validates the parameters.
    pub fn check(&self, now: Timestamp) -> Result<(), InvalidToken> {
        for (field, text) in [("name", &self.name), ("team", &self.team)] {
            if !is_name(text) {
                let text = text.chars().take(NAME_BYTES).collect();
                return Err(InvalidToken::Name { field, text });
            }
        }
        let scopes = self.scopes.selectors().len();
        match self.expires_at {
            _ if self.name == ANONYMOUS => Err(InvalidToken::Anonymous),
            _ if is_personal(&self.team) => Err(InvalidToken::Personal(self.team.clone())),
            _ if self.roles.is_empty() => Err(InvalidToken::Roles),
            _ if scopes > MAX_SCOPES => Err(InvalidToken::Scopes(scopes)),
            Some(at) if at <= now => Err(InvalidToken::Expired(at)),
            _ => Ok(()),
        }
    }
}

/// Whether a text is a valid name of a principal or team.
pub(super) fn is_name(text: &str) -> bool {
    let is_allowed = |c: u8| c.is_ascii_alphanumeric() || b"_.-@:/".contains(&c);
    !text.is_empty() && text.len() <= NAME_BYTES && text.bytes().all(is_allowed)
}

/// An active token in memory.
#[derive(Debug)]
pub(super) struct Token {
    pub(super) digest: Digest,
    pub(super) expires_at: Option<Timestamp>,
    pub(super) last_used_at: Option<Timestamp>,
    principal: Principal,
}

impl Token {
    /// Principal of a request with this token.
    pub(super) fn principal(&self, address: Option<SocketAddr>) -> Principal {
        Principal { address, ..self.principal.clone() }
    }
}

impl TryFrom<StoredToken> for Token {
    type Error = BoxError;

    /// Fails for roles and selectors of a newer version.
    fn try_from(stored: StoredToken) -> Result<Self, BoxError> {
        let StoredToken { id, digest, name, team, roles, scopes, expires_at, last_used_at, .. } =
            stored;
        let principal = Principal {
            name: name.into(),
            team: team.into(),
            roles: roles.parse()?,
            scopes: scopes.parse()?,
            method: Method::Token(Arc::from(id)),
            subject: None,
            person: None,
            lacks_person: false,
            address: None,
            until: expires_at,
        };
        Ok(Self { digest, expires_at, last_used_at, principal })
    }
}

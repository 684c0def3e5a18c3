//! A token as the server works with it: checked when it is made, and when it is read.

use std::{net::SocketAddr, sync::Arc};

use axum::BoxError;
use registry_core::{Digest, Timestamp};

use super::{
    Method, Principal, Roles, SCOPES, Scopes,
    name::{ANONYMOUS, is_personal},
};
use crate::store::StoredToken;

/// Longest name of a principal or a team, in bytes.
const NAME_BYTES: usize = 128;

/// A token that is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewToken {
    /// Who will hold it.
    pub name: String,
    /// The team that owns what it registers.
    pub team: String,
    /// What it may do.
    pub roles: Roles,
    /// What it may write.
    pub scopes: Scopes,
    /// Until when.
    pub expires_at: Option<Timestamp>,
}

/// Why a token is not made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidToken {
    /// A name or a team with other characters, or too long.
    #[error("{field}: `{text}` is not 1 to {NAME_BYTES} of the characters A-Z a-z 0-9 _ . - @ : /")]
    Name {
        /// Which of the two.
        field: &'static str,
        /// What was given.
        text: String,
    },
    /// The name of nobody.
    #[error("name: `{ANONYMOUS}` is the name of whoever is not authenticated; take another")]
    Anonymous,
    /// The team of a single person.
    #[error(
        "team: `{0}` begins like the teams of persons, which only the server gives; take another"
    )]
    Personal(String),
    /// No role.
    #[error("roles: a token needs at least one role")]
    Roles,
    /// Too many scopes.
    #[error("scopes: there are {0}, at most {SCOPES} are allowed")]
    Scopes(usize),
    /// It would never be valid.
    #[error("expires_at: {0} is not in the future")]
    Expired(Timestamp),
}

impl NewToken {
    /// Checks it.
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
            _ if scopes > SCOPES => Err(InvalidToken::Scopes(scopes)),
            Some(at) if at <= now => Err(InvalidToken::Expired(at)),
            _ => Ok(()),
        }
    }
}

/// Whether a text can be the name of a principal or of a team.
pub(super) fn is_name(text: &str) -> bool {
    let is_allowed = |c: u8| c.is_ascii_alphanumeric() || b"_.-@:/".contains(&c);
    !text.is_empty() && text.len() <= NAME_BYTES && text.bytes().all(is_allowed)
}

/// A token that lives.
#[derive(Debug)]
pub(super) struct Token {
    pub(super) digest: Digest,
    pub(super) expires_at: Option<Timestamp>,
    pub(super) last_used_at: Option<Timestamp>,
    principal: Principal,
}

impl Token {
    /// Whoever holds it, calling from there.
    pub(super) fn principal(&self, address: Option<SocketAddr>) -> Principal {
        Principal { address, ..self.principal.clone() }
    }
}

impl TryFrom<StoredToken> for Token {
    type Error = BoxError;

    /// A newer server may know more roles, or other selectors.
    fn try_from(stored: StoredToken) -> Result<Self, BoxError> {
        let StoredToken { id, digest, name, team, roles, scopes, expires_at, last_used_at, .. } =
            stored;
        let principal = Principal {
            name: name.into(),
            team: team.into(),
            roles: roles.parse()?,
            scopes: scopes.parse()?,
            method: Method::Token(Arc::from(id)),
            address: None,
            until: expires_at,
        };
        Ok(Self { digest, expires_at, last_used_at, principal })
    }
}

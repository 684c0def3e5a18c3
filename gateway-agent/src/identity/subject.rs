//! The token that a caller has proved itself with: it is exchanged for others (RFC 8693), and goes
//! to nobody but the token endpoint.
//!
//! It lives as long as the request that brought it and what is opened for that request.
//! Deliberately absent: judging it; the doorkeeper has.

use std::fmt;

use registry_core::Digest;

use super::{HeaderClaim, Named};

/// A caller's token, and whose it is. It is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct SubjectToken {
    principal: Box<str>,
    token: Box<str>,
}

impl SubjectToken {
    /// The token of somebody who has proved to be this.
    pub(super) fn new(claim: &HeaderClaim, token: &str) -> Option<Self> {
        let HeaderClaim::Proven { named, principal, .. } = claim else { return None };
        let agent = named.as_ref().map(|Named { name, version }| (name, version));
        // Quoted, so that nothing in one part looks like another part.
        let principal = format!("{principal:?} {agent:?}");
        Some(Self { principal: principal.into(), token: token.into() })
    }

    /// Who the caller is; never the same of two.
    pub(crate) fn principal(&self) -> &str {
        &self.principal
    }

    /// The token itself.
    pub(crate) fn expose(&self) -> &str {
        &self.token
    }

    /// Tells one token from another.
    pub(crate) fn digest(&self) -> Digest {
        Digest::of(self.token.as_bytes())
    }

    /// For tests.
    #[cfg(test)]
    pub(crate) fn of(principal: &str, token: &str) -> Self {
        Self { principal: principal.into(), token: token.into() }
    }
}

impl fmt::Debug for SubjectToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SubjectToken(…)")
    }
}

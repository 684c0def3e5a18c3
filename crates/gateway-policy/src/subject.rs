//! The verified token of a caller. The gateway sends it only to the token endpoint, which exchanges
//! it for others (RFC 8693).

use std::fmt;

use registry_core::Digest;

use crate::{HeaderClaim, Named};

/// A caller's verified token and the caller. Its `Debug` form omits the token.
#[derive(Clone, PartialEq, Eq)]
pub struct SubjectToken {
    principal: Box<str>,
    token: Box<str>,
}

impl SubjectToken {
    /// Creates the token of an authenticated caller; `None` for other claims.
    pub fn new(claim: &HeaderClaim, token: &str) -> Option<Self> {
        let HeaderClaim::Proven { named, principal, .. } = claim else { return None };
        let agent = named.as_ref().map(|Named { name, version }| (name, version));
        // Quoted, so that nothing in one part looks like another part.
        let principal = format!("{principal:?} {agent:?}");
        Some(Self { principal: principal.into(), token: token.into() })
    }

    /// The caller, unique among all callers.
    pub fn principal(&self) -> &str {
        &self.principal
    }

    /// The secret token.
    pub fn expose(&self) -> &str {
        &self.token
    }

    /// The digest of the token.
    pub fn digest(&self) -> Digest {
        Digest::compute(self.token.as_bytes())
    }
}

impl fmt::Debug for SubjectToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SubjectToken(…)")
    }
}

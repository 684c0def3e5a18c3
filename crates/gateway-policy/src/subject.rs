//! The verified token of a caller. The gateway sends it only to the token endpoint, which exchanges
//! it for others (RFC 8693).

use std::fmt;

use registry_core::Digest;

use crate::{AgentReference, CallerIdentity};

/// A caller's verified token and the caller. Its `Debug` form omits the token.
#[derive(Clone, PartialEq, Eq)]
pub struct SubjectToken {
    principal: Box<str>,
    token: Box<str>,
}

impl SubjectToken {
    /// Creates the token of an authenticated caller; `None` for other claims.
    pub fn new(claim: &CallerIdentity, token: &str) -> Option<Self> {
        let CallerIdentity::Verified { agent, principal, .. } = claim else { return None };
        let agent = agent.as_ref().map(|AgentReference { name, version }| (name, version));
        // Quoted, so that no part can be mistaken for another.
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

//! The authentication facts of a request.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The agent that a credential names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named {
    /// Its name.
    pub name: Box<str>,
    /// Its version. `None`: the newest.
    pub version: Option<Box<str>>,
}

/// The identity that a request claims or proves. Sessions are bound to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum HeaderClaim {
    /// No identity, or none that the deployment trusts.
    Absent,
    /// Malformed headers: repeated, not text, or a version without a name.
    Unreadable,
    /// The agent of trusted headers.
    Agent {
        /// Its name.
        name: Box<str>,
        /// Its version. `None`: the newest.
        version: Option<Box<str>>,
    },
    /// An authenticated caller.
    Proven {
        /// The agent that the credential names.
        named: Option<Named>,
        /// The kind of credential.
        evidence: Evidence,
        /// The owner of the credential; never logged.
        principal: Box<str>,
        /// The owner as it may be logged.
        told: Option<Box<str>>,
    },
}

impl HeaderClaim {
    /// Returns the identity that distinguishes the caller from others: its agent, else the owner of
    /// its credential. `None`: all such callers count as one.
    pub fn apart(&self) -> Option<Arc<str>> {
        let agent = |name: &str, version: Option<&str>| {
            Some(format!("agent {name}@{}", version.unwrap_or_default()).into())
        };
        match self {
            Self::Absent | Self::Unreadable => None,
            Self::Agent { name, version } => agent(name, version.as_deref()),
            Self::Proven { named: Some(Named { name, version }), .. } => {
                agent(name, version.as_deref())
            }
            Self::Proven { named: None, principal, .. } => {
                (!principal.is_empty()).then(|| format!("principal {principal}").into())
            }
        }
    }
}

/// How a caller was identified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Evidence {
    /// A client certificate.
    Certificate,
    /// A token of an identity provider.
    Token,
    /// An API key.
    ApiKey,
    /// Headers that the deployment trusts.
    Headers,
    /// MCP `clientInfo`.
    ClientInfo,
    /// No evidence.
    Nothing,
}

impl Evidence {
    /// The name in the audit.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Certificate => "certificate",
            Self::Token => "token",
            Self::ApiKey => "api-key",
            Self::Headers => "headers",
            Self::ClientInfo => "client-info",
            Self::Nothing => "nothing",
        }
    }
}

//! The identity of a caller.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The agent that a credential names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentReference {
    /// Its name.
    pub name: Box<str>,
    /// Its version. `None`: the newest.
    pub version: Option<Box<str>>,
}

/// The identity that a request claims or proves. Sessions are bound to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum CallerIdentity {
    /// No identity, or none that the deployment trusts.
    Anonymous,
    /// Malformed headers: repeated, not text, or a version without a name.
    Malformed,
    /// The agent of trusted headers.
    Asserted {
        /// Its name.
        name: Box<str>,
        /// Its version. `None`: the newest.
        version: Option<Box<str>>,
    },
    /// An authenticated caller.
    Verified {
        /// The agent that the credential names.
        agent: Option<AgentReference>,
        /// The kind of credential.
        auth_method: AuthMethod,
        /// The owner of the credential; never logged.
        principal: Box<str>,
        /// The owner of the credential as it may be logged.
        log_name: Option<Box<str>>,
    },
}

impl CallerIdentity {
    /// The caller's agent, else the owner of its credential. `None`: all such callers share one
    /// quota.
    pub fn quota_key(&self) -> Option<Arc<str>> {
        let agent = |name: &str, version: Option<&str>| {
            Some(format!("agent {name}@{}", version.unwrap_or_default()).into())
        };
        match self {
            Self::Anonymous | Self::Malformed => None,
            Self::Asserted { name, version } => agent(name, version.as_deref()),
            Self::Verified { agent: Some(AgentReference { name, version }), .. } => {
                agent(name, version.as_deref())
            }
            Self::Verified { agent: None, principal, .. } => {
                (!principal.is_empty()).then(|| format!("principal {principal}").into())
            }
        }
    }
}

/// The method that identified a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum AuthMethod {
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
    /// Not identified.
    None,
}

impl AuthMethod {
    /// The name in the audit.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Certificate => "certificate",
            Self::Token => "token",
            Self::ApiKey => "api-key",
            Self::Headers => "headers",
            Self::ClientInfo => "client-info",
            Self::None => "none",
        }
    }
}

//! The identity of a caller.

use std::sync::Arc;

use registry_core::Digest;
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
        /// The owner of the credential, which budgets and rates count.
        principal: Box<str>,
        /// The names in certificates and tokens. API keys have none.
        log_name: Option<Box<str>>,
        /// The accepted credentials, the strongest first.
        #[serde(default)]
        credentials: Box<[VerifiedCredential]>,
    },
}

/// A credential that the gateway accepted, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerifiedCredential {
    /// The agent that it names.
    pub agent: Option<Box<str>>,
    /// The rule that accepted it.
    pub origin: CredentialOrigin,
}

/// The rule that accepted a credential.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum CredentialOrigin {
    /// The rules for client certificates.
    Certificate {
        /// The SPIFFE id or the common name. Empty: the certificate has none.
        name: Box<str>,
        /// Whether the name is a SPIFFE id.
        is_spiffe: bool,
    },
    /// The identity provider.
    Token {
        /// Its URL.
        issuer: Box<str>,
        /// The subject of the token. Empty: it has none.
        subject: Box<str>,
        /// The human behind the subject, if the token names one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        person: Option<Box<str>>,
    },
    /// An API key of the configuration, which names its agent.
    ApiKey {
        /// The digest of the key.
        digest: Digest,
    },
}

/// The owner of tasks, contexts and push notification configurations. Replacing a credential, or
/// adding one, does not change it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Principal<'a> {
    /// An agent: registered, or named by an API key or by trusted headers.
    Agent(&'a str),
    /// A user or program of the identity provider that is no registered agent.
    Subject {
        /// The URL of the identity provider.
        issuer: &'a str,
        /// The subject of its tokens.
        subject: &'a str,
    },
    /// The holder of a client certificate that names no registered agent.
    Certificate(&'a str),
}

impl CallerIdentity {
    /// The caller's agent, else the owner of its credential. `None`: all such callers share one
    /// quota.
    pub fn quota_key(&self) -> Option<Arc<str>> {
        let agent = |name: &str, version: Option<&str>| {
            Some(["agent ", name, "@", version.unwrap_or_default()].concat().into())
        };
        match self {
            Self::Anonymous | Self::Malformed => None,
            Self::Asserted { name, version } => agent(name, version.as_deref()),
            Self::Verified { agent: Some(AgentReference { name, version }), .. } => {
                agent(name, version.as_deref())
            }
            Self::Verified { agent: None, principal, .. } => {
                (!principal.is_empty()).then(|| ["principal ", principal].concat().into())
            }
        }
    }

    /// The owner of the credentials in the audit and in usage: the names in certificates and tokens, and
    /// the digests of API keys.
    pub fn log_name(&self) -> Option<Box<str>> {
        let Self::Verified { log_name, credentials, .. } = self else { return None };
        let keys = credentials.iter().filter_map(|credential| match &credential.origin {
            CredentialOrigin::ApiKey { digest } => Some(digest.to_string()),
            CredentialOrigin::Token { .. } | CredentialOrigin::Certificate { .. } => None,
        });
        let names: Vec<String> = log_name.iter().map(ToString::to_string).chain(keys).collect();
        (!names.is_empty()).then(|| names.join(", ").into())
    }

    /// The owner of the caller's tasks: its agent, else the subject of its token, else the holder of
    /// its certificate. `None`: the caller cannot be distinguished from others.
    pub fn principal(&self, is_registered: impl Fn(&str) -> bool) -> Option<Principal<'_>> {
        match self {
            Self::Anonymous | Self::Malformed => None,
            Self::Asserted { name, .. } => Some(Principal::Agent(name)),
            Self::Verified { credentials, .. } => {
                let agent = credentials.iter().find_map(|credential| {
                    let agent = credential.agent.as_deref()?;
                    // A claim of tokens can have one value for many subjects.
                    let is_key = matches!(credential.origin, CredentialOrigin::ApiKey { .. });
                    (is_key || is_registered(agent)).then_some(Principal::Agent(agent))
                });
                // A certificate that is added to a token changes no owner.
                agent.or_else(|| credentials.iter().rev().find_map(VerifiedCredential::holder))
            }
        }
    }
}

impl VerifiedCredential {
    fn holder(&self) -> Option<Principal<'_>> {
        match &self.origin {
            CredentialOrigin::Token { issuer, subject, .. } => {
                (!subject.is_empty()).then_some(Principal::Subject { issuer, subject })
            }
            CredentialOrigin::Certificate { name, .. } => {
                (!name.is_empty()).then_some(Principal::Certificate(name))
            }
            CredentialOrigin::ApiKey { .. } => None,
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

//! Settings of authentication.

use std::collections::BTreeMap;

use ipnet::IpNet;
use registry_core::Digest;
use registry_jwt::Settings;

use super::certificate::SpiffePattern;

/// The unverified claims that the gateway accepts; part of the `identity` block.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IdentityConfig {
    /// Whether `X-Agent-Name`, `X-Agent-Version` and `X-Caller-Agent` identify the caller.
    pub trust_headers: bool,
    /// Whether MCP `clientInfo` selects an agent. Otherwise only the audit records it.
    pub scope_by_client_info: bool,
}

/// How callers authenticate, and the scopes that they need.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuthenticationConfig {
    /// Whether callers must authenticate; `clientInfo` does not count.
    pub required: bool,
    /// Networks whose `X-Agent-*` headers are trusted. Empty: `trustHeaders` decides.
    pub trusted_proxies: Vec<IpNet>,
    /// The endpoint's public URL. `None`: derived from `Host`.
    pub resource: Option<String>,
    /// JSON Web Tokens of an identity provider.
    pub jwt: Option<JwtConfig>,
    /// API keys of callers.
    pub api_keys: Vec<ApiKeyConfig>,
    /// Client certificates.
    pub certificates: Option<CertificatesConfig>,
    /// The scopes that a method (`tools/call`, `SendMessage`) or a tool requires.
    pub scopes: BTreeMap<String, Vec<String>>,
    /// The scopes that a broader scope includes.
    pub implied_scopes: BTreeMap<String, Vec<String>>,
}

/// `identity.jwt`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JwtConfig {
    /// The verification of tokens.
    pub settings: Settings,
    /// The claims, or JSON pointers to them, that can name the agent. The first one present counts.
    pub agent_claims: Vec<String>,
    /// The claim with the agent's version.
    pub version_claim: Option<String>,
    /// The claim with the human behind an account, for approvals by different people.
    pub person_claim: Option<String>,
    /// The scopes that every token needs.
    pub required_scopes: Vec<String>,
}

/// One of `identity.apiKeys`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKeyConfig {
    /// The agent that the key identifies.
    pub agent: String,
    /// The version of the agent. `None`: the newest one.
    pub version: Option<String>,
    /// The digest of the key.
    pub digest: Digest,
    /// The scopes of the key.
    pub scopes: Vec<String>,
}

/// `identity.mtls`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificatesConfig {
    /// The pattern of the SPIFFE ids of agents.
    pub spiffe: Option<SpiffePattern>,
    /// Whether the common name of the subject names an agent.
    pub subject: bool,
}

impl AuthenticationConfig {
    /// Whether `Authorization: Bearer` can authenticate a caller.
    pub fn accepts_bearer_tokens(&self) -> bool {
        self.jwt.is_some() || !self.api_keys.is_empty()
    }

    /// Whether each call needs a credential, or the headers of one of `trustedProxies`.
    pub fn authenticates_every_call(&self, claims: IdentityConfig) -> bool {
        let trusts_every_peer = if self.trusted_proxies.is_empty() {
            claims.trust_headers
        } else {
            self.trusted_proxies.iter().any(|network| network.prefix_len() == 0)
        };
        self.required && self.accepts_bearer_tokens() && !trusts_every_peer
    }
}

/// The settings of authentication.
#[derive(Debug, Clone)]
pub struct AuthenticatorConfig {
    /// The unverified claims that identify callers.
    pub identity: IdentityConfig,
    /// How callers authenticate.
    pub authentication: AuthenticationConfig,
    /// The scheme of the endpoint's URL: `http` or `https`.
    pub scheme: &'static str,
}

//! Audit events of rejected credentials: the address, the caller as far as known, and the reason.
//! They never contain tokens or keys.

use std::net::SocketAddr;

use gateway_policy::{AgentReference, AuthMethod, CallerIdentity};

use super::{challenge::AuthenticationError, shortened};

/// Invalid or missing credentials. The caller is unknown.
pub(super) fn credentials(peer: Option<SocketAddr>, reason: &str) {
    let address = address(peer);
    tracing::warn!(target: "audit", event = "credentials-rejected", address, reason);
}

/// Insufficient scopes.
pub(super) fn scopes(
    peer: Option<SocketAddr>,
    (claim, error): (&CallerIdentity, &AuthenticationError),
    asked: Option<(&str, Option<&str>)>,
) {
    let (named, auth_method) = match claim {
        CallerIdentity::Anonymous => (None, AuthMethod::None),
        CallerIdentity::Malformed => (None, AuthMethod::Headers),
        CallerIdentity::Asserted { name, version } => (Some((name, version)), AuthMethod::Headers),
        CallerIdentity::Verified { agent, auth_method, .. } => {
            let named = agent.as_ref().map(|AgentReference { name, version }| (name, version));
            (named, *auth_method)
        }
    };
    let principal = claim.log_name();
    let status: u16 = if matches!(error, AuthenticationError::Insufficient(_)) { 403 } else { 401 };
    tracing::warn!(
        target: "audit",
        event = "scopes-rejected",
        address = address(peer),
        claimed_agent = named.map(|(name, _)| shortened(name)),
        claimed_version = named.and_then(|(_, version)| version.as_deref()).map(shortened),
        principal = principal.as_deref(),
        identified_by = auth_method.as_str(),
        method = asked.map(|(method, _)| shortened(method)),
        tool = asked.and_then(|(_, tool)| tool).map(shortened),
        needed = error.scopes(),
        status,
    );
}

fn address(peer: Option<SocketAddr>) -> String {
    peer.map(|peer| peer.to_string()).unwrap_or_default()
}

//! What the audit says of requests that are refused for what they prove: from where, who as far as
//! that is known, and what was missing. Never a token or a key.

use gateway_policy::{Evidence, HeaderClaim, Named};
use http::request::Parts;

use super::{challenge::Refusal, doorkeeper::peer, kept};

/// A credential that is wrong, or none where one is needed. Whose it would be nobody knows.
pub(super) fn credentials(parts: &Parts, reason: &str) {
    let address = address(parts);
    tracing::warn!(target: "audit", event = "credentials-refused", address, reason);
}

/// A credential that is right, or none, without the scopes that the request takes.
pub(super) fn scopes(
    parts: &Parts,
    (claim, refusal): (&HeaderClaim, &Refusal),
    asked: Option<(&str, Option<&str>)>,
) {
    let (named, evidence, principal) = match claim {
        HeaderClaim::Absent => (None, Evidence::Nothing, None),
        HeaderClaim::Unreadable => (None, Evidence::Headers, None),
        HeaderClaim::Agent { name, version } => (Some((name, version)), Evidence::Headers, None),
        HeaderClaim::Proven { named, evidence, told, .. } => {
            let named = named.as_ref().map(|Named { name, version }| (name, version));
            (named, *evidence, told.as_deref())
        }
    };
    let status: u16 = if matches!(refusal, Refusal::Insufficient(_)) { 403 } else { 401 };
    tracing::warn!(
        target: "audit",
        event = "scopes-refused",
        address = address(parts),
        claimed_agent = named.map(|(name, _)| kept(name)),
        claimed_version = named.and_then(|(_, version)| version.as_deref()).map(kept),
        principal,
        identified_by = evidence.as_str(),
        method = asked.map(|(method, _)| kept(method)),
        tool = asked.and_then(|(_, tool)| tool).map(kept),
        needed = refusal.scopes(),
        status,
    );
}

fn address(parts: &Parts) -> String {
    peer(parts).map(|peer| peer.to_string()).unwrap_or_default()
}

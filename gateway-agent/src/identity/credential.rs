//! Verification results of each kind of credential.

use gateway_policy::{AgentReference, AuthMethod, CredentialOrigin, VerifiedCredential};
use registry_core::Digest;
use registry_jwt::find;
use registry_tls::Holder;
use serde_json::Value;
use subtle::{Choice, ConditionallySelectable as _, ConstantTimeEq as _};

use super::scope::GrantedScopes;
use crate::identity::settings::{
    ApiKeyConfig, AuthenticationConfig, CertificatesConfig, JwtConfig,
};

/// The name in the connection's client certificate, or why it has none.
#[derive(Debug, Clone)]
pub(crate) struct PeerCertificate(pub(crate) Result<Holder, String>);

/// A verified credential.
#[derive(Debug, Clone)]
pub(super) struct Credential {
    /// The agent that it names.
    pub(super) named: Option<AgentReference>,
    pub(super) auth_method: AuthMethod,
    /// The verified subject. Sessions are bound to it.
    pub(super) principal: String,
    /// The name in the certificate or token. API keys have none.
    pub(super) log_name: Option<String>,
    pub(super) granted: GrantedScopes,
    /// Whether it is a token with a subject.
    pub(super) has_subject: bool,
    pub(super) origin: CredentialOrigin,
}

impl Credential {
    /// The credential as the claim of its request keeps it.
    pub(super) fn verified(&self) -> VerifiedCredential {
        let agent = self.named.as_ref().map(|named| named.name.clone());
        VerifiedCredential { agent, origin: self.origin.clone() }
    }
}

/// Whether the configuration still has the rule that accepted a credential. Expiry is not checked.
pub(super) fn is_accepted(config: &AuthenticationConfig, credential: &VerifiedCredential) -> bool {
    let VerifiedCredential { agent, origin } = credential;
    match origin {
        CredentialOrigin::Certificate { name, is_spiffe } => {
            config.certificates.as_ref().is_some_and(|rules| {
                agent_of_certificate(rules, name, *is_spiffe).map(|named| named.name) == *agent
            })
        }
        CredentialOrigin::Token { issuer, .. } => {
            config.jwt.as_ref().is_some_and(|jwt| *jwt.settings.issuer == **issuer)
        }
        CredentialOrigin::ApiKey { digest } => config
            .api_keys
            .iter()
            .any(|key| key.digest == *digest && agent.as_deref() == Some(&*key.agent)),
    }
}

fn agent_of_certificate(
    rules: &CertificatesConfig,
    name: &str,
    is_spiffe: bool,
) -> Option<AgentReference> {
    if is_spiffe {
        return rules.spiffe.as_ref().and_then(|pattern| pattern.agent(name));
    }
    // A certificate without a name is kept with an empty one.
    (rules.subject && !name.is_empty()).then(|| AgentReference { name: name.into(), version: None })
}

/// Evaluates a certificate. One without an agent still counts: no weaker credential is tried.
pub(super) fn of_certificate(rules: &CertificatesConfig, shown: &PeerCertificate) -> Credential {
    let (principal, is_spiffe) = match &shown.0 {
        Ok(holder) => (holder.name.clone(), holder.is_spiffe),
        Err(_) => (String::new(), false),
    };
    let named = agent_of_certificate(rules, &principal, is_spiffe);
    let (auth_method, granted) = (AuthMethod::Certificate, GrantedScopes::default());
    let log_name = Some(principal.clone()).filter(|name| !name.is_empty());
    let origin = CredentialOrigin::Certificate { name: principal.as_str().into(), is_spiffe };
    Credential { named, auth_method, principal, log_name, granted, has_subject: false, origin }
}

/// Finds an API key, comparing all in constant time.
pub(super) fn of_key(config: &AuthenticationConfig, key: &str) -> Option<Credential> {
    let shown = Digest::compute(key.as_bytes());
    let (mut place, mut is_found) = (0_u64, Choice::from(0));
    for (i, known) in (0_u64..).zip(&config.api_keys) {
        let is_it = shown.as_bytes().ct_eq(known.digest.as_bytes());
        place.conditional_assign(&i, is_it);
        is_found |= is_it;
    }
    let known = config.api_keys.get(usize::try_from(place).ok()?)?;
    let ApiKeyConfig { agent, version, digest, scopes } = known;
    let named =
        AgentReference { name: agent.as_str().into(), version: version.as_deref().map(Into::into) };
    bool::from(is_found).then(|| Credential {
        named: Some(named),
        auth_method: AuthMethod::ApiKey,
        principal: digest.to_string(),
        log_name: None,
        granted: GrantedScopes::new(scopes.iter().cloned(), &config.implied_scopes),
        has_subject: false,
        origin: CredentialOrigin::ApiKey { digest: *digest },
    })
}

/// Evaluates the claims of a valid token.
pub(super) fn of_claims(
    config: &AuthenticationConfig,
    jwt: &JwtConfig,
    claims: &Value,
) -> Credential {
    let text = |name: &str| find(claims, name).and_then(Value::as_str);
    let version = jwt.version_claim.as_deref().and_then(text).map(Into::into);
    // The first claim with a value decides, so that a malformed one is not replaced by a later one.
    let agent =
        jwt.agent_claims.iter().find_map(|name| find(claims, name).filter(|c| !c.is_null()));
    let named =
        agent.and_then(Value::as_str).map(|name| AgentReference { name: name.into(), version });
    let subject = text("sub").unwrap_or_default();
    let principal = format!("{} {subject}", jwt.settings.issuer);
    let issuer = jwt.settings.issuer.as_str().into();
    let person = jwt.person_claim.as_deref().and_then(text).filter(|person| !person.is_empty());
    let person = person.map(Into::into);
    Credential {
        named,
        auth_method: AuthMethod::Token,
        log_name: Some(principal.trim_end().to_owned()),
        principal,
        granted: GrantedScopes::new(scopes(claims), &config.implied_scopes),
        has_subject: !subject.is_empty(),
        origin: CredentialOrigin::Token { issuer, subject: subject.into(), person },
    }
}

/// RFC 9068 uses a text in `scope`; some providers use a list, or `scp`.
fn scopes(claims: &Value) -> Vec<String> {
    match claims.get("scope").or_else(|| claims.get("scp")) {
        Some(Value::String(words)) => words.split_whitespace().map(str::to_owned).collect(),
        Some(Value::Array(list)) => {
            list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use registry_jwt::{Settings, Source};
    use serde_json::json;

    use super::*;

    #[test]
    fn null_agent_claim_is_skipped() {
        let jwt = JwtConfig {
            settings: Settings {
                issuer: "https://id.example".to_owned(),
                audience: "gateway".to_owned(),
                source: Source::File("jwks.json".into()),
                algorithms: Vec::new(),
                skew: Duration::ZERO,
            },
            agent_claims: ["agent", "agent_name"].map(str::to_owned).to_vec(),
            version_claim: None,
            person_claim: None,
            required_scopes: Vec::new(),
        };
        let named = |claims: Value| {
            let credential = of_claims(&AuthenticationConfig::default(), &jwt, &claims);
            credential.named.map(|named| named.name.to_string())
        };
        let planner = Some("planner".to_owned());
        assert_eq!(named(json!({ "agent": null, "agent_name": "planner" })), planner);
        assert_eq!(named(json!({ "agent": 7, "agent_name": "planner" })), None);
        assert_eq!(named(json!({ "agent": null, "agent_name": null })), None);
    }

    #[test]
    fn api_key_is_found_at_any_position() {
        let key = |text: &str| ApiKeyConfig {
            agent: text.to_owned(),
            version: None,
            digest: Digest::compute(text.as_bytes()),
            scopes: Vec::new(),
        };
        let api_keys = ["a", "b", "c"].map(key).to_vec();
        let config = AuthenticationConfig { api_keys, ..AuthenticationConfig::default() };
        for known in ["a", "b", "c"] {
            let named = of_key(&config, known).unwrap().named.unwrap();
            assert_eq!(&*named.name, known);
        }
        for unknown in ["", "d", "ab"] {
            assert!(of_key(&config, unknown).is_none(), "{unknown}");
        }
        assert!(of_key(&AuthenticationConfig::default(), "a").is_none());
    }
}

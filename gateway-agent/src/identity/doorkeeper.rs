//! Authentication of callers: by client certificate, by token or API key, or by headers of a
//! trusted proxy. The strongest credential counts; if it is invalid, no weaker one is tried.
//!
//! A token or key must be valid even if a certificate is present. `clientInfo` is unverified.

use std::{collections::BTreeSet, net::SocketAddr, sync::Arc};

use axum::extract::ConnectInfo;
use gateway_policy::{HeaderClaim, SubjectToken};
use http::{
    HeaderMap, Uri,
    header::{Entry, HOST},
    request::Parts,
    uri::Authority,
};
use registry_core::Name;
use registry_jwt::{InvalidFile, UnknownKey, Verifier};
use serde_json::json;

use super::settings::{AuthenticatorConfig, IdentityConfig, ProofsConfig};
use super::{
    challenge::{Challenge, Refusal},
    only,
    proof::{self, PeerCertificate, Proof},
    read_claim, refused,
    scope::Granted,
};

/// The path of the protected resource metadata (RFC 9728).
pub(crate) const METADATA: &str = "/.well-known/oauth-protected-resource";
/// Maximum length of a logged subject, in characters.
const TOLD_CHARS: usize = 256;
const AUTHORIZATION: &str = "authorization";
const API_KEY: &str = "x-api-key";

/// Authenticates callers and checks scopes.
#[derive(Debug)]
pub struct Doorkeeper {
    claims: IdentityConfig,
    proofs: ProofsConfig,
    verifier: Option<Arc<Verifier>>,
    scheme: &'static str,
}

/// An authenticated request.
#[derive(Debug, Clone)]
pub(crate) struct Admitted {
    pub(crate) claim: HeaderClaim,
    granted: Granted,
    /// Whether the request has a token or key.
    has_bearer: bool,
    /// The token, if it names a subject.
    pub(crate) subject: Option<Arc<SubjectToken>>,
}

/// The credentials of a request. They have no `Debug` form.
pub(crate) struct Credentials(HeaderMap);

impl Credentials {
    /// Puts the credentials back, to authenticate again.
    pub(crate) fn put_back(self, headers: &mut HeaderMap) {
        headers.extend(self.0);
    }
}

enum Shown<'a> {
    Bearer(&'a str),
    Key(&'a str),
}

impl Doorkeeper {
    /// Creates the authenticator. Needs a Tokio runtime.
    pub async fn open(config: AuthenticatorConfig) -> Result<Self, InvalidFile> {
        Self::open_with(config, None).await
    }

    /// Creates one with another configuration. Loaded signing keys are reused.
    pub(crate) async fn reconfigured(
        &self,
        config: AuthenticatorConfig,
    ) -> Result<Self, InvalidFile> {
        Self::open_with(config, self.verifier.as_ref()).await
    }

    async fn open_with(
        config: AuthenticatorConfig,
        known: Option<&Arc<Verifier>>,
    ) -> Result<Self, InvalidFile> {
        let AuthenticatorConfig { identity, proofs, scheme } = config;
        let verifier = match proofs.jwt.as_ref().map(|jwt| &jwt.settings) {
            None => None,
            Some(settings) => match known.filter(|known| known.settings() == settings) {
                Some(known) => Some(Arc::clone(known)),
                None => Some(Verifier::open(settings.clone()).await?),
            },
        };
        Ok(Self { claims: identity, proofs, verifier, scheme })
    }

    /// Whether callers are authenticated by the same rules.
    pub(crate) fn has_rules_of(&self, other: &Self) -> bool {
        self.claims == other.claims && self.proofs == other.proofs
    }

    /// Authenticates a request.
    pub(crate) async fn admit(&self, parts: &Parts) -> Result<Admitted, Refusal> {
        let bearer = self.bearer(parts).await?;
        let certificate = self.certificate(parts);
        let granted = bearer.as_ref().map(|proof| proof.granted.clone()).unwrap_or_default();
        let has_bearer = bearer.is_some();
        let has_subject = bearer.as_ref().is_some_and(|proof| proof.has_subject);
        let claim = match (certificate, bearer) {
            (Some(certificate), bearer) => claim(certificate, bearer),
            (None, Some(bearer)) => claim(bearer, None),
            (None, None) => self.headers(parts),
        };
        let is_proved = matches!(claim, HeaderClaim::Agent { .. } | HeaderClaim::Proven { .. });
        if self.proofs.required && !is_proved {
            refused::credentials(parts, "no credentials");
            return Err(Refusal::Missing(self.challenge(parts, &[])));
        }
        let subject = match self.shown(&parts.headers) {
            Ok(Some(Shown::Bearer(token))) if has_subject => SubjectToken::new(&claim, token),
            _ => None,
        };
        Ok(Admitted { claim, granted, has_bearer, subject: subject.map(Arc::new) })
    }

    /// Removes the credentials from a request, so that they cannot be forwarded.
    pub(crate) fn strip(headers: &mut HeaderMap) -> Credentials {
        let mut taken = HeaderMap::new();
        for name in [AUTHORIZATION, API_KEY] {
            if let Entry::Occupied(found) = headers.entry(name) {
                let name = found.key().clone();
                taken.extend(found.remove_entry_mult().1.map(|value| (name.clone(), value)));
            }
        }
        Credentials(taken)
    }

    pub(crate) fn asks_for_scopes(&self) -> bool {
        !self.proofs.scopes.is_empty()
    }

    /// Rejects a request that lacks a scope of its method or of one of `tools`: a tool that the
    /// caller can call, and its inner tools. The challenge names the scopes of inner tools, too,
    /// because the call requires them. `asked` is for the audit.
    pub(crate) fn check_scopes(
        &self,
        parts: &Parts,
        (method, asked): (&str, Option<&str>),
        tools: &BTreeSet<Name>,
    ) -> Result<(), Refusal> {
        let of = |name: &str| self.proofs.scopes.get(name).map_or(&[][..], Vec::as_slice);
        let names = std::iter::once(method).chain(tools.iter().map(Name::as_str));
        let needed: Vec<_> = names.flat_map(of).cloned().collect();
        let admitted = parts.extensions.get::<Admitted>();
        let granted = admitted.map(|admitted| admitted.granted.clone()).unwrap_or_default();
        if granted.cover(needed.iter().map(String::as_str)) {
            return Ok(());
        }
        let challenge = self.challenge(parts, &needed);
        let refusal = match admitted {
            Some(Admitted { has_bearer: true, .. }) => Refusal::Insufficient(challenge),
            _ => Refusal::Missing(challenge),
        };
        let claim = admitted.map_or(&HeaderClaim::Absent, |admitted| &admitted.claim);
        refused::scopes(parts, (claim, &refusal), Some((method, asked)));
        Err(refusal)
    }

    /// Verifies the token or API key, if present.
    async fn bearer(&self, parts: &Parts) -> Result<Option<Proof>, Refusal> {
        let proved = match self.shown(&parts.headers) {
            Ok(None) => return Ok(None),
            Ok(Some(shown)) => self.prove(&shown).await,
            Err(why) => Err(why.to_owned()),
        };
        let proof = proved.map_err(|reason| {
            refused::credentials(parts, &reason);
            Refusal::Invalid(self.challenge(parts, &[]))
        })?;
        if proof.evidence == super::Evidence::Token
            && !proof.granted.cover(self.required_scopes().iter().map(String::as_str))
        {
            let refusal = Refusal::Insufficient(self.challenge(parts, &[]));
            refused::scopes(parts, (&claim(proof, None), &refusal), None);
            return Err(refusal);
        }
        Ok(Some(proof))
    }

    /// The only bearer credential of a request, if the configuration accepts any.
    fn shown<'a>(&self, headers: &'a HeaderMap) -> Result<Option<Shown<'a>>, &'static str> {
        if !self.proofs.takes_bearers() {
            return Ok(None);
        }
        let unreadable = |()| "a credential header is repeated or not text";
        let key = if self.proofs.api_keys.is_empty() {
            None
        } else {
            only(headers, API_KEY).map_err(unreadable)?
        };
        match (only(headers, AUTHORIZATION).map_err(unreadable)?, key) {
            (None, None) => Ok(None),
            (None, Some(key)) => Ok(Some(Shown::Key(key))),
            (Some(_), Some(_)) => Err("both a token and an API key are present"),
            (Some(text), None) => match text.split_once(' ') {
                Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => {
                    Ok(Some(Shown::Bearer(token.trim_start())))
                }
                _ => Err("the Authorization scheme is not Bearer"),
            },
        }
    }

    async fn prove(&self, shown: &Shown<'_>) -> Result<Proof, String> {
        let (Shown::Bearer(text) | Shown::Key(text)) = shown;
        if let Some(proof) = proof::of_key(&self.proofs, text) {
            return Ok(proof);
        }
        let (Shown::Bearer(token), Some(verifier), Some(jwt)) =
            (shown, &self.verifier, &self.proofs.jwt)
        else {
            return Err("unknown API key".to_owned());
        };
        let claims = verifier.verify(token, UnknownKey::Look).await;
        let claims = claims.map_err(|why| format!("jwt: {why}"))?;
        Ok(proof::of_claims(&self.proofs, jwt, &claims))
    }

    fn certificate(&self, parts: &Parts) -> Option<Proof> {
        let rules = self.proofs.certificates.as_ref()?;
        let shown = parts.extensions.get::<PeerCertificate>()?;
        Some(proof::of_certificate(rules, shown))
    }

    /// The claim of `X-Agent-*` headers, if their sender is trusted.
    fn headers(&self, parts: &Parts) -> HeaderClaim {
        let hops = &self.proofs.trusted_hops;
        if hops.is_empty() {
            return read_claim(self.claims, &parts.headers);
        }
        let is_hop = peer(parts).is_some_and(|peer| {
            let address = peer.ip().to_canonical();
            hops.iter().any(|hop| hop.contains(&address))
        });
        let claims = IdentityConfig { trust_headers: is_hop, ..self.claims };
        read_claim(claims, &parts.headers)
    }

    fn required_scopes(&self) -> &[String] {
        self.proofs.jwt.as_ref().map_or(&[], |jwt| &jwt.required_scopes)
    }

    /// The challenge with all required scopes.
    fn challenge(&self, parts: &Parts, needed: &[String]) -> Challenge {
        let mut scopes: Vec<&str> = Vec::new();
        for scope in self.required_scopes().iter().chain(needed) {
            if !scopes.contains(&scope.as_str()) {
                scopes.push(scope);
            }
        }
        let metadata = self.resource(parts).filter(|_| self.proofs.jwt.is_some());
        let metadata = metadata.and_then(|resource| metadata_of(&resource));
        Challenge { metadata, scope: scopes.join(" ") }
    }

    /// The public URL of the endpoint.
    fn resource(&self, parts: &Parts) -> Option<String> {
        if let Some(resource) = &self.proofs.resource {
            return Some(resource.clone());
        }
        let host = parts.headers.get(HOST)?.to_str().ok()?.parse::<Authority>().ok()?;
        // A quotation mark would end the header's quoted string.
        let is_plain = !host.as_str().contains(['@', '"', '\\']);
        is_plain.then(|| format!("{}://{host}/mcp", self.scheme))
    }

    /// The protected resource metadata (RFC 9728), if tokens are accepted.
    pub(crate) fn metadata(&self, parts: &Parts) -> Option<String> {
        let jwt = self.proofs.jwt.as_ref()?;
        let mut document = json!({
            "resource": self.resource(parts)?,
            "authorization_servers": [jwt.settings.issuer],
            "bearer_methods_supported": ["header"],
        });
        // Only the minimum; calls that require more scopes return a challenge.
        if !jwt.required_scopes.is_empty() {
            document["scopes_supported"] = json!(jwt.required_scopes);
        }
        Some(document.to_string())
    }
}

/// The claim of the strongest credential. Sessions are bound to all credentials.
fn claim(strongest: Proof, weaker: Option<Proof>) -> HeaderClaim {
    let Proof { named, evidence, mut principal, mut told, .. } = strongest;
    if let Some(weaker) = weaker {
        principal = format!("{principal}\n{}", weaker.principal);
        told = Some(told.into_iter().chain(weaker.told).collect::<Vec<_>>().join(", "));
    }
    let told = told.filter(|told| !told.is_empty());
    let told = told.map(|told| told.chars().take(TOLD_CHARS).collect());
    HeaderClaim::Proven { named, evidence, principal: principal.into(), told }
}

pub(super) fn peer(parts: &Parts) -> Option<SocketAddr> {
    parts.extensions.get::<ConnectInfo<SocketAddr>>().map(|info| info.0)
}

/// The well-known path precedes the path of the resource (RFC 9728, section 3.1).
fn metadata_of(resource: &str) -> Option<String> {
    let uri: Uri = resource.parse().ok()?;
    let path = uri.path().trim_end_matches('/');
    Some(format!("{}://{}{METADATA}{path}", uri.scheme_str()?, uri.authority()?))
}

//! Authentication of callers: by certificate, by token or key, or by headers of a trusted hop. The
//! strongest present proof counts; if it fails, no weaker one is tried.
//!
//! A token or key must be valid even if another proof is present. `clientInfo` is read later and
//! proves nothing.

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

/// Where it is written how to get a token (RFC 9728).
pub(crate) const METADATA: &str = "/.well-known/oauth-protected-resource";
/// Longest name of somebody that is kept for the log.
const TOLD_CHARS: usize = 256;
const AUTHORIZATION: &str = "authorization";
const API_KEY: &str = "x-api-key";

/// Decides who may come in.
#[derive(Debug)]
pub struct Doorkeeper {
    claims: IdentityConfig,
    proofs: ProofsConfig,
    verifier: Option<Arc<Verifier>>,
    scheme: &'static str,
}

/// A request that was let in.
#[derive(Debug, Clone)]
pub(crate) struct Admitted {
    pub(crate) claim: HeaderClaim,
    granted: Granted,
    /// Whether it showed a token or a key.
    has_bearer: bool,
    /// The token that it showed, if that says in whose name it speaks.
    pub(crate) subject: Option<Arc<SubjectToken>>,
}

/// What proves a request, taken out of it. It is never printed.
pub(crate) struct Credentials(HeaderMap);

impl Credentials {
    /// Puts it back, to be judged once more.
    pub(crate) fn put_back(self, headers: &mut HeaderMap) {
        headers.extend(self.0);
    }
}

/// A secret that a request shows.
enum Shown<'a> {
    Bearer(&'a str),
    Key(&'a str),
}

impl Doorkeeper {
    /// By this configuration. Must be called inside a runtime.
    pub async fn open(config: AuthenticatorConfig) -> Result<Self, InvalidFile> {
        Self::open_with(config, None).await
    }

    /// The same by another configuration. Keys that were had already are not waited for.
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

    /// Whether another configuration authenticates callers by the same rules.
    pub(crate) fn has_rules_of(&self, other: &Self) -> bool {
        self.claims == other.claims && self.proofs == other.proofs
    }

    /// Lets a request in, or says what it takes.
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
            refused::credentials(parts, "it shows nothing that proves who is calling");
            return Err(Refusal::Missing(self.challenge(parts, &[])));
        }
        let subject = match self.shown(&parts.headers) {
            Ok(Some(Shown::Bearer(token))) if has_subject => SubjectToken::new(&claim, token),
            _ => None,
        };
        Ok(Admitted { claim, granted, has_bearer, subject: subject.map(Arc::new) })
    }

    /// Takes what proves a request out of it, so that it can go nowhere else.
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

    /// Whether any method or tool takes more than to be let in.
    pub(crate) fn asks_for_scopes(&self) -> bool {
        !self.proofs.scopes.is_empty()
    }

    /// Rejects a request that lacks a scope of its method or of one of `tools`. `tools` has a tool
    /// that the caller may call and all tools inside it, which the caller may not see: the challenge
    /// names their scopes too, because the call needs them. `asked` is for the audit.
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

    /// What a token or a key proves; one that is wrong is refused.
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

    /// The one secret of a request. Where none is taken, none is looked at.
    fn shown<'a>(&self, headers: &'a HeaderMap) -> Result<Option<Shown<'a>>, &'static str> {
        if !self.proofs.takes_bearers() {
            return Ok(None);
        }
        let unreadable = |()| "a header with a credential is repeated or is no text";
        let key = if self.proofs.api_keys.is_empty() {
            None
        } else {
            only(headers, API_KEY).map_err(unreadable)?
        };
        match (only(headers, AUTHORIZATION).map_err(unreadable)?, key) {
            (None, None) => Ok(None),
            (None, Some(key)) => Ok(Some(Shown::Key(key))),
            (Some(_), Some(_)) => Err("it shows both a token and a key"),
            (Some(text), None) => match text.split_once(' ') {
                Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => {
                    Ok(Some(Shown::Bearer(token.trim_start())))
                }
                _ => Err("its Authorization is not `Bearer`"),
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
            return Err("no such key".to_owned());
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

    /// What the headers name, where whoever sends them is believed.
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

    /// All that the request needs, at once.
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

    /// The URL that the client knows the endpoint by.
    fn resource(&self, parts: &Parts) -> Option<String> {
        if let Some(resource) = &self.proofs.resource {
            return Some(resource.clone());
        }
        let host = parts.headers.get(HOST)?.to_str().ok()?.parse::<Authority>().ok()?;
        // A host with a `"` in it would break out of the header's quotes.
        let is_plain = !host.as_str().contains(['@', '"', '\\']);
        is_plain.then(|| format!("{}://{host}/mcp", self.scheme))
    }

    /// The document about this resource (RFC 9728), where tokens are taken.
    pub(crate) fn metadata(&self, parts: &Parts) -> Option<String> {
        let jwt = self.proofs.jwt.as_ref()?;
        let mut document = json!({
            "resource": self.resource(parts)?,
            "authorization_servers": [jwt.settings.issuer],
            "bearer_methods_supported": ["header"],
        });
        // The least that is needed; more is asked for when a call needs it.
        if !jwt.required_scopes.is_empty() {
            document["scopes_supported"] = json!(jwt.required_scopes);
        }
        Some(document.to_string())
    }
}

/// What the strongest proof says; a session is bound to all of them.
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

/// The well-known address stands before the path of the resource (RFC 9728, section 3.1).
fn metadata_of(resource: &str) -> Option<String> {
    let uri: Uri = resource.parse().ok()?;
    let path = uri.path().trim_end_matches('/');
    Some(format!("{}://{}{METADATA}{path}", uri.scheme_str()?, uri.authority()?))
}

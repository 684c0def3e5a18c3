//! Authentication of callers: by client certificate, by token or API key, or by headers of a
//! trusted proxy. The strongest credential counts; if it is invalid, no weaker one is tried.
//!
//! A token or key must be valid even if a certificate is present. `clientInfo` is unverified.

use std::{
    collections::BTreeSet,
    net::SocketAddr,
    sync::{Arc, LazyLock},
};

use gateway_policy::{AuthMethod, CallerIdentity, QuotaKey, SubjectToken};
use http::{
    HeaderMap, HeaderName, Uri,
    header::{AUTHORIZATION, Entry, HOST},
    request::Parts,
    uri::Authority,
};
use registry_core::Name;
use registry_jwt::{InvalidFile, UnknownKey, Verifier};
use serde_json::json;

use super::settings::{AuthenticationConfig, AuthenticatorConfig, IdentityConfig};
use super::{
    ClientInfo,
    accepted::AcceptedCredentials,
    audit_events,
    card_security::CardSecurity,
    challenge::{AuthenticationError, Challenge},
    credential::{self, Credential},
    read_claim,
    scope::GrantedScopes,
    sender::{KeyedClaim, RequestHead},
    single_value,
};

/// The path of the protected resource metadata (RFC 9728).
pub(crate) const METADATA: &str = "/.well-known/oauth-protected-resource";
/// Maximum length of a logged subject, in characters.
const LOG_NAME_CHARS: usize = 256;
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// Operations of A2A with the same effect or result, which need the scopes of each other.
const SHARED_SCOPES: [[&str; 2]; 2] =
    [["SendMessage", "SendStreamingMessage"], ["GetTask", "SubscribeToTask"]];

/// Authenticates callers and checks scopes.
#[derive(Debug)]
pub struct Authenticator {
    claims: IdentityConfig,
    authentication: AuthenticationConfig,
    verifier: Option<Arc<Verifier>>,
    scheme: &'static str,
}

/// The authenticated sender of a request, without its credentials.
#[derive(Debug, Clone)]
pub(crate) struct Authentication {
    pub(crate) claim: Arc<CallerIdentity>,
    /// The quota key of the claim, which need not be verified.
    pub(crate) quota_key: QuotaKey,
    /// The token, if it names a subject.
    pub(crate) subject: Option<Arc<SubjectToken>>,
    /// The self-description of the client program (unverified).
    pub(crate) client: Option<Arc<ClientInfo>>,
    /// The quota key for memory, sessions and event streams: the verified caller, or else the
    /// network. An unverified agent name selects no quota, because a caller could use many names.
    pub(crate) payer: QuotaKey,
    /// `None`: the request was granted nothing.
    grants: Option<Arc<Grants>>,
    peer: Option<SocketAddr>,
}

/// The facts of a request for scope checks.
#[derive(Debug, Default)]
struct Grants {
    scopes: GrantedScopes,
    /// Whether the request has a token or key.
    has_bearer: bool,
    /// The URL of the protected resource metadata, for challenges.
    metadata: Option<String>,
}

impl Authentication {
    /// The sender of work without a request, such as the recovery of a saga. It has no scopes.
    pub(crate) fn without_request(claim: CallerIdentity) -> Self {
        let KeyedClaim { claim, quota_key } = KeyedClaim::from(claim);
        let payer = quota_key.clone();
        let (subject, client, grants, peer) = (None, None, None, None);
        Self { claim, quota_key, subject, client, payer, grants, peer }
    }

    fn grants(&self) -> &Grants {
        static NONE: LazyLock<Grants> = LazyLock::new(Grants::default);
        self.grants.as_deref().unwrap_or(&NONE)
    }

    /// The issuer and the subject of the credential. Only tokens have an issuer.
    pub(crate) fn subject(&self) -> (&str, &str) {
        let CallerIdentity::Verified { auth_method, log_name, .. } = &*self.claim else {
            return ("", "");
        };
        let name = log_name.as_deref().unwrap_or_default();
        match auth_method {
            AuthMethod::Token => name.split_once(' ').unwrap_or((name, "")),
            _ => ("", name),
        }
    }

    /// The granted scopes with those that they imply.
    pub(crate) fn scopes(&self) -> &BTreeSet<String> {
        self.grants().scopes.all()
    }

    pub(crate) fn with_client(self, client: Option<Arc<ClientInfo>>) -> Self {
        Self { client, ..self }
    }

    /// Without the token, for streams that must not keep it in memory.
    #[must_use]
    pub(crate) fn without_token(self) -> Self {
        Self { subject: None, ..self }
    }
}

/// The credentials of a request. They have no `Debug` form.
pub(crate) struct Credentials(HeaderMap);

impl Credentials {
    /// Puts the credentials back, to authenticate again.
    pub(crate) fn restore(self, headers: &mut HeaderMap) {
        headers.extend(self.0);
    }
}

enum Secret<'a> {
    Bearer(&'a str),
    Key(&'a str),
}

impl Authenticator {
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
        let AuthenticatorConfig { identity, authentication, scheme } = config;
        let verifier = match authentication.jwt.as_ref().map(|jwt| &jwt.settings) {
            None => None,
            Some(settings) => match known.filter(|known| known.settings() == settings) {
                Some(known) => Some(Arc::clone(known)),
                None => Some(Verifier::open(settings.clone()).await?),
            },
        };
        Ok(Self { claims: identity, authentication, verifier, scheme })
    }

    /// Whether callers are authenticated by the same rules.
    pub(crate) fn has_rules_of(&self, other: &Self) -> bool {
        self.claims == other.claims && self.authentication == other.authentication
    }

    /// Authenticates a request.
    pub(crate) async fn authenticate(
        &self,
        parts: &RequestHead,
    ) -> Result<Authentication, AuthenticationError> {
        let bearer = self.bearer(parts).await?;
        let certificate = self.certificate(parts);
        let grants = self.grants(parts, bearer.as_ref());
        let has_subject = bearer.as_ref().is_some_and(|credential| credential.has_subject);
        let KeyedClaim { claim, quota_key } = match (certificate, bearer) {
            (Some(certificate), bearer) => KeyedClaim::from(claim(certificate, bearer)),
            (None, Some(bearer)) => KeyedClaim::from(claim(bearer, None)),
            (None, None) => self.headers(parts),
        };
        let is_identified =
            matches!(*claim, CallerIdentity::Asserted { .. } | CallerIdentity::Verified { .. });
        if self.authentication.required && !is_identified {
            audit_events::credentials(peer(parts), "no credentials");
            return Err(AuthenticationError::Missing(
                self.challenge(self.metadata_url(parts), &[]),
            ));
        }
        let subject = match self.secret(&parts.headers) {
            Ok(Some(Secret::Bearer(token))) if has_subject => SubjectToken::new(&claim, token),
            _ => None,
        };
        let is_verified = matches!(*claim, CallerIdentity::Verified { .. });
        let payer = quota_key.clone().filter(|_| is_verified).or_else(|| network_key(parts));
        let (subject, client, peer) = (subject.map(Arc::new), None, peer(parts));
        Ok(Authentication { claim, quota_key, subject, client, payer, grants, peer })
    }

    fn grants(&self, parts: &Parts, bearer: Option<&Credential>) -> Option<Arc<Grants>> {
        let metadata = if self.has_scopes() { self.metadata_url(parts) } else { None };
        if bearer.is_none() && metadata.is_none() {
            return None;
        }
        let scopes = bearer.map(|credential| credential.granted.clone()).unwrap_or_default();
        Some(Arc::new(Grants { scopes, has_bearer: bearer.is_some(), metadata }))
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

    /// Whether the configuration still accepts the credentials of an earlier request. An expired
    /// token or certificate counts as accepted, because its caller can get another one.
    pub(crate) fn still_accepts(&self, claim: &CallerIdentity) -> bool {
        match claim {
            CallerIdentity::Anonymous | CallerIdentity::Malformed => false,
            CallerIdentity::Asserted { .. } => {
                self.claims.trust_headers || !self.authentication.trusted_proxies.is_empty()
            }
            CallerIdentity::Verified { credentials, .. } => {
                !credentials.is_empty()
                    && credentials
                        .iter()
                        .all(|verified| credential::is_accepted(&self.authentication, verified))
            }
        }
    }

    /// The accepted credentials, for agent cards.
    pub(crate) fn card_security(&self) -> CardSecurity {
        CardSecurity::of(&self.authentication)
    }

    /// Whether any method or tool requires scopes.
    pub(crate) fn has_scopes(&self) -> bool {
        !self.authentication.scopes.is_empty()
    }

    /// Rejects a request that lacks a scope of its method or of one of `tools`: a tool that the
    /// caller can call, and its inner tools. The challenge names the scopes of inner tools, too,
    /// because the call requires them. `asked` is for the audit.
    pub(crate) fn check_scopes(
        &self,
        caller: &Authentication,
        (method, asked): (&str, Option<&str>),
        tools: &BTreeSet<Name>,
    ) -> Result<(), AuthenticationError> {
        let needed = self.needed_scopes(method, tools);
        let grants = caller.grants();
        if grants.scopes.contains_all(needed.iter().map(String::as_str)) {
            return Ok(());
        }
        let challenge = self.challenge(grants.metadata.clone(), &needed);
        let refusal = if grants.has_bearer {
            AuthenticationError::Insufficient(challenge)
        } else {
            AuthenticationError::Missing(challenge)
        };
        audit_events::scopes(caller.peer, (&caller.claim, &refusal), Some((method, asked)));
        Err(refusal)
    }

    /// Whether a caller has the scopes of a method. No audit event reports that it lacks one.
    pub(crate) fn has_scopes_of(&self, caller: &Authentication, method: &str) -> bool {
        let needed = self.needed_scopes(method, &BTreeSet::new());
        caller.grants().scopes.contains_all(needed.iter().map(String::as_str))
    }

    fn needed_scopes(&self, method: &str, tools: &BTreeSet<Name>) -> Vec<String> {
        let of = |name: &str| self.authentication.scopes.get(name).map_or(&[][..], Vec::as_slice);
        let own = of(method);
        let shared = SHARED_SCOPES.iter().filter(|names| names.contains(&method)).flatten();
        let shared = shared.flat_map(|name| of(name)).filter(|scope| !own.contains(scope));
        let tools = tools.iter().flat_map(|name| of(name.as_str()));
        own.iter().chain(shared).chain(tools).cloned().collect()
    }

    /// Verifies the token or API key, if present.
    async fn bearer(&self, parts: &RequestHead) -> Result<Option<Credential>, AuthenticationError> {
        let proved = match self.secret(&parts.headers) {
            Ok(None) => return Ok(None),
            Ok(Some(secret)) => self.verify(&secret).await,
            Err(why) => Err(why.to_owned()),
        };
        let credential = proved.map_err(|reason| {
            audit_events::credentials(peer(parts), &reason);
            AuthenticationError::Invalid(self.challenge(self.metadata_url(parts), &[]))
        })?;
        if credential.auth_method == super::AuthMethod::Token
            && !credential.granted.contains_all(self.required_scopes().iter().map(String::as_str))
        {
            let refusal =
                AuthenticationError::Insufficient(self.challenge(self.metadata_url(parts), &[]));
            audit_events::scopes(peer(parts), (&claim(credential, None), &refusal), None);
            return Err(refusal);
        }
        Ok(Some(credential))
    }

    /// The only bearer credential of a request, if the configuration accepts any.
    fn secret<'a>(&self, headers: &'a HeaderMap) -> Result<Option<Secret<'a>>, &'static str> {
        if !self.authentication.accepts_bearer_tokens() {
            return Ok(None);
        }
        let unreadable = |()| "a credential header is repeated or not text";
        let key = if self.authentication.api_keys.is_empty() {
            None
        } else {
            single_value(headers, &API_KEY).map_err(unreadable)?
        };
        match (single_value(headers, &AUTHORIZATION).map_err(unreadable)?, key) {
            (None, None) => Ok(None),
            (None, Some(key)) => Ok(Some(Secret::Key(key))),
            (Some(_), Some(_)) => Err("both a token and an API key are present"),
            (Some(text), None) => match text.split_once(' ') {
                Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => {
                    Ok(Some(Secret::Bearer(token.trim_start())))
                }
                _ => Err("the Authorization scheme is not Bearer"),
            },
        }
    }

    async fn verify(&self, secret: &Secret<'_>) -> Result<Credential, String> {
        let (Secret::Bearer(text) | Secret::Key(text)) = secret;
        if let Some(credential) = credential::of_key(&self.authentication, text) {
            return Ok(credential);
        }
        let (Secret::Bearer(token), Some(verifier), Some(jwt)) =
            (secret, &self.verifier, &self.authentication.jwt)
        else {
            return Err("unknown API key".to_owned());
        };
        // Boxed, to keep the future of each request small.
        let claims = Box::pin(verifier.verify(token, UnknownKey::Refetch)).await;
        let claims = claims.map_err(|why| format!("jwt: {why}"))?;
        Ok(credential::of_claims(&self.authentication, jwt, &claims))
    }

    fn certificate(&self, parts: &RequestHead) -> Option<Credential> {
        let rules = self.authentication.certificates.as_ref()?;
        let shown = parts.sender.connection()?.certificate.as_ref()?;
        Some(credential::of_certificate(rules, shown))
    }

    /// The claim of `X-Agent-*` headers, if their sender is trusted.
    fn headers(&self, parts: &RequestHead) -> KeyedClaim {
        let claim = read_claim(self.trusted_claims(parts), &parts.headers);
        match parts.sender.connection() {
            Some(connection) => connection.keyed(claim),
            None => CallerIdentity::from(claim).into(),
        }
    }

    fn trusted_claims(&self, parts: &RequestHead) -> IdentityConfig {
        let proxies = &self.authentication.trusted_proxies;
        if proxies.is_empty() {
            return self.claims;
        }
        let is_trusted_proxy = peer(parts).is_some_and(|peer| {
            let address = peer.ip().to_canonical();
            proxies.iter().any(|proxy| proxy.contains(&address))
        });
        IdentityConfig { trust_headers: is_trusted_proxy, ..self.claims }
    }

    fn required_scopes(&self) -> &[String] {
        self.authentication.jwt.as_ref().map_or(&[], |jwt| &jwt.required_scopes)
    }

    /// The challenge with all required scopes.
    fn challenge(&self, metadata: Option<String>, needed: &[String]) -> Challenge {
        let mut scopes: Vec<&str> = Vec::new();
        for scope in self.required_scopes().iter().chain(needed) {
            if !scopes.contains(&scope.as_str()) {
                scopes.push(scope);
            }
        }
        let accepted = AcceptedCredentials {
            tokens: self.authentication.jwt.is_some(),
            api_keys: !self.authentication.api_keys.is_empty(),
            certificates: self.authentication.certificates.is_some(),
        };
        Challenge { metadata, scope: scopes.join(" "), accepted }
    }

    /// The URL of the protected resource metadata, if tokens are accepted.
    fn metadata_url(&self, parts: &Parts) -> Option<String> {
        let resource = self.resource(parts).filter(|_| self.authentication.jwt.is_some())?;
        metadata_url(&resource)
    }

    /// The public URL of the endpoint.
    fn resource(&self, parts: &Parts) -> Option<String> {
        if let Some(resource) = &self.authentication.resource {
            return Some(resource.clone());
        }
        self.base_url(parts).map(|base| format!("{base}/mcp"))
    }

    /// The scheme and host of a request.
    pub(crate) fn base_url(&self, parts: &Parts) -> Option<String> {
        let host = match parts.headers.get(HOST) {
            Some(host) => host.to_str().ok()?.parse::<Authority>().ok()?,
            // HTTP/2 has the authority in the request line.
            None => parts.uri.authority()?.clone(),
        };
        // A quotation mark would end the header's quoted string.
        let is_plain = !host.as_str().contains(['@', '"', '\\']);
        is_plain.then(|| format!("{}://{host}", self.scheme))
    }

    /// The protected resource metadata (RFC 9728), if tokens are accepted.
    pub(crate) fn metadata(&self, parts: &Parts) -> Option<String> {
        let jwt = self.authentication.jwt.as_ref()?;
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
fn claim(strongest: Credential, weaker: Option<Credential>) -> CallerIdentity {
    let verified = std::iter::once(&strongest).chain(&weaker).map(Credential::verified);
    let credentials = verified.collect();
    let Credential { named, auth_method, mut principal, mut log_name, .. } = strongest;
    if let Some(weaker) = weaker {
        principal = format!("{principal}\n{}", weaker.principal);
        log_name = Some(log_name.into_iter().chain(weaker.log_name).collect::<Vec<_>>().join(", "));
    }
    let log_name = log_name.filter(|log_name| !log_name.is_empty());
    let log_name = log_name.map(|log_name| log_name.chars().take(LOG_NAME_CHARS).collect());
    let (agent, principal) = (named, principal.into());
    CallerIdentity::Verified { agent, auth_method, principal, log_name, credentials }
}

/// The quota key of unauthenticated callers of the sender's network.
fn network_key(parts: &RequestHead) -> QuotaKey {
    parts.sender.connection().map(|connection| Arc::clone(&connection.quota_key))
}

fn peer(parts: &RequestHead) -> Option<SocketAddr> {
    parts.sender.connection().map(|connection| connection.address)
}

/// The well-known path precedes the path of the resource (RFC 9728, section 3.1).
fn metadata_url(resource: &str) -> Option<String> {
    let uri: Uri = resource.parse().ok()?;
    let path = uri.path().trim_end_matches('/');
    Some(format!("{}://{}{METADATA}{path}", uri.scheme_str()?, uri.authority()?))
}

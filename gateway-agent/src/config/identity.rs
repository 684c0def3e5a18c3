//! Reads the `identity` section. Only digests of API keys are kept.

use std::{
    collections::BTreeMap, fs, net::IpAddr, path::PathBuf, str::FromStr as _, time::Duration,
};

use ipnet::IpNet;
use registry_core::{Digest, parse_positive_duration};
use registry_follow::Credentials;
use registry_jwt::{ASYMMETRIC, Algorithm, Settings, Source};

use super::read::{Field, Section};
use crate::identity::{
    certificate::SpiffePattern,
    settings::{ApiKeyConfig, AuthenticationConfig, CertificatesConfig, IdentityConfig, JwtConfig},
};

const DEFAULT_ALGORITHMS: [Algorithm; 3] = [Algorithm::RS256, Algorithm::ES256, Algorithm::EdDSA];
const DEFAULT_SKEW: Duration = Duration::from_mins(1);
const DEFAULT_CLAIMS: [&str; 2] = ["agent", "agent_name"];
/// Maximum number of API keys. Every request with a key is compared with all of them.
const KEYS: usize = 1_000;

pub(super) fn read(
    root: &Section<'_>,
    requires_certificates: bool,
) -> (IdentityConfig, AuthenticationConfig) {
    let section = root.section("identity");
    let default = IdentityConfig::default();
    let claims = IdentityConfig {
        trust_headers: section.switch("trustHeaders", default.trust_headers),
        scope_by_client_info: section.switch("scopeByClientInfo", default.scope_by_client_info),
    };
    let authentication = AuthenticationConfig {
        required: section.switch("required", false),
        trusted_proxies: section.parsed("trustedProxies", proxy),
        resource: section.find("resource").and_then(|field| field.parse(resource)),
        jwt: section.find("jwt").and_then(|field| jwt(field.section())),
        api_keys: api_keys(&section),
        certificates: section.find("mtls").map(|field| certificates(field.section())),
        scopes: section.lists("scopes"),
        implied_scopes: section.lists("impliedScopes"),
    };
    check(&section, claims, &authentication, requires_certificates);
    section.finish();
    (claims, authentication)
}

/// Checks combinations of settings.
fn check(
    section: &Section<'_>,
    claims: IdentityConfig,
    authentication: &AuthenticationConfig,
    requires_certificates: bool,
) {
    if authentication.certificates.is_some() && !requires_certificates {
        section.problem("`mtls` needs `tls.clientCaFile`, which requests client certificates");
    }
    let believes_headers = claims.trust_headers || !authentication.trusted_proxies.is_empty();
    if authentication.required
        && !authentication.accepts_bearer_tokens()
        && authentication.certificates.is_none()
        && !believes_headers
    {
        section.problem(
            "`required` rejects every caller: no authentication method is configured; add `jwt`, \
             `apiKeys`, `mtls` or `trustedProxies`",
        );
    }
    if !authentication.scopes.is_empty() && !authentication.accepts_bearer_tokens() {
        section.problem("`scopes` needs `jwt` or `apiKeys`, the only credentials with scopes");
    }
    let named =
        authentication.scopes.values().chain(authentication.implied_scopes.values()).flatten();
    let keys = authentication.api_keys.iter().flat_map(|key| &key.scopes);
    let required = authentication.jwt.iter().flat_map(|jwt| &jwt.required_scopes);
    for scope in named.chain(authentication.implied_scopes.keys()).chain(keys).chain(required) {
        if !is_scope(scope) {
            section.problem(format!(
                "`{scope}` is not a scope: use visible ASCII without `\"` and `\\`"
            ));
        }
    }
}

/// RFC 6749, section 3.3.
pub(super) fn is_scope(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic() && !matches!(b, b'"' | b'\\'))
}

fn proxy(text: &str) -> Result<IpNet, String> {
    let alone = || text.parse::<IpAddr>().map(IpNet::from);
    text.parse::<IpNet>().or_else(|_| alone()).map_err(|_| {
        format!("`{text}` is not an address or network; use the form 10.0.0.7 or 10.0.0.0/8")
    })
}

fn resource(text: &str) -> Result<String, String> {
    let uri = text.parse::<http::Uri>().ok();
    let good = uri.is_some_and(|uri| {
        let is_web = matches!(uri.scheme_str(), Some("http" | "https"));
        is_web
            && uri.query().is_none()
            && uri.authority().is_some_and(|a| !a.as_str().contains('@'))
    });
    // These characters cannot be quoted in a header.
    if good && !text.contains(['#', '"', '\\']) {
        return Ok(text.trim_end_matches('/').to_owned());
    }
    Err(format!("`{text}` is not a URL of the endpoint such as https://gateway.example.com/mcp"))
}

fn jwt(section: Section<'_>) -> Option<JwtConfig> {
    let text = |name, help| section.require(name, help).and_then(|field| field.text());
    let issuer = text("issuer", "set it to the `iss` claim of valid tokens");
    let audience = text("audience", "set it to the `aud` claim of tokens for this gateway");
    let source = section
        .require("jwks", "set it to the issuer's key set: https://… or a file")
        .and_then(|field| field.parse(keys));
    let algorithms = section.parsed("algorithms", algorithm);
    let skew = section.find("clockSkew").and_then(|field| field.parse(parse_positive_duration));
    let claim = |name| section.find(name).and_then(|field| field.text());
    let agent_claims = section.find("agentClaim").map(|field| (field.texts(), field));
    if let Some((Some(claims), field)) = &agent_claims
        && claims.is_empty()
    {
        field.problem("is empty; name at least one claim, or remove the field for the default");
    }
    let version_claim = claim("versionClaim");
    let person_claim = claim("personClaim");
    let required_scopes = section.texts("requiredScopes");
    let is_default = section.find("algorithms").is_none();
    section.finish();
    let settings = Settings {
        issuer: issuer?,
        audience: audience?,
        source: source?,
        algorithms: if is_default { DEFAULT_ALGORITHMS.to_vec() } else { algorithms },
        skew: skew.unwrap_or(DEFAULT_SKEW),
    };
    Some(JwtConfig {
        settings,
        agent_claims: match agent_claims {
            Some((claims, _)) => claims?,
            None => DEFAULT_CLAIMS.map(str::to_owned).to_vec(),
        },
        version_claim,
        person_claim,
        required_scopes,
    })
}

/// Keys that cross the network in plain text could be replaced by an attacker.
fn keys(text: &str) -> Result<Source, String> {
    match text.split_once("://") {
        Some(("http" | "https", _)) if Credentials::is_private(text) => {
            Ok(Source::Url(text.to_owned()))
        }
        Some(("http", _)) => {
            Err("the keys would cross the network in plain text; use https://".to_owned())
        }
        Some(("file", path)) => Ok(Source::File(PathBuf::from(path))),
        None => Ok(Source::File(PathBuf::from(text))),
        Some(_) => Err("use https://… or a file path".to_owned()),
    }
}

fn algorithm(text: &str) -> Result<Algorithm, String> {
    Algorithm::from_str(text)
        .ok()
        .filter(|found| ASYMMETRIC.contains(found))
        .ok_or_else(|| format!("`{text}` is not supported; use one of {ASYMMETRIC:?}"))
}

fn api_keys(section: &Section<'_>) -> Vec<ApiKeyConfig> {
    let items = section.find("apiKeys").map(|field| field.list()).unwrap_or_default();
    if items.len() > KEYS {
        section.problem(format!("`apiKeys` has {} keys; the maximum is {KEYS}", items.len()));
    }
    let (mut keys, mut first_uses) = (Vec::new(), BTreeMap::new());
    for (place, item) in items.iter().enumerate() {
        let Some(key) = api_key(item) else { continue };
        let first = *first_uses.entry(key.digest).or_insert(place);
        if first != place {
            item.problem(format!(
                "the same key as identity.apiKeys[{first}]; a key identifies one agent, so create \
                 another one"
            ));
        }
        keys.push(key);
    }
    keys
}

fn api_key(item: &Field<'_>) -> Option<ApiKeyConfig> {
    let section = item.section();
    let agent = section
        .require("agent", "set it to the agent that uses the key")
        .and_then(|field| field.text());
    let version = section.find("version").and_then(|field| field.text());
    let digest = match (section.find("sha256"), section.find("keyFile")) {
        (Some(field), None) => field.parse(|text| {
            let form = "64 hexadecimal digits, as `printf %s KEY | sha256sum` prints them";
            Digest::parse(&format!("sha256:{text}")).map_err(|_| format!("expected {form}"))
        }),
        (None, Some(field)) => field.parse(digest_of),
        _ => {
            section.problem("needs one of `sha256` and `keyFile`");
            None
        }
    };
    let scopes = section.texts("scopes");
    section.finish();
    Some(ApiKeyConfig { agent: agent?, version, digest: digest?, scopes })
}

fn digest_of(path: &str) -> Result<Digest, String> {
    let text = fs::read_to_string(path).map_err(|e| format!("cannot read {path}: {e}"))?;
    let key = text.trim();
    if key.is_empty() {
        Err(format!("{path} is empty"))
    } else {
        Ok(Digest::compute(key.as_bytes()))
    }
}

fn certificates(section: Section<'_>) -> CertificatesConfig {
    let spiffe = section.find("spiffe").map(|field| field.parse(SpiffePattern::parse));
    let subject = section.switch("subject", false);
    if spiffe.is_none() && !subject {
        section.problem(
            "selects no name of the certificate; set `spiffe: PATTERN` or `subject: true`",
        );
    }
    section.finish();
    CertificatesConfig { spiffe: spiffe.flatten(), subject }
}

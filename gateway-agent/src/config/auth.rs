//! Reads the `auth` section of a target.

use gateway_upstream::{AuthConfig, ClientAuthentication, Grant, redact_url};
use http::Uri;
use registry_follow::Credentials;

use super::{
    read::{Field, Section},
    secret, tls,
};

const AUTHENTICATIONS: &[(&str, ClientAuthentication)] = &[
    ("client_secret_basic", ClientAuthentication::Basic),
    ("client_secret_post", ClientAuthentication::Post),
];

/// Reads the section. `url` is the target's.
pub(super) fn read(field: &Field<'_>, url: Option<&str>) -> Option<AuthConfig> {
    let section = field.section();
    if !section.switch("allowInsecureToken", false) && url.is_some_and(|url| !is_private(url)) {
        section.problem(
            "tokens would be sent unencrypted; use an https:// URL for the target, or set `allowInsecureToken: true` if the network is trusted",
        );
    }
    let (own, exchange) = (section.find("clientCredentials"), section.find("tokenExchange"));
    let auth = match (own, exchange) {
        (Some(field), None) => client(&field, Grant::ClientCredentials),
        (None, Some(field)) => client(&field, Grant::TokenExchange),
        _ => {
            section.problem("needs one of `clientCredentials` and `tokenExchange`");
            None
        }
    };
    section.finish();
    auth
}

fn client(field: &Field<'_>, grant: Grant) -> Option<AuthConfig> {
    let section = field.section();
    let token_url = section
        .require("tokenUrl", "set it to the token endpoint: https://…")
        .and_then(|field| field.parse(token_url));
    let tls = section.find("tls").map(|field| tls::read_target(&field, token_url.as_deref()));
    let client_id = section
        .require("clientId", "set it to the gateway's client id at the token endpoint")
        .and_then(|field| field.parse(client_id));
    let client_secret = section
        .require("clientSecret", "set it to `{ file: PATH }` or `{ env: NAME }`")
        .and_then(|field| secret::read(&field));
    let client_authentication =
        section.choice("clientAuthentication", AUTHENTICATIONS, ClientAuthentication::Basic);
    let scopes = texts(&section, "scopes", scope);
    let (audience, resource) = (texts(&section, "audience", any), texts(&section, "resource", uri));
    section.finish();
    Some(AuthConfig {
        grant,
        token_url: token_url?,
        tls,
        client_id: client_id?,
        client_secret: client_secret?,
        client_authentication,
        scopes,
        audience,
        resource,
    })
}

/// Reads a list of texts or a single text.
fn texts(
    section: &Section<'_>,
    name: &'static str,
    check: impl Fn(&str) -> Result<(), String>,
) -> Vec<String> {
    let Some(field) = section.find(name) else { return Vec::new() };
    let texts = field.texts().unwrap_or_default();
    for problem in texts.iter().filter_map(|text| check(text).err()) {
        field.problem(problem);
    }
    texts
}

fn any(text: &str) -> Result<(), String> {
    if text.is_empty() { Err("must not be empty".to_owned()) } else { Ok(()) }
}

fn scope(text: &str) -> Result<(), String> {
    if super::identity::is_scope(text) {
        return Ok(());
    }
    Err(format!("`{text}` is not a scope: use visible ASCII without `\"` and `\\`"))
}

/// RFC 8707, section 2: absolute, without a fragment.
fn uri(text: &str) -> Result<(), String> {
    let is_absolute = text.split_once(':').is_some_and(|(scheme, rest)| {
        let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.chars().all(is_word)
            && !rest.is_empty()
    });
    if is_absolute && !text.contains('#') {
        return Ok(());
    }
    Err(format!("`{text}` is not an absolute URI such as https://docs.example.com/mcp"))
}

fn client_id(text: &str) -> Result<String, &'static str> {
    let is_visible = |c: char| c.is_ascii_graphic() || c == ' ';
    if !text.is_empty() && text.chars().all(is_visible) {
        return Ok(text.to_owned());
    }
    Err("must be printable ASCII")
}

/// Secrets and tokens are sent to this URL.
fn token_url(text: &str) -> Result<String, String> {
    let shown = redact_url(text);
    let uri: Option<Uri> = text.parse().ok();
    let authority = uri.as_ref().and_then(Uri::authority);
    if authority.is_some_and(|authority| authority.as_str().contains('@')) {
        return Err(format!(
            "the URL of {shown} contains a user and a password; remove them, and set `clientId` \
             and `clientSecret` instead"
        ));
    }
    let good = uri.is_some_and(|uri| {
        matches!(uri.scheme_str(), Some("http" | "https"))
            && uri.host().is_some_and(|host| !host.is_empty())
    });
    if !good || text.contains('#') {
        return Err(format!("`{shown}` is not a URL such as https://id.example.com/token"));
    }
    if !is_private(text) {
        return Err(format!(
            "the client secret would be sent to {shown} in plain text; use https://"
        ));
    }
    Ok(text.to_owned())
}

/// Whether the connection is encrypted or local.
fn is_private(url: &str) -> bool {
    Credentials::is_private(url)
}

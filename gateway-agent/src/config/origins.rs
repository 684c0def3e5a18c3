//! The grammar of `allowedOrigins`, `allowedHosts` and `a2a.url`.

use http::uri::Authority;

/// Accepts the form that browsers send; other forms would never match.
pub(super) fn origin(text: &str) -> Result<String, String> {
    let is_scheme = |scheme: &str| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
    };
    match text.split_once("://") {
        Some((scheme, rest)) if is_scheme(scheme) && is_authority(rest) => Ok(text.to_owned()),
        _ => Err(format!(
            "`{text}` is not an origin; use scheme, host and optional port, such as \
             https://app.example.com, without a path"
        )),
    }
}

/// Accepts a value of the `Host` header, with or without a port.
pub(super) fn host(text: &str) -> Result<String, String> {
    if is_authority(text) {
        return Ok(text.to_owned());
    }
    Err(format!("`{text}` is not a host name; use the form gateway.example.com, without a scheme"))
}

/// Accepts the URL of the gateway, optionally with the path that a proxy removes.
pub(super) fn base_url(text: &str) -> Result<String, String> {
    let uri = text.parse::<http::Uri>().ok();
    let is_base = uri.is_some_and(|uri| {
        matches!(uri.scheme_str(), Some("http" | "https"))
            && uri.query().is_none()
            && uri.authority().is_some_and(|authority| is_authority(authority.as_str()))
    });
    if is_base && !text.contains('#') {
        return Ok(text.trim_end_matches('/').to_owned());
    }
    Err(format!("`{text}` is not a base URL; use the form https://gateway.example.com"))
}

fn is_authority(text: &str) -> bool {
    let authority = text.parse::<Authority>();
    !text.contains(['*', '@']) && authority.is_ok_and(|authority| !authority.host().is_empty())
}

//! From where the gateway may be called: the grammar of `allowedOrigins` and `allowedHosts`.

use http::uri::Authority;

/// An origin as browsers send it; anything else would never be equal to one.
pub(super) fn origin(text: &str) -> Result<String, String> {
    let is_scheme = |scheme: &str| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
    };
    match text.split_once("://") {
        Some((scheme, rest)) if is_scheme(scheme) && is_authority(rest) => Ok(text.to_owned()),
        _ => Err(format!(
            "`{text}` is no origin; write scheme and host (and port) like https://app.example.com, \
             without a path"
        )),
    }
}

/// A name as it stands in `Host`, with or without its port.
pub(super) fn host(text: &str) -> Result<String, String> {
    if is_authority(text) {
        return Ok(text.to_owned());
    }
    Err(format!("`{text}` is no host name; write one like gateway.example.com, without a scheme"))
}

fn is_authority(text: &str) -> bool {
    let authority = text.parse::<Authority>();
    !text.contains(['*', '@']) && authority.is_ok_and(|authority| !authority.host().is_empty())
}

//! Protection against web pages of other sites.
//!
//! A page can make a browser send requests to this machine. A foreign `Origin` header reveals that,
//! and a foreign `Host` header reveals DNS rebinding.

#[cfg(test)]
mod tests;

use std::net::{IpAddr, SocketAddr};

use http::{
    Uri,
    header::{HOST, ORIGIN},
    request::Parts,
    uri::Authority,
};

/// The allowed web origins and hosts of requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OriginPolicy {
    /// The address of the listener. On loopback, an empty `hosts` allows loopback names only.
    pub listen: SocketAddr,
    /// Allowed origins. Empty: loopback origins.
    pub origins: Vec<String>,
    /// Allowed hosts. Empty: loopback names, or any name if `listen` is another address.
    pub hosts: Vec<String>,
}

/// A request from a page of another site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ForeignSource {
    Origin,
    Host,
}

impl OriginPolicy {
    /// Checks the `Origin` and `Host` of a request.
    pub(crate) fn check(&self, parts: &Parts) -> Result<(), ForeignSource> {
        for origin in parts.headers.get_all(ORIGIN) {
            if !origin.to_str().is_ok_and(|origin| is_known_origin(origin, &self.origins)) {
                return Err(ForeignSource::Origin);
            }
        }
        let is_any_host_allowed = self.hosts.is_empty() && !self.listen.ip().is_loopback();
        if is_any_host_allowed || is_known_host(parts, &self.hosts) {
            return Ok(());
        }
        Err(ForeignSource::Host)
    }

    /// Whether the configuration lists an origin.
    pub(crate) fn is_listed(&self, origin: &[u8]) -> bool {
        self.origins.iter().any(|listed| listed.as_bytes().eq_ignore_ascii_case(origin))
    }
}

fn is_known_origin(origin: &str, known: &[String]) -> bool {
    if !known.is_empty() {
        return known.iter().any(|known| known.eq_ignore_ascii_case(origin));
    }
    let Ok(origin) = origin.parse::<Uri>() else { return false };
    matches!(origin.scheme_str(), Some("http" | "https")) && origin.host().is_some_and(is_local)
}

fn is_known_host(parts: &Parts, known: &[String]) -> bool {
    let mut hosts = parts.headers.get_all(HOST).iter();
    let authority = match (hosts.next(), hosts.next()) {
        (Some(host), None) => host.to_str().ok(),
        // HTTP/2 has the authority in the request line.
        (None, _) => parts.uri.authority().map(Authority::as_str),
        (Some(_), Some(_)) => None,
    };
    let Some((authority, host)) = authority.zip(authority.and_then(host_of)) else { return false };
    let is_named =
        |name: &String| name.eq_ignore_ascii_case(host) || name.eq_ignore_ascii_case(authority);
    if known.is_empty() { is_local(host) } else { known.iter().any(is_named) }
}

/// The host in `host` or `host:port`. Parsing an [`Authority`] would copy the text.
fn host_of(authority: &str) -> Option<&str> {
    let end = match authority.rfind(']') {
        // An address of IPv6 contains colons.
        Some(bracket) => bracket + 1,
        None => authority.find(':').unwrap_or(authority.len()),
    };
    let (host, port) = authority.split_at(end);
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    (port.is_empty() || port.strip_prefix(':').is_some_and(is_port)).then_some(host)
}

/// Whether a host name always resolves to this machine.
fn is_local(host: &str) -> bool {
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    host.eq_ignore_ascii_case("localhost")
        || bare.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

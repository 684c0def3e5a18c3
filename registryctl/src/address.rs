//! Addresses of registries.

use std::{fmt, net::IpAddr, slice, str::FromStr};

const HTTP: &str = "http";
const HTTPS: &str = "https";

/// The URL of a registry, with the scheme `http` or `https`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address(String);

/// The addresses of the servers of one registry, with one scheme. There is at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Addresses(Vec<Address>);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidAddress {
    #[error("unsupported scheme `{0}`; use https://, http://, grpcs:// or grpc://")]
    Scheme(String),
    /// Not a URL with a host. The text is omitted: it may contain a password.
    #[error("invalid address; write https://HOST:PORT, without a user name and password")]
    Form,
    #[error(
        "the servers have different schemes; write one scheme for all of them, such as \
         https://a:7070,b:7070"
    )]
    MixedSchemes,
}

impl Address {
    /// Reads an address. `default`: the scheme of a text without one.
    fn parse(text: &str, default: &str) -> Result<Self, InvalidAddress> {
        let (scheme, rest) = match text.split_once("://") {
            Some((HTTP | "grpc", rest)) => (HTTP, rest),
            Some((HTTPS | "grpcs", rest)) => (HTTPS, rest),
            Some((scheme, _)) => return Err(InvalidAddress::Scheme(scheme.to_owned())),
            None => (default, text),
        };
        let url = format!("{scheme}://{}", rest.trim_end_matches('/'));
        let uri: Result<tonic::transport::Uri, _> = url.parse();
        let is_valid = |authority: &http::uri::Authority| {
            !authority.host().is_empty() && !authority.as_str().contains('@')
        };
        match uri {
            Ok(uri) if uri.authority().is_some_and(is_valid) => Ok(Self(url)),
            _ => Err(InvalidAddress::Form),
        }
    }

    pub(crate) fn is_tls(&self) -> bool {
        self.0.starts_with("https://")
    }

    /// `HOST:PORT`, without the scheme.
    pub(crate) fn authority(&self) -> &str {
        let rest = self.0.split_once("://").map_or(&*self.0, |(_, rest)| rest);
        rest.split(['/', '?']).next().unwrap_or_default()
    }

    /// The host, without the brackets of an IPv6 address, and the port or the default of the scheme.
    pub(crate) fn host_and_port(&self) -> Option<(String, u16)> {
        let uri = self.0.parse::<tonic::transport::Uri>().ok()?;
        let host = uri.host()?.trim_start_matches('[').trim_end_matches(']').to_owned();
        Some((host, uri.port_u16().unwrap_or(if self.is_tls() { 443 } else { 80 })))
    }

    /// Whether the host is this machine.
    pub(crate) fn is_loopback(&self) -> bool {
        let Ok(uri) = self.0.parse::<tonic::transport::Uri>() else { return false };
        let host = uri.host().unwrap_or_default();
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        host.eq_ignore_ascii_case("localhost")
            || bare.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
    }
}

impl FromStr for Address {
    type Err = InvalidAddress;

    fn from_str(text: &str) -> Result<Self, InvalidAddress> {
        Self::parse(text, HTTP)
    }
}

impl Addresses {
    pub(crate) fn iter(&self) -> slice::Iter<'_, Address> {
        self.0.iter()
    }
}

impl FromStr for Addresses {
    type Err = InvalidAddress;

    /// The scheme of the first address is that of later ones without a scheme, as in the
    /// configuration of gateways.
    fn from_str(text: &str) -> Result<Self, InvalidAddress> {
        let mut texts = text.split(',').map(str::trim);
        let first: Address = texts.next().unwrap_or_default().parse()?;
        let is_tls = first.is_tls();
        let scheme = if is_tls { HTTPS } else { HTTP };
        let mut addresses = vec![first];
        for text in texts {
            let address = Address::parse(text, scheme)?;
            if address.is_tls() != is_tls {
                return Err(InvalidAddress::MixedSchemes);
            }
            addresses.push(address);
        }
        Ok(Self(addresses))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Address {
        text.parse().unwrap()
    }

    #[test]
    fn schemes_are_normalized_or_rejected() {
        for good in ["http://localhost:7070", "grpc://localhost:7070/", "localhost:7070"] {
            assert_eq!(address(good).to_string(), "http://localhost:7070");
        }
        assert_eq!(address("grpcs://r:443").to_string(), "https://r:443");
        assert!(matches!("ftp://x".parse::<Address>(), Err(InvalidAddress::Scheme(_))));
        for bad in ["", "http://", "a b", "https://ann:secret@registry"] {
            assert_eq!(bad.parse::<Address>(), Err(InvalidAddress::Form), "{bad}");
        }
    }

    #[test]
    fn list_has_the_scheme_of_its_first_address() {
        let list = |text: &str| -> Result<Vec<_>, InvalidAddress> {
            Ok(text.parse::<Addresses>()?.iter().map(Address::to_string).collect())
        };
        assert_eq!(list("https://a:1,b:2").unwrap(), ["https://a:1", "https://b:2"]);
        assert_eq!(list("grpcs://a:1, https://b:2/").unwrap(), ["https://a:1", "https://b:2"]);
        assert_eq!(list("a:1,http://b:2").unwrap(), ["http://a:1", "http://b:2"]);
        for mixed in ["https://a:1,http://b:2", "http://a:1,grpcs://b:2", "a:1,https://b:2"] {
            assert_eq!(list(mixed), Err(InvalidAddress::MixedSchemes), "{mixed}");
        }
        assert_eq!(list("https://a:1,"), Err(InvalidAddress::Form));
    }

    #[test]
    fn loopback_hosts_and_tls_are_recognized() {
        assert!(address("https://x").is_tls() && !address("http://x").is_tls());
        assert_eq!(address("https://x:1/").authority(), "x:1");
        assert_eq!(address("https://[::1]").host_and_port(), Some(("::1".to_owned(), 443)));
        for local in ["localhost:1", "http://127.0.0.1:1", "http://[::1]:1"] {
            assert!(address(local).is_loopback(), "{local}");
        }
        for remote in ["http://10.0.0.1:1", "http://localhost.example:1", "http://0.0.0.0:1"] {
            assert!(!address(remote).is_loopback(), "{remote}");
        }
    }
}

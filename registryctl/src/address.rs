//! Where the registry is, and whether TLS is spoken there.

use std::{fmt, net::IpAddr, str::FromStr};

/// The address of a registry, as a URL for tonic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address(String);

/// Why a text is not an address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidAddress {
    /// Another scheme.
    #[error("`{0}` is not a scheme of the registry; use https://, http://, grpcs:// or grpc://")]
    Scheme(String),
    /// Not a URL with a host.
    #[error("this is not of the form https://HOST:PORT")]
    Form,
}

impl Address {
    /// Whether TLS is spoken there.
    pub(crate) fn is_tls(&self) -> bool {
        self.0.starts_with("https://")
    }

    /// Whether it is on this machine.
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
        let (scheme, rest) = match text.split_once("://") {
            Some(("http" | "grpc", rest)) => ("http", rest),
            Some(("https" | "grpcs", rest)) => ("https", rest),
            Some((scheme, _)) => return Err(InvalidAddress::Scheme(scheme.to_owned())),
            None => ("http", text),
        };
        let url = format!("{scheme}://{}", rest.trim_end_matches('/'));
        let uri: Result<tonic::transport::Uri, _> = url.parse();
        let is_fine = |authority: &http::uri::Authority| {
            !authority.host().is_empty() && !authority.as_str().contains('@')
        };
        // What is wrong may be a password before the host, so it is not repeated.
        match uri {
            Ok(uri) if uri.authority().is_some_and(is_fine) => Ok(Self(url)),
            _ => Err(InvalidAddress::Form),
        }
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
    fn takes_the_usual_forms_and_names_the_others() {
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
    fn knows_this_machine_and_tls() {
        assert!(address("https://x").is_tls() && !address("http://x").is_tls());
        for here in ["localhost:1", "http://127.0.0.1:1", "http://[::1]:1"] {
            assert!(address(here).is_loopback(), "{here}");
        }
        for there in ["http://10.0.0.1:1", "http://localhost.example:1", "http://0.0.0.0:1"] {
            assert!(!address(there).is_loopback(), "{there}");
        }
    }
}

//! Where the registry is.
//!
//! Deliberately absent: TLS; this build speaks plain HTTP/2, and says so.

use std::{fmt, str::FromStr};

/// The address of a registry, as a URL for tonic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address(String);

/// Why a text is not an address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidAddress {
    /// TLS was asked for.
    #[error("https is not supported by this build; use http:// or a TLS proxy on this machine")]
    Tls,
    /// Another scheme.
    #[error("`{0}` is not a scheme of the registry; use http:// or grpc://")]
    Scheme(String),
    /// Not a URL with a host.
    #[error("`{0}` is not of the form http://HOST:PORT")]
    Form(String),
}

impl FromStr for Address {
    type Err = InvalidAddress;

    fn from_str(text: &str) -> Result<Self, InvalidAddress> {
        let rest = match text.split_once("://") {
            Some(("http" | "grpc", rest)) => rest,
            Some(("https" | "grpcs", _)) => return Err(InvalidAddress::Tls),
            Some((scheme, _)) => return Err(InvalidAddress::Scheme(scheme.to_owned())),
            None => text,
        };
        let url = format!("http://{}", rest.trim_end_matches('/'));
        let uri: Result<tonic::transport::Uri, _> = url.parse();
        match uri {
            Ok(uri) if uri.authority().is_some_and(|a| !a.host().is_empty()) => Ok(Self(url)),
            _ => Err(InvalidAddress::Form(text.to_owned())),
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

    #[test]
    fn takes_the_usual_forms_and_names_the_others() {
        for good in ["http://localhost:7070", "grpc://localhost:7070/", "localhost:7070"] {
            assert_eq!(good.parse::<Address>().unwrap().to_string(), "http://localhost:7070");
        }
        assert_eq!("https://x".parse::<Address>(), Err(InvalidAddress::Tls));
        assert!(matches!("ftp://x".parse::<Address>(), Err(InvalidAddress::Scheme(_))));
        for bad in ["", "http://", "a b"] {
            assert!(matches!(bad.parse::<Address>(), Err(InvalidAddress::Form(_))), "{bad}");
        }
    }
}

//! The grammar of `registry.source`.
//!
//! Deliberately absent: credentials; a source may not have them, but for `http(s)://`.

use std::{path::PathBuf, str::FromStr};

use http::Uri;
use registry_follow::{InvalidAddress, MOST, addresses};

use super::Source;

/// A text that is not a source; it is kept without credentials.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSource {
    /// No scheme that is known.
    #[error(
        "`{0}` is no source; write grpc(s)://host:port, http(s)://host/registry.json or file://path"
    )]
    Form(String),
    /// A `grpc(s)://` address without a port, or with more than that.
    #[error(
        "`{0}` must be grpc(s)://host:port, or several host:port with commas between, and nothing \
         more, like grpc://127.0.0.1:7070"
    )]
    Address(String),
    /// Too many addresses.
    #[error("{0} addresses of registry servers, {MOST} are allowed")]
    Addresses(usize),
    /// An `http(s)://` URL that does not parse.
    #[error("`{0}` is not a URL such as https://registry.example.com/registry.json")]
    Url(String),
    /// `file://` and nothing else.
    #[error("`{0}` names no file; write file:///etc/registry.json or file://./registry.json")]
    Path(String),
}

/// A URL, or what was meant to be one, without `user:password@` and without its query. It must work
/// for texts that are no URL at all, so it looks for the last `@` and takes no chances.
pub(crate) fn without_credentials(text: &str) -> String {
    let scheme = text.split_once("://").map_or("", |(scheme, _)| scheme);
    let shown = match text.rsplit_once('@') {
        Some((_, rest)) if scheme.is_empty() || scheme.contains('@') => rest.to_owned(),
        Some((_, rest)) => format!("{scheme}://{rest}"),
        None => text.to_owned(),
    };
    shown.split('?').next().unwrap_or_default().to_owned()
}

impl FromStr for Source {
    type Err = InvalidSource;

    fn from_str(text: &str) -> Result<Self, InvalidSource> {
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(InvalidSource::Form(without_credentials(text)));
        };
        match scheme {
            "grpc" | "grpcs" => grpc(text),
            "http" | "https" => http(text),
            "file" if rest.is_empty() => Err(InvalidSource::Path(text.to_owned())),
            "file" => Ok(Self::File(PathBuf::from(rest))),
            _ => Err(InvalidSource::Form(without_credentials(text))),
        }
    }
}

/// One address, or several of servers of one registry: `grpc://a:7070,b:7070`.
fn grpc(text: &str) -> Result<Source, InvalidSource> {
    addresses(text).map(Source::Grpc).map_err(|e| match e {
        InvalidAddress::Form => InvalidSource::Address(without_credentials(text)),
        InvalidAddress::TooMany(count) => InvalidSource::Addresses(count),
    })
}

fn http(text: &str) -> Result<Source, InvalidSource> {
    let uri: Option<Uri> = text.parse().ok();
    let has_host = uri.as_ref().and_then(Uri::host).is_some_and(|host| !host.is_empty());
    if !has_host {
        return Err(InvalidSource::Url(without_credentials(text)));
    }
    Ok(Source::Http(text.to_owned()))
}

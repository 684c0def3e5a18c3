//! The source of the catalog: its address, scope and credentials.

use std::{
    path::{Path, PathBuf},
    str::FromStr,
    time::Duration,
};

use gateway_upstream::redact_url;
use http::Uri;
use registry_core::Scope;
use registry_follow::{Credentials, InvalidAddress, MAX_SERVERS, addresses};

use crate::{files::read_text, findings::Origin};

/// Maximum size of a scope file, in bytes.
const SCOPE_FILE_BYTES: u64 = 1024 * 1024;

/// The catalog's source and how to follow it.
#[derive(Debug, Clone)]
pub struct SourceConfig {
    /// The address of the source.
    pub address: Source,
    /// The part of the registry to follow.
    pub scope: ScopeConfig,
    /// The credentials for the registry.
    pub credentials: Credentials,
    /// The interval between requests to an `http(s)://` source.
    pub poll_interval: Duration,
}

/// The address of a catalog's source: `grpc(s)://…`, `http(s)://…` or `file://…`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// Registry servers as `http(s)://host:port`. The gateway follows one of them.
    Grpc(Vec<String>),
    /// The URL of a registry file. The gateway polls it with its `ETag`.
    Http(String),
    /// The path of a registry file. The gateway watches it.
    File(PathBuf),
    /// The MCP servers of `mcpServers`, as the gateway discovers them.
    Discovered,
}

impl Source {
    /// Whether there is no registry.
    pub fn is_discovered(&self) -> bool {
        matches!(self, Self::Discovered)
    }

    /// The origin of the catalog.
    pub fn origin(&self) -> Origin {
        match self {
            Self::Grpc(_) => Origin::Registry,
            Self::Http(_) | Self::File(_) => Origin::File,
            Self::Discovered => Origin::Targets,
        }
    }
}

/// `registry.scope` and `registry.scopeFile`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScopeConfig {
    /// The initial scope.
    pub scope: Scope,
    /// A file that replaces the scope whenever it changes.
    pub file: Option<PathBuf>,
}

impl ScopeConfig {
    /// Reads a file with one root per line. Empty lines and comments (`#`) are ignored.
    pub fn read(file: &Path) -> Result<Scope, String> {
        let name = file.display();
        let text = read_text(file, SCOPE_FILE_BYTES);
        let text = text.map_err(|e| format!("cannot read {name}: {e}"))?;
        let lines = text.lines().map(str::trim);
        let roots: Vec<_> =
            lines.filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
        Scope::from_roots(&roots).map_err(|e| format!("{name}: {e}"))
    }
}

/// An invalid source. Messages omit credentials.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSource {
    /// The text has none of the supported forms.
    #[error(
        "`{0}` is not a source; use grpc(s)://host:port, http(s)://host/registry.json or file://path"
    )]
    Form(String),
    /// A `grpc(s)://` address without a port, or with a path.
    #[error(
        "`{0}` must be grpc(s)://host:port, or several host:port separated by commas, such as \
             grpc://127.0.0.1:7070"
    )]
    Address(String),
    /// Too many addresses.
    #[error("{0} addresses of registry servers; the maximum is {MAX_SERVERS}")]
    Addresses(usize),
    /// An `http(s)://` URL that does not parse.
    #[error("`{0}` is not a URL such as https://registry.example.com/registry.json")]
    Url(String),
    /// `file://` without a path.
    #[error("`{0}` has no path; use file:///etc/registry.json or file://./registry.json")]
    Path(String),
}

impl FromStr for Source {
    type Err = InvalidSource;

    fn from_str(text: &str) -> Result<Self, InvalidSource> {
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(InvalidSource::Form(redact_url(text)));
        };
        match scheme {
            "grpc" | "grpcs" => grpc(text),
            "http" | "https" => http(text),
            "file" if rest.is_empty() => Err(InvalidSource::Path(text.to_owned())),
            "file" => Ok(Self::File(PathBuf::from(rest))),
            _ => Err(InvalidSource::Form(redact_url(text))),
        }
    }
}

/// One address, or several of one registry: `grpc://a:7070,b:7070`.
fn grpc(text: &str) -> Result<Source, InvalidSource> {
    addresses(text).map(Source::Grpc).map_err(|e| match e {
        InvalidAddress::Form => InvalidSource::Address(redact_url(text)),
        InvalidAddress::TooMany(count) => InvalidSource::Addresses(count),
    })
}

fn http(text: &str) -> Result<Source, InvalidSource> {
    let uri: Option<Uri> = text.parse().ok();
    let has_host = uri.as_ref().and_then(Uri::host).is_some_and(|host| !host.is_empty());
    if !has_host {
        return Err(InvalidSource::Url(redact_url(text)));
    }
    Ok(Source::Http(text.to_owned()))
}

//! The credentials of a follower: a token, a client certificate, or none.
//!
//! The files are read for each connection, so replaced ones apply without a restart.

use std::{
    fmt, fs, io,
    net::IpAddr,
    path::{Path, PathBuf},
};

use http::{HeaderValue, Uri};
use registry_tls::ClientFiles;

/// The credentials for a registry.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Credentials {
    /// The token of every call.
    pub token: Option<Token>,
    /// The CA bundle for the certificate of the registry, and the client certificate.
    pub tls: ClientFiles,
}

/// A token. Its `Debug` form omits the secret.
#[derive(Clone, PartialEq, Eq)]
pub enum Token {
    /// The token itself.
    Text(String),
    /// A file that contains the token.
    File(PathBuf),
}

impl Credentials {
    /// The `authorization` header. It is marked as sensitive.
    pub fn authorization(&self) -> io::Result<Option<HeaderValue>> {
        let text = match &self.token {
            None => return Ok(None),
            Some(Token::Text(text)) => text.clone().into_bytes(),
            Some(Token::File(path)) => read(path)?,
        };
        // The error does not repeat the secret.
        let invalid = |_| {
            let reason = "the registry token has characters that are not allowed in a header";
            io::Error::other(match &self.token {
                Some(Token::File(path)) => format!("{}: {reason}", path.display()),
                Some(Token::Text(_)) | None => reason.to_owned(),
            })
        };
        let header = [b"Bearer ", text.trim_ascii()].concat();
        let mut value = HeaderValue::from_bytes(&header).map_err(invalid)?;
        value.set_sensitive(true);
        Ok(Some(value))
    }

    /// Whether the connection to a URL is private: it uses TLS or stays on this machine.
    pub fn is_private(url: &str) -> bool {
        let Ok(uri) = url.parse::<Uri>() else { return false };
        let host = uri.host().unwrap_or_default();
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        uri.scheme_str() == Some("https")
            || host.eq_ignore_ascii_case("localhost")
            || bare.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    fs::read(path).map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", path.display())))
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(_) => f.write_str("Text(…)"),
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
        }
    }
}

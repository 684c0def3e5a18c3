//! What a follower shows to its registry: a token, a certificate, or nothing.
//!
//! The files are read whenever a connection is made, so that new ones are taken without a restart.

use std::{
    fmt, fs, io,
    net::IpAddr,
    path::{Path, PathBuf},
};

use http::{HeaderValue, Uri};

/// What the registry is shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Credentials {
    /// What goes with every call.
    pub token: Option<Token>,
    /// The certificates (PEM) that the registry's must lead to; none: those of the system.
    pub ca: Option<PathBuf>,
    /// The follower's certificate and its key (PEM).
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// A token; it is never printed.
#[derive(Clone, PartialEq, Eq)]
pub enum Token {
    /// Its text.
    Text(String),
    /// A file that has it.
    File(PathBuf),
}

impl Credentials {
    /// The header that goes with every call; it is never printed.
    pub fn authorization(&self) -> io::Result<Option<HeaderValue>> {
        let text = match &self.token {
            None => return Ok(None),
            Some(Token::Text(text)) => text.clone().into_bytes(),
            Some(Token::File(path)) => read(path)?,
        };
        // What is wrong with it is not repeated, because it is a secret.
        let invalid = |_| io::Error::other("the registry's token has characters that no token has");
        let header = [b"Bearer ", text.trim_ascii()].concat();
        let mut value = HeaderValue::from_bytes(&header).map_err(invalid)?;
        value.set_sensitive(true);
        Ok(Some(value))
    }

    /// The certificates that the registry's must lead to.
    pub fn roots(&self) -> io::Result<Option<Vec<u8>>> {
        self.ca.as_ref().map(|path| read(path)).transpose()
    }

    /// The follower's certificate and its key.
    pub fn certificate(&self) -> io::Result<Option<(Vec<u8>, Vec<u8>)>> {
        let Some((certificate, key)) = &self.identity else { return Ok(None) };
        Ok(Some((read(certificate)?, read(key)?)))
    }

    /// Whether nobody on the way to a URL can listen: TLS, or this machine.
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

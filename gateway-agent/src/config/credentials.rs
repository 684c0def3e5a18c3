//! What the gateway shows to its registry: a token, a certificate, or nothing.
//!
//! The files are read whenever a connection is made, so that new ones are taken without a restart.
//! A token goes over TLS, or to this machine, or not at all. Deliberately absent: what upstreams
//! are shown; each target has its headers.

use std::{
    fmt, fs, io,
    net::IpAddr,
    path::{Path, PathBuf},
};

use http::{HeaderValue, Uri};

use super::{Args, Source, problem::Problems, read::Section};

/// What the registry is shown.
#[derive(Debug, Clone, Default)]
pub struct Credentials {
    token: Option<Token>,
    /// The certificates (PEM) that the registry's must lead to; none: those of the system.
    pub ca: Option<PathBuf>,
    /// The gateway's certificate and its key (PEM).
    pub identity: Option<(PathBuf, PathBuf)>,
}

#[derive(Clone)]
enum Token {
    Text(String),
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

    /// The gateway's certificate and its key.
    pub fn certificate(&self) -> io::Result<Option<(Vec<u8>, Vec<u8>)>> {
        let Some((certificate, key)) = &self.identity else { return Ok(None) };
        Ok(Some((read(certificate)?, read(key)?)))
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    fs::read(path).map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", path.display())))
}

/// Reads what the `registry` block and the flags say.
pub(super) fn read_section(
    problems: &Problems,
    section: &Section<'_>,
    args: &Args,
    source: Option<&Source>,
) -> Credentials {
    let file = |name| section.find(name).and_then(|field| field.text()).map(PathBuf::from);
    let (token_file, ca) = (file("tokenFile"), file("caFile"));
    let identity = match (file("certFile"), file("keyFile")) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        _ => {
            section.problem("`certFile` and `keyFile` go together");
            None
        }
    };
    let is_plaintext_fine = section.switch("plaintextToken", false);
    let given = args.registry_token.clone().map(|token| Token::Text(token.expose().to_owned()));
    let credentials = Credentials { token: given.or(token_file.map(Token::File)), ca, identity };
    if let Err(e) = credentials.authorization() {
        problems.at(0, "registry.tokenFile", format!("cannot be used: {e}"));
    }
    if let Err(e) = credentials.roots().and(credentials.certificate()) {
        problems.at(0, "registry", format!("a certificate cannot be read: {e}"));
    }
    let is_told = credentials.token.is_some();
    if is_told && !is_plaintext_fine && source.is_some_and(|source| !is_private(source)) {
        let message = "the token would go to another machine in plain text; use grpcs:// or \
                       https://, or set `plaintextToken: true` where the network is trusted";
        problems.at(0, "registry.source", message.to_owned());
    }
    credentials
}

/// Whether nobody on the way can listen.
fn is_private(source: &Source) -> bool {
    match source {
        Source::Grpc(addresses) => addresses.iter().all(|address| is_private_url(address)),
        Source::Http(url) => is_private_url(url),
        Source::File(_) => true,
    }
}

fn is_private_url(url: &str) -> bool {
    let Ok(uri) = url.parse::<Uri>() else { return false };
    let host = uri.host().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    uri.scheme_str() == Some("https")
        || host.eq_ignore_ascii_case("localhost")
        || bare.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(_) => f.write_str("Text(…)"),
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
        }
    }
}

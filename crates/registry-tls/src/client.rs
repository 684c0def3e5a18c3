//! HTTP over TLS towards a server: what is trusted, and what it is shown.

use std::{path::PathBuf, sync::Arc};

use rustls::{ClientConfig, crypto::aws_lc_rs};
use rustls_platform_verifier::BuilderVerifierExt as _;

use crate::{Fresh, InvalidFile, file::File, fresh::Source};

/// What is spoken over it (ALPN), the best first.
const HTTP: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// What a client trusts and shows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientFiles {
    /// The certificates that the server's must lead to; none: those of the system.
    pub ca: Option<PathBuf>,
    /// The client's certificate and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
}

impl ClientFiles {
    /// Whether the files can be used.
    pub fn check(&self) -> Result<(), InvalidFile> {
        self.read()?.client().map(drop)
    }

    /// Keeps reading the files for as long as it is used. Must be called inside a runtime.
    pub fn open(self, changed: fn(&'static str)) -> Result<Fresh<ClientConfig>, InvalidFile> {
        Fresh::open(Source { read: move || self.read(), make: Read::client, changed })
    }

    fn read(&self) -> Result<Read, InvalidFile> {
        let pair = |(certificate, key): &(PathBuf, PathBuf)| {
            Ok((File::read(certificate)?, File::read(key)?))
        };
        Ok(Read {
            ca: File::read_where(self.ca.as_ref())?,
            identity: self.identity.as_ref().map(pair).transpose()?,
        })
    }
}

/// What the files say.
#[derive(PartialEq, Eq)]
struct Read {
    ca: Option<File>,
    identity: Option<(File, File)>,
}

impl Read {
    fn client(&self) -> Result<ClientConfig, InvalidFile> {
        let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|e| self.invalid(&e))?;
        let builder = match &self.ca {
            Some(ca) => builder.with_root_certificates(ca.roots()?),
            None => builder.with_platform_verifier().map_err(|e| self.invalid(&e))?,
        };
        let mut client = match &self.identity {
            Some((certificate, key)) => builder
                .with_client_auth_cert(certificate.chain()?, key.key()?)
                .map_err(|e| certificate.invalid(&e))?,
            None => builder.with_no_client_auth(),
        };
        client.alpn_protocols = HTTP.map(<[u8]>::to_vec).into();
        Ok(client)
    }

    /// What no file is to blame for.
    fn invalid(&self, reason: &rustls::Error) -> InvalidFile {
        let file = self.ca.as_ref().or(self.identity.as_ref().map(|(certificate, _)| certificate));
        file.map_or_else(
            || InvalidFile { path: PathBuf::new(), reason: reason.to_string() },
            |file| file.invalid(reason),
        )
    }
}

//! TLS of HTTP clients: trusted CAs and client certificate.

use std::{path::PathBuf, sync::Arc};

use rustls::{ClientConfig, crypto::aws_lc_rs, sign::SingleCertAndKey};
use rustls_platform_verifier::BuilderVerifierExt as _;

use crate::{InvalidFile, Reloaded, file::File, reload::Source};

/// The ALPN protocols, most preferred first.
const HTTP: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// The TLS files of a client.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientFiles {
    /// CA bundle (PEM) used to verify the server certificate. `None`: the CAs of the system.
    pub ca: Option<PathBuf>,
    /// The client certificate and its key (PEM).
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// Whether the reason of a failed connection is a server certificate of an untrusted CA.
pub fn is_untrusted_ca(reason: &str) -> bool {
    // If a trusted CA has the same name, rustls reports `BadSignature` for another key of the same
    // type, and `UnsupportedSignatureAlgorithmForPublicKeyContext` for a key of another type.
    ["UnknownIssuer", "BadSignature", "UnsupportedSignatureAlgorithmForPublicKey"]
        .iter()
        .any(|error| reason.contains(error))
}

/// Whether the reason of a failed connection is a CA certificate in place of a server certificate.
pub fn is_ca_certificate(reason: &str) -> bool {
    reason.contains("CaUsedAsEndEntity")
}

/// The content of the TLS files of a client, for client libraries that accept only PEM.
pub struct ClientPem {
    /// The CA bundle.
    pub ca: Option<Vec<u8>>,
    /// The client certificate and its key.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
}

impl ClientFiles {
    /// Reads the files, and checks that the CA bundle has certificates and that the client
    /// certificate matches its key.
    pub fn read_pem(&self) -> Result<ClientPem, InvalidFile> {
        let Read { ca, identity } = self.read()?;
        if let Some(ca) = &ca {
            ca.chain()?;
        }
        if let Some((certificate, key)) = &identity {
            certificate.certified_key(key)?;
        }
        let pair = |(certificate, key): (File, File)| (certificate.into_bytes(), key.into_bytes());
        Ok(ClientPem { ca: ca.map(File::into_bytes), identity: identity.map(pair) })
    }

    /// Checks that the files can be used.
    pub fn check(&self) -> Result<(), InvalidFile> {
        self.read()?.client().map(drop)
    }

    /// Builds the configuration and reloads changed files until it is dropped. Must be called
    /// inside a Tokio runtime.
    pub fn open(self, reloaded: fn(&'static str)) -> Result<Reloaded<ClientConfig>, InvalidFile> {
        Reloaded::open(Source { read: move || self.read(), make: Read::client, reloaded })
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

/// The content of the files.
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
            Some((certificate, key)) => {
                let identity = SingleCertAndKey::from(certificate.certified_key(key)?);
                builder.with_client_cert_resolver(Arc::new(identity))
            }
            None => builder.with_no_client_auth(),
        };
        client.alpn_protocols = HTTP.map(<[u8]>::to_vec).into();
        Ok(client)
    }

    /// An error without a single responsible file.
    fn invalid(&self, reason: &rustls::Error) -> InvalidFile {
        let file = self.ca.as_ref().or(self.identity.as_ref().map(|(certificate, _)| certificate));
        file.map_or_else(
            || InvalidFile { path: PathBuf::new(), reason: reason.to_string() },
            |file| file.invalid(reason),
        )
    }
}

//! A PEM file and its content.

use std::{
    fmt::Display,
    fs,
    path::{Path, PathBuf},
};

use rustls::{
    RootCertStore,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, pem, pem::PemObject},
    sign::CertifiedKey,
};

use crate::holder::is_ca;

/// A configured file that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot use {path:?}: {reason}")]
pub struct InvalidFile {
    /// The file.
    pub path: PathBuf,
    /// The reason.
    pub reason: String,
}

/// A file and its content.
#[derive(PartialEq, Eq)]
pub(crate) struct File {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl File {
    pub(crate) fn read(path: &Path) -> Result<Self, InvalidFile> {
        let path = path.to_path_buf();
        match fs::read(&path) {
            Ok(bytes) => Ok(Self { path, bytes }),
            Err(e) => Err(InvalidFile { path, reason: e.to_string() }),
        }
    }

    pub(crate) fn read_where(path: Option<&PathBuf>) -> Result<Option<Self>, InvalidFile> {
        path.map(|path| Self::read(path)).transpose()
    }

    /// Returns all items of one type; at least one is required.
    pub(crate) fn all<T: PemObject>(&self, what: &str) -> Result<Vec<T>, InvalidFile> {
        let read: Result<Vec<_>, _> = T::pem_slice_iter(&self.bytes).collect();
        let all = read.map_err(|e| self.invalid(&e))?;
        if all.is_empty() { Err(self.invalid(&format!("the file has no {what}"))) } else { Ok(all) }
    }

    /// A certificate and its chain.
    pub(crate) fn chain(&self) -> Result<Vec<CertificateDer<'static>>, InvalidFile> {
        self.all("certificate")
    }

    fn key(&self) -> Result<PrivateKeyDer<'static>, InvalidFile> {
        PrivateKeyDer::from_pem_slice(&self.bytes).map_err(|e| match e {
            pem::Error::NoItemsFound => self.invalid(&"the file has no private key"),
            e => self.invalid(&e),
        })
    }

    /// The certificate of this file with its private key.
    pub(crate) fn certified_key(&self, key_file: &Self) -> Result<CertifiedKey, InvalidFile> {
        let (chain, key) = match (self.chain(), key_file.key()) {
            (Err(_), Err(_)) if self.key().is_ok() && key_file.chain().is_ok() => {
                return Err(self.invalid(&format!(
                    "the file has a private key, and `{}` has the certificate; swap the two files",
                    key_file.path.display()
                )));
            }
            (chain, key) => (chain?, key?),
        };
        CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider())
            .map_err(|e| self.invalid_pair(key_file, &e))
    }

    /// Logs a warning if the first certificate belongs to a CA.
    pub(crate) fn warn_of_ca(&self) -> Result<(), InvalidFile> {
        if self.chain()?.first().is_some_and(|certificate| is_ca(certificate)) {
            tracing::warn!(
                "the server certificate {} is a CA certificate, which most clients reject; issue it \
                 with basicConstraints=CA:FALSE",
                self.path.display()
            );
        }
        Ok(())
    }

    /// The CA certificates.
    pub(crate) fn roots(&self) -> Result<RootCertStore, InvalidFile> {
        let mut roots = RootCertStore::empty();
        for certificate in self.chain()? {
            roots.add(certificate).map_err(|e| self.invalid(&e))?;
        }
        Ok(roots)
    }

    /// The error for a certificate that cannot be used with this key.
    fn invalid_pair(&self, key: &Self, error: &rustls::Error) -> InvalidFile {
        if !matches!(error, rustls::Error::InconsistentKeys(_)) {
            return self.invalid(error);
        }
        self.invalid(&format!(
            "the certificate does not match the private key `{}`; use the key that it was issued \
             for, and put the leaf certificate first in the file",
            key.path.display()
        ))
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    pub(crate) fn invalid(&self, reason: &dyn Display) -> InvalidFile {
        InvalidFile { path: self.path.clone(), reason: reason.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    const KEY: &str = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";

    fn file(name: &str, text: &str) -> File {
        File { path: name.into(), bytes: text.into() }
    }

    #[test]
    fn swapped_certificate_and_key_are_recognized() {
        let error = file("a.key", KEY).certified_key(&file("a.crt", CERTIFICATE)).unwrap_err();
        assert!(error.reason.contains("swap") && error.reason.contains("a.crt"), "{error}");
        let missing = file("a.crt", CERTIFICATE).certified_key(&file("empty", "")).unwrap_err();
        assert_eq!(missing.path, Path::new("empty"));
    }
}

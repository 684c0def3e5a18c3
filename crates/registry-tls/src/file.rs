//! A PEM file and its content.

use std::{
    fmt::Display,
    fs,
    path::{Path, PathBuf},
};

use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};

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

    pub(crate) fn key(&self) -> Result<PrivateKeyDer<'static>, InvalidFile> {
        PrivateKeyDer::from_pem_slice(&self.bytes).map_err(|e| self.invalid(&e))
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
    pub(crate) fn invalid_pair(&self, key: &Self, error: &rustls::Error) -> InvalidFile {
        if !matches!(error, rustls::Error::InconsistentKeys(_)) {
            return self.invalid(error);
        }
        self.invalid(&format!(
            "the certificate does not match the private key `{}`; use the key that it was issued \
             for, and put the leaf certificate first in the file",
            key.path.display()
        ))
    }

    pub(crate) fn invalid(&self, reason: &dyn Display) -> InvalidFile {
        InvalidFile { path: self.path.clone(), reason: reason.to_string() }
    }
}

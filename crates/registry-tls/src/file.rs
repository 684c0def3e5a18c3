//! A file (PEM) and what is in it.

use std::{
    fmt::Display,
    fs,
    path::{Path, PathBuf},
};

use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};

/// A file that the settings name, and that is of no use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path:?} cannot be used: {reason}")]
pub struct InvalidFile {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub reason: String,
}

/// A file and what is in it.
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

    /// Everything of a sort in it: one at least.
    pub(crate) fn all<T: PemObject>(&self, what: &str) -> Result<Vec<T>, InvalidFile> {
        let read: Result<Vec<_>, _> = T::pem_slice_iter(&self.bytes).collect();
        let all = read.map_err(|e| self.invalid(&e))?;
        if all.is_empty() { Err(self.invalid(&format!("no {what} is in it"))) } else { Ok(all) }
    }

    /// A certificate and those that it leads to.
    pub(crate) fn chain(&self) -> Result<Vec<CertificateDer<'static>>, InvalidFile> {
        self.all("certificate")
    }

    pub(crate) fn key(&self) -> Result<PrivateKeyDer<'static>, InvalidFile> {
        PrivateKeyDer::from_pem_slice(&self.bytes).map_err(|e| self.invalid(&e))
    }

    /// The certificates that others must lead to.
    pub(crate) fn roots(&self) -> Result<RootCertStore, InvalidFile> {
        let mut roots = RootCertStore::empty();
        for certificate in self.chain()? {
            roots.add(certificate).map_err(|e| self.invalid(&e))?;
        }
        Ok(roots)
    }

    pub(crate) fn invalid(&self, reason: &dyn Display) -> InvalidFile {
        InvalidFile { path: self.path.clone(), reason: reason.to_string() }
    }
}

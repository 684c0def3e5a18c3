//! The requirements for catalogs: a signature by the required key, and for complete catalogs
//! `registry.validation.startup`.
//!
//! Without `registry.key` the gateway trusts the server that it connects to.

use std::sync::Arc;

use registry_core::{
    Catalog, RegistryId, Revision, attestation::AttestationMismatch, checkpoint::VerifierKey,
};

use crate::startup::{self, InvalidCatalog, StartupValidation};

/// The requirements for accepting a catalog.
#[derive(Debug, Clone, Default)]
pub struct CatalogVerifier {
    key: Option<Arc<VerifierKey>>,
    startup: StartupValidation,
}

/// Why a catalog is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CatalogRejected {
    /// The catalog has no signature.
    #[error(
        "revision {revision} of registry {registry} is not signed, but `registry.key` requires the \
         signature of {key}"
    )]
    Unsigned {
        /// The registry of the catalog.
        registry: RegistryId,
        /// The revision of the catalog.
        revision: Revision,
        /// The required key.
        key: Arc<VerifierKey>,
    },
    /// The signature is not by the required key.
    #[error(transparent)]
    AttestationMismatch(#[from] AttestationMismatch),
    /// The startup checks found errors.
    #[error(transparent)]
    InvalidCatalog(#[from] InvalidCatalog),
}

impl From<StartupValidation> for CatalogVerifier {
    fn from(startup: StartupValidation) -> Self {
        Self { key: None, startup }
    }
}

impl CatalogVerifier {
    /// Requires the signature of a key.
    #[must_use]
    pub fn signed_by(self, key: Option<VerifierKey>) -> Self {
        Self { key: key.map(Arc::new), ..self }
    }

    /// Whether `registry.key` is set.
    pub fn requires_signature(&self) -> bool {
        self.key.is_some()
    }

    /// The checks of complete catalogs.
    pub fn startup(&self) -> StartupValidation {
        self.startup
    }

    /// Checks a complete catalog. Warnings are logged.
    pub fn verify(&self, catalog: &Catalog) -> Result<(), CatalogRejected> {
        self.verify_signature(catalog)?;
        Ok(startup::verify(catalog, self.startup)?)
    }

    /// Checks the signature, if a key is required.
    pub fn verify_signature(&self, catalog: &Catalog) -> Result<(), CatalogRejected> {
        let Some(key) = &self.key else { return Ok(()) };
        let attestation = catalog.attestation().ok_or_else(|| CatalogRejected::Unsigned {
            registry: catalog.registry().clone(),
            revision: catalog.revision(),
            key: key.clone(),
        })?;
        Ok(attestation.verify(catalog, key)?)
    }
}

//! The requirements for catalogs: a signature by the required key, and for complete catalogs
//! `registry.validation.startup`.
//!
//! Without `registry.key` the gateway trusts the server that it connects to.

use std::sync::Arc;

use registry_core::{
    Catalog, RegistryId, Revision, attestation::NotAttested, checkpoint::VerifierKey,
};

use crate::startup::{self, Refused, StartupValidation};

/// The requirements for accepting a catalog.
#[derive(Debug, Clone, Default)]
pub struct Admission {
    key: Option<Arc<VerifierKey>>,
    startup: StartupValidation,
}

/// Why a catalog is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAdmitted {
    /// The catalog has no signature.
    #[error(
		"revision {revision} of registry {registry} is not signed, but `registry.key` requires the \\
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
    NotAttested(#[from] NotAttested),
    /// The startup checks found errors.
    #[error(transparent)]
    Refused(#[from] Refused),
}

impl From<StartupValidation> for Admission {
    fn from(startup: StartupValidation) -> Self {
        Self { key: None, startup }
    }
}

impl Admission {
    /// Requires the signature of a key.
    #[must_use]
    pub fn signed_by(self, key: Option<VerifierKey>) -> Self {
        Self { key: key.map(Arc::new), ..self }
    }

    pub fn wants_signature(&self) -> bool {
        self.key.is_some()
    }

    /// The checks of complete catalogs.
    pub fn startup(&self) -> StartupValidation {
        self.startup
    }

    /// Checks a complete catalog. Warnings are logged.
    pub fn admit(&self, catalog: &Catalog) -> Result<(), NotAdmitted> {
        self.prove(catalog)?;
        Ok(startup::admit(catalog, self.startup)?)
    }

    /// Checks the signature, if a key is required.
    pub fn prove(&self, catalog: &Catalog) -> Result<(), NotAdmitted> {
        let Some(key) = &self.key else { return Ok(()) };
        let attestation = catalog.attestation().ok_or_else(|| NotAdmitted::Unsigned {
            registry: catalog.registry().clone(),
            revision: catalog.revision(),
            key: key.clone(),
        })?;
        Ok(attestation.verify(catalog, key)?)
    }
}

//! The states of the registry that the gateway accepts: states signed by the pinned key, and whole
//! catalogs only if they pass `registry.validation.startup`.
//!
//! Without a pinned key (`registry.key`) the gateway trusts the server that it connects to.

use std::sync::Arc;

use registry_core::{
    Catalog, RegistryId, Revision, attestation::AttestationMismatch, checkpoint::VerifierKey,
};

use crate::startup::{self, Refused, StartupValidation};

/// What a state must have to be served.
#[derive(Debug, Clone, Default)]
pub struct Admission {
    key: Option<Arc<VerifierKey>>,
    startup: StartupValidation,
}

/// Why a state is not served.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAdmitted {
    /// Nobody signed it.
    #[error(
        "revision {revision} of registry {registry} is not signed, and `registry.key` wants every state \
         signed by {key}"
    )]
    Unsigned {
        /// The registry that it claims to be.
        registry: RegistryId,
        /// Its revision.
        revision: Revision,
        /// The pinned key.
        key: Arc<VerifierKey>,
    },
    /// The pinned key did not sign it.
    #[error(transparent)]
    AttestationMismatch(#[from] AttestationMismatch),
    /// What was found in it.
    #[error(transparent)]
    Refused(#[from] Refused),
}

impl From<StartupValidation> for Admission {
    fn from(startup: StartupValidation) -> Self {
        Self { key: None, startup }
    }
}

impl Admission {
    /// Only what this key has signed.
    #[must_use]
    pub fn signed_by(self, key: Option<VerifierKey>) -> Self {
        Self { key: key.map(Arc::new), ..self }
    }

    /// Whether a signature is needed at all.
    pub fn wants_signature(&self) -> bool {
        self.key.is_some()
    }

    /// What is checked in whole catalogs.
    pub fn startup(&self) -> StartupValidation {
        self.startup
    }

    /// Checks a catalog that was loaded as a whole. Warnings are logged.
    pub fn admit(&self, catalog: &Catalog) -> Result<(), NotAdmitted> {
        self.prove(catalog)?;
        Ok(startup::admit(catalog, self.startup)?)
    }

    /// Checks that the pinned key has signed this state, if one is pinned.
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

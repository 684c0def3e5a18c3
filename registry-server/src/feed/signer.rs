//! Signatures of the states that followers receive: signed with the key of this server, or forwarded by a
//! relay.
//!
//! A signature contains the time when the state was the latest. States share a signature for one second.

use std::{sync::Arc, time::Duration};

use aws_lc_rs::signature::Ed25519KeyPair;
use registry_core::{
    Attestation, Catalog, ChainHash, Checkpoint, Digest, RegistryId, Revision, Scope,
    checkpoint::VerifierKey,
};
use tokio::sync::watch;

use super::UpstreamContact;
use crate::clock::Clock;

/// Maximum age of a reused signature, in milliseconds.
const MAX_REUSE_MILLIS: i64 = 1_000;

/// Source of signatures.
#[derive(Clone)]
pub enum StateSigner {
    /// This server, with its key.
    Key(Arc<Ed25519KeyPair>, Arc<dyn Clock>),
    /// The upstream registry of a relay. Signatures of the whole catalog arrive with the commits.
    Upstream {
        /// Signatures of scopes.
        scope_signatures: ScopeSignatureSource,
        /// Public key of the registry.
        key: Arc<VerifierKey>,
        /// Time of the last contact with the registry.
        contact: Arc<UpstreamContact>,
    },
}

/// Subscribes to the upstream signatures of a scope, until the receiver is dropped.
pub type ScopeSignatureSource = Arc<dyn Fn(Scope) -> watch::Receiver<ScopeSignature> + Send + Sync>;

/// Upstream signatures of a scope.
#[derive(Debug, Clone, Default)]
pub struct ScopeSignature {
    /// Latest signed state.
    pub signed: Option<SignedState>,
    /// Reason why the upstream server rejects the scope.
    pub rejection: Option<Arc<str>>,
}

/// A signed state of a scope.
#[derive(Debug, Clone, PartialEq)]
pub struct SignedState {
    /// Position of the state.
    pub position: (Revision, ChainHash),
    /// Content digest of the scope.
    pub content: Digest,
    /// Signature.
    pub attestation: Attestation,
}

impl StateSigner {
    /// Signs a state as the latest one, if this server has the key. The first call for a state computes its content
    /// digest.
    pub(super) fn sign(&self, catalog: Catalog) -> Catalog {
        let Self::Key(key, clock) = self else { return catalog };
        let attestation = Attestation::sign(&catalog, clock.now(), key);
        catalog.with_attestation(Some(attestation))
    }

    /// Whether the signature is recent, or cannot be renewed by this server.
    pub(super) fn is_fresh(&self, catalog: &Catalog) -> bool {
        let Self::Key(_, clock) = self else { return true };
        let age = |signed: &Attestation| clock.now().as_millis() - signed.time.as_millis();
        catalog.attestation().is_some_and(|signed| age(signed) < MAX_REUSE_MILLIS)
    }

    /// Upstream signatures of a scope, in a relay.
    pub(super) fn scope_signatures(
        &self,
        scope: &Scope,
    ) -> Option<watch::Receiver<ScopeSignature>> {
        match self {
            Self::Key(..) => None,
            Self::Upstream { scope_signatures, .. } => Some(scope_signatures(scope.clone())),
        }
    }

    /// Public key that verifies the signatures.
    pub(super) fn verifier_key(&self, registry: &RegistryId) -> VerifierKey {
        match self {
            Self::Key(key, _) => Checkpoint::verifier_key(registry, key),
            Self::Upstream { key, .. } => (**key).clone(),
        }
    }

    /// Time since the last contact with the registry.
    pub(super) fn age(&self) -> Duration {
        match self {
            Self::Key(..) => Duration::ZERO,
            Self::Upstream { contact, .. } => contact.age(),
        }
    }
}

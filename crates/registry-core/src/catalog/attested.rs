//! Attestations of catalogs.

use super::Catalog;
use crate::{
    attestation::{Attestation, AttestationMismatch, Statement},
    checkpoint::VerifierKey,
    ed25519::Ed25519KeyPair,
    timestamp::Timestamp,
};

impl Attestation {
    /// Signs a catalog as the latest state at this time.
    pub fn sign(catalog: &Catalog, time: Timestamp, pair: &Ed25519KeyPair) -> Self {
        Self::sign_statement(&catalog.statement(), time, pair)
    }

    /// Verifies the signature over this catalog by this key.
    pub fn verify(&self, catalog: &Catalog, key: &VerifierKey) -> Result<(), AttestationMismatch> {
        self.verify_statement(&catalog.statement(), key)
    }
}

impl Catalog {
    fn statement(&self) -> Statement<'_> {
        Statement {
            registry: self.registry(),
            revision: self.revision(),
            chain: self.chain(),
            scope: self.scope(),
            content: self.content_digest(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        chain::{ChainHash, RegistryId, Revision},
        checkpoint::Checkpoint,
        scope::Scope,
    };

    fn pair(seed: u8) -> Ed25519KeyPair {
        Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap()
    }

    #[test]
    fn attestation_verifies_only_for_signed_state() {
        let registry = RegistryId::new("0198c0de");
        let time = Timestamp::from_millis(1_795_300_000_123);
        let state = Catalog::empty(registry.clone());
        let attestation = Attestation::sign(&state, time, &pair(1));
        let key = Checkpoint::verifier_key(&registry, &pair(1));
        assert_eq!(attestation.verify(&state, &key), Ok(()));

        let elsewhere = Catalog::empty(RegistryId::new("another"));
        let later = state.at(Revision(1), state.chain());
        let forked = state.at(Revision(0), ChainHash::genesis(elsewhere.registry()));
        let scope = Scope::from_roots(&["team/*"]).unwrap();
        let part = state.clone().with_scope(Arc::new(scope));
        for other in [&elsewhere, &later, &forked, &part] {
            assert!(attestation.verify(other, &key).is_err(), "{other:?}");
        }
        let delayed =
            Attestation { time: Timestamp::from_millis(1_795_300_000_124), ..attestation };
        assert!(delayed.verify(&state, &key).is_err());
        let theirs = Checkpoint::verifier_key(&registry, &pair(2));
        let refused = attestation.verify(&state, &theirs).unwrap_err().to_string();
        insta::assert_snapshot!(
            refused,
            @"revision 0 of registry 0198c0de is not signed by \
              registry/0198c0de+eb5de235+AYE5dw6ofRdfVqNUZsNMfszLjYqRtO43ol32D1uPybOU: it was \
              changed in transit or on disk, or the registry signs with another key"
        );
        // A key known for another registry must not verify states of this one.
        let shared = Checkpoint::verifier_key(elsewhere.registry(), &pair(1));
        assert!(attestation.verify(&state, &shared).is_err());
    }
}

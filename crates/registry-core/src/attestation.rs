//! Attestations: the registry's signed word that a state is its latest one at a time.
//!
//! Signed is a text that whoever holds the state can make again: the registry, the revision, the
//! chain hash after it, the scope, the digest of the content, and the time. So neither a server in
//! between nor a file on disk can add, change or leave out anything. The key is that of checkpoints
//! ([`crate::checkpoint`]); no text is both. Deliberately absent: how old is too old.

use aws_lc_rs::signature::Ed25519KeyPair;

use crate::{
    catalog::Catalog,
    checkpoint::VerifierKey,
    commit::{ChainHash, RegistryId, Revision},
    document::Digest,
    scope::Scope,
    timestamp::Timestamp,
};

/// The registry's word on a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attestation {
    /// When it was the latest state.
    pub time: Timestamp,
    /// The Ed25519 signature.
    pub signature: [u8; 64],
}

/// Why an attestation is of no use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "revision {revision} of registry {registry} is not signed by {key}: it was changed on the way or on \
     disk, or another key signs for that registry"
)]
pub struct NotAttested {
    /// The registry that it claims to be.
    registry: String,
    /// Its revision.
    revision: u64,
    /// The key that should have signed it.
    key: String,
}

impl Attestation {
    /// Signs a state as the latest one at this time.
    pub fn sign(catalog: &Catalog, time: Timestamp, pair: &Ed25519KeyPair) -> Self {
        let signature = pair.sign(Statement::of(catalog).text(time).as_bytes());
        let mut bytes = [0; 64];
        // Ed25519 signatures have 64 bytes (RFC 8032, section 5.1.6).
        bytes.copy_from_slice(signature.as_ref());
        Self { time, signature: bytes }
    }

    /// Whether this key signed this state.
    pub fn verify(&self, catalog: &Catalog, key: &VerifierKey) -> Result<(), NotAttested> {
        self.verify_statement(&Statement::of(catalog), key)
    }

    /// The same where the state itself is not at hand.
    pub fn verify_statement(
        &self,
        statement: &Statement<'_>,
        key: &VerifierKey,
    ) -> Result<(), NotAttested> {
        let text = statement.text(self.time);
        if key.is_of(statement.registry) && key.has_signed(text.as_bytes(), &self.signature) {
            return Ok(());
        }
        Err(NotAttested {
            registry: statement.registry.to_string(),
            revision: statement.revision.0,
            key: key.to_string(),
        })
    }
}

/// What is signed of a state.
#[derive(Debug, Clone, Copy)]
pub struct Statement<'a> {
    /// Whose state it is.
    pub registry: &'a RegistryId,
    /// After which revision.
    pub revision: Revision,
    /// The chain hash after it.
    pub chain: ChainHash,
    /// Of which part.
    pub scope: &'a Scope,
    /// The digest of what is in it.
    pub content: Digest,
}

impl<'a> Statement<'a> {
    fn of(catalog: &'a Catalog) -> Self {
        Self {
            registry: catalog.registry(),
            revision: catalog.revision(),
            chain: catalog.chain(),
            scope: catalog.scope(),
            content: catalog.content_digest(),
        }
    }

    /// Its second line is no number, which that of a checkpoint is.
    fn text(&self, time: Timestamp) -> String {
        let Self { registry, revision, chain, scope, content } = self;
        // A list of texts always is JSON, and has no line breaks in it.
        let scope = serde_json::to_string(scope).unwrap_or_default();
        format!(
            "registry/{registry}\nstate\nrevision {revision}\nchain {chain}\nscope {scope}\ncontent \
             {content}\ntime {time}\n"
        )
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        checkpoint::Checkpoint,
        commit::{ChainHash, RegistryId, Revision},
        scope::Scope,
    };

    fn pair(seed: u8) -> Ed25519KeyPair {
        Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap()
    }

    #[test]
    fn it_holds_for_the_state_that_was_signed_and_for_no_other() {
        let registry = RegistryId::new("0198c0de");
        let time = Timestamp::from_millis(1_795_300_000_123);
        let state = Catalog::empty(registry.clone());
        let attestation = Attestation::sign(&state, time, &pair(1));
        let key = Checkpoint::verifier_key(&registry, &pair(1));
        assert_eq!(attestation.verify(&state, &key), Ok(()));

        let elsewhere = Catalog::empty(RegistryId::new("another"));
        let later = state.at(Revision(1), state.chain());
        let forked = state.at(Revision(0), ChainHash::genesis(elsewhere.registry()));
        let scope = Scope::of_roots(&["team/*"]).unwrap();
        let part = state.clone().as_part(Arc::new(scope));
        for other in [&elsewhere, &later, &forked, &part] {
            assert!(attestation.verify(other, &key).is_err(), "{other:?}");
        }
        let delayed =
            Attestation { time: Timestamp::from_millis(1_795_300_000_124), ..attestation };
        assert!(delayed.verify(&state, &key).is_err());
        let theirs = Checkpoint::verifier_key(&registry, &pair(2));
        let refused = attestation.verify(&state, &theirs).unwrap_err().to_string();
        assert!(
            refused.starts_with("revision 0 of registry 0198c0de is not signed by "),
            "{refused}"
        );
        // A key that is known under another registry's name says nothing of this one.
        let shared = Checkpoint::verifier_key(elsewhere.registry(), &pair(1));
        assert!(attestation.verify(&state, &shared).is_err());
    }
}

//! Attestations: the registry's signature that a state was its latest one at a given time.
//!
//! The signed statement covers the registry, revision, chain hash, scope, content digest and
//! time. Each holder of the state can rebuild it, so a relay or a cache file cannot add, change or
//! omit anything. The signing key is the checkpoint key ([`crate::checkpoint`]); the two text
//! formats cannot be confused.

use crate::{
    chain::{ChainHash, RegistryId, Revision},
    checkpoint::VerifierKey,
    document::Digest,
    ed25519::{self, Ed25519KeyPair},
    scope::Scope,
    timestamp::Timestamp,
};

/// The registry's signature over a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attestation {
    /// When the state was the latest one.
    pub time: Timestamp,
    /// The Ed25519 signature.
    pub signature: [u8; 64],
}

/// The signature of an attestation does not match the state and key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "revision {revision} of registry {registry} is not signed by {key}: it was changed in transit or \
     on disk, or the registry signs with another key"
)]
pub struct AttestationMismatch {
    /// The registry that the state claims to belong to.
    registry: String,
    /// The revision of the state.
    revision: u64,
    /// The name of the expected signing key.
    key: String,
}

impl Attestation {
    /// Signs a state as the latest one at this time.
    pub(crate) fn sign_statement(
        statement: &Statement<'_>,
        time: Timestamp,
        pair: &Ed25519KeyPair,
    ) -> Self {
        let signature = ed25519::sign(pair, statement.text(time).as_bytes());
        Self { time, signature }
    }

    /// Whether this key signed this state.
    pub fn verify_statement(
        &self,
        statement: &Statement<'_>,
        key: &VerifierKey,
    ) -> Result<(), AttestationMismatch> {
        let text = statement.text(self.time);
        if key.is_of(statement.registry) && key.has_signed(text.as_bytes(), &self.signature) {
            return Ok(());
        }
        Err(AttestationMismatch {
            registry: statement.registry.to_string(),
            revision: statement.revision.0,
            key: key.to_string(),
        })
    }
}

/// The signed fields of a state.
#[derive(Debug, Clone, Copy)]
pub struct Statement<'a> {
    /// The registry that owns the state.
    pub registry: &'a RegistryId,
    /// The revision of the state.
    pub revision: Revision,
    /// The chain hash after that revision.
    pub chain: ChainHash,
    /// The subset of the registry that the state contains.
    pub scope: &'a Scope,
    /// The digest of its entities and settings.
    pub content: Digest,
}

impl Statement<'_> {
    /// The second line is not a number, unlike the second line of a checkpoint.
    fn text(&self, time: Timestamp) -> String {
        let Self { registry, revision, chain, scope, content } = self;
        // A list of strings always serializes to JSON without line breaks.
        let scope = serde_json::to_string(scope).unwrap_or_default();
        format!(
            "registry/{registry}\nstate\nrevision {revision}\nchain {chain}\nscope {scope}\ncontent \
             {content}\ntime {time}\n"
        )
    }
}

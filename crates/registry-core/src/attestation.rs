//! Attestations: the registry's signed word that a state is its latest one at a time.
//!
//! Signed is a text that whoever holds the state can make again: the registry, the revision, the
//! chain hash after it, the scope, the digest of the content, and the time. So neither a server in
//! between nor a file on disk can add, change or leave out anything. The key is that of checkpoints
//! ([`crate::checkpoint`]); no text is both.

use aws_lc_rs::signature::Ed25519KeyPair;

use crate::{
    chain::{ChainHash, RegistryId, Revision},
    checkpoint::VerifierKey,
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
    pub(crate) fn sign_statement(
        statement: &Statement<'_>,
        time: Timestamp,
        pair: &Ed25519KeyPair,
    ) -> Self {
        let signature = pair.sign(statement.text(time).as_bytes());
        let mut bytes = [0; 64];
        // Ed25519 signatures have 64 bytes (RFC 8032, section 5.1.6).
        bytes.copy_from_slice(signature.as_ref());
        Self { time, signature: bytes }
    }

    /// Whether this key signed this state.
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

impl Statement<'_> {
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

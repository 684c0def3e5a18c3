//! Converts positions, attestations and deltas.

use std::sync::Arc;

use bytes::Bytes;
use registry_core::{
    Action, Attestation, ChainHash, Change, Commit, Digest, Document, RegistryId, Revision,
    SealedCommit,
    chain::Position,
    commit::{InvalidCommit, UnverifiedCommit},
    document::{InvalidDigest, InvalidDocument},
    limits,
};

use super::time::{InvalidTime, read_timestamp, timestamp};
use crate::v1;

/// An invalid position.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPosition {
    /// The position is absent.
    #[error("the position is missing")]
    Missing,
    /// The registry id is absent.
    #[error("the position has no registry_id")]
    NoRegistry,
    /// A registry id that is too long.
    #[error("the registry id has {0} bytes, at most {limit} are allowed", limit = limits::REGISTRY_ID_BYTES)]
    LongRegistry(usize),
    /// An invalid chain hash.
    #[error("chain: {0}")]
    Chain(#[from] InvalidDigest),
}

impl From<&Position> for v1::LogPosition {
    fn from(Position { registry, revision, chain }: &Position) -> Self {
        Self { registry_id: registry.to_string(), revision: revision.0, chain: chain.to_string() }
    }
}

impl TryFrom<v1::LogPosition> for Position {
    type Error = InvalidPosition;

    fn try_from(position: v1::LogPosition) -> Result<Self, InvalidPosition> {
        let v1::LogPosition { registry_id, revision, chain } = position;
        if registry_id.is_empty() {
            return Err(InvalidPosition::NoRegistry);
        }
        if registry_id.len() > limits::REGISTRY_ID_BYTES {
            return Err(InvalidPosition::LongRegistry(registry_id.len()));
        }
        let registry = RegistryId::new(registry_id);
        Ok(Self { registry, revision: Revision(revision), chain: chain_hash(&chain)? })
    }
}

/// Reads the text of a chain hash.
pub fn chain_hash(text: &str) -> Result<ChainHash, InvalidPosition> {
    let digest = Digest::parse(text)?;
    Ok(ChainHash::from_bytes(*digest.as_bytes()))
}

impl From<&Position> for v1::Heartbeat {
    fn from(Position { registry: _, revision, chain }: &Position) -> Self {
        Self {
            revision: revision.0,
            chain: chain.to_string(),
            content_digest: String::new(),
            staleness: None,
        }
    }
}

/// An invalid attestation.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum InvalidAttestation {
    /// A signature of another length.
    #[error("a signature has 64 bytes, this one has {0}")]
    Signature(usize),
    /// An invalid time.
    #[error(transparent)]
    Time(#[from] InvalidTime),
    /// The time is absent.
    #[error("the time of the signature is missing")]
    NoTime,
}

impl From<&Attestation> for v1::Attestation {
    fn from(Attestation { time, signature }: &Attestation) -> Self {
        Self { time: Some(timestamp(*time)), signature: Bytes::copy_from_slice(signature) }
    }
}

impl TryFrom<v1::Attestation> for Attestation {
    type Error = InvalidAttestation;

    fn try_from(attestation: v1::Attestation) -> Result<Self, InvalidAttestation> {
        let v1::Attestation { time, signature } = attestation;
        let invalid = |_| InvalidAttestation::Signature(signature.len());
        let bytes = signature[..].try_into().map_err(invalid)?;
        let time = read_timestamp(time.ok_or(InvalidAttestation::NoTime)?)?;
        Ok(Self { time, signature: bytes })
    }
}

/// An invalid delta.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum InvalidDelta {
    /// An invalid chain hash.
    #[error(transparent)]
    Chain(#[from] InvalidPosition),
    /// The delta and its commit name different revisions.
    #[error("the delta of revision {claimed} carries the commit of revision {actual}")]
    Revision {
        /// The revision of the delta.
        claimed: Revision,
        /// The revision of the commit.
        actual: Revision,
    },
    /// The wrong number of documents.
    #[error("revision {revision} registers {registered} entities and comes with {sent} documents")]
    Documents {
        /// The revision.
        revision: Revision,
        /// The number of registrations.
        registered: usize,
        /// The number of documents.
        sent: usize,
    },
    /// A document does not match its digest in the commit.
    #[error("invalid document of {key}: {source}")]
    Document {
        /// The entity.
        key: registry_core::Key,
        /// The problem.
        source: Box<InvalidDocument>,
    },
    /// The commit is invalid or does not extend the chain.
    #[error(transparent)]
    Commit(#[from] InvalidCommit),
}

impl From<&SealedCommit> for v1::Delta {
    fn from(sealed: &SealedCommit) -> Self {
        Self {
            revision: sealed.revision().0,
            commit: sealed.bytes().clone(),
            chain: sealed.chain().to_string(),
            documents: sealed.documents().iter().map(|d| d.bytes().clone()).collect(),
        }
    }
}

/// Reads a delta and verifies it: the commit extends the chain after `previous`, and each document has its digest
/// in the commit.
pub fn sealed_commit(previous: &ChainHash, delta: v1::Delta) -> Result<SealedCommit, InvalidDelta> {
    let v1::Delta { revision, commit: bytes, chain, documents } = delta;
    let chain = chain_hash(&chain)?;
    let parsed = UnverifiedCommit::parse(bytes)?;
    let (claimed, actual) = (Revision(revision), parsed.commit().revision);
    if claimed != actual {
        return Err(InvalidDelta::Revision { claimed, actual });
    }
    let documents = read_documents(parsed.commit(), documents)?;
    Ok(parsed.verify(previous, chain, documents)?)
}

fn read_documents(commit: &Commit, sent: Vec<Bytes>) -> Result<Vec<Arc<Document>>, InvalidDelta> {
    let named: Vec<_> = commit
        .changes
        .iter()
        .filter_map(|Change { key, action }| match action {
            Action::Register { digest, .. } => Some((key, *digest)),
            Action::Deprecate(_) | Action::Retire(_) | Action::Restore => None,
        })
        .collect();
    if named.len() != sent.len() {
        let (registered, sent) = (named.len(), sent.len());
        return Err(InvalidDelta::Documents { revision: commit.revision, registered, sent });
    }
    let verify = |((key, digest), bytes): ((&registry_core::Key, _), _)| {
        Document::verify(key.kind, bytes, digest)
            .map(Arc::new)
            .map_err(|e| InvalidDelta::Document { key: key.clone(), source: Box::new(e) })
    };
    named.into_iter().zip(sent).map(verify).collect()
}

//! The parts of the Sync stream that carry proof: positions and deltas.

use std::sync::Arc;

use bytes::Bytes;
use registry_core::{
    Action, Attestation, ChainHash, Change, Commit, Document, RegistryId, Revision, SealedCommit,
    chain::Position, commit::InvalidCommit, document::InvalidDocument, limits,
};

use super::time::{InvalidTime, read_millis};
use crate::v1;

/// Why a message is not a position.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPosition {
    /// The position was left out.
    #[error("the position is missing")]
    Missing,
    /// No registry id.
    #[error("the position does not say of which registry it is")]
    NoRegistry,
    /// A registry id that no registry has.
    #[error("the registry id has {0} bytes, at most {limit} are allowed", limit = limits::REGISTRY_ID_BYTES)]
    LongRegistry(usize),
    /// A chain hash of another length.
    #[error("a chain hash has 32 bytes, this one has {0}")]
    Chain(usize),
}

impl From<&Position> for v1::Position {
    fn from(Position { registry, revision, chain }: &Position) -> Self {
        Self { registry_id: registry.to_string(), revision: revision.0, chain: chain_bytes(chain) }
    }
}

impl TryFrom<v1::Position> for Position {
    type Error = InvalidPosition;

    fn try_from(position: v1::Position) -> Result<Self, InvalidPosition> {
        let v1::Position { registry_id, revision, chain } = position;
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

/// Reads the 32 bytes of a chain hash.
pub fn chain_hash(bytes: &[u8]) -> Result<ChainHash, InvalidPosition> {
    let bytes = bytes.try_into().map_err(|_| InvalidPosition::Chain(bytes.len()))?;
    Ok(ChainHash::from_bytes(bytes))
}

fn chain_bytes(chain: &ChainHash) -> Bytes {
    Bytes::copy_from_slice(chain.as_bytes())
}

/// Nothing new up to here, as the server says it.
impl From<&Position> for v1::Progress {
    fn from(Position { registry: _, revision, chain }: &Position) -> Self {
        let (chain, content) = (chain_bytes(chain), Bytes::new());
        Self { revision: revision.0, chain, content, age_ms: 0 }
    }
}

/// An attestation whose signature has another length, or whose time is none.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum InvalidAttestation {
    /// The signature.
    #[error("a signature has 64 bytes, this one has {0}")]
    Signature(usize),
    /// The time.
    #[error(transparent)]
    Time(#[from] InvalidTime),
}

impl From<&Attestation> for v1::Attestation {
    fn from(Attestation { time, signature }: &Attestation) -> Self {
        Self { time_ms: time.as_millis(), signature: Bytes::copy_from_slice(signature) }
    }
}

impl TryFrom<v1::Attestation> for Attestation {
    type Error = InvalidAttestation;

    fn try_from(attestation: v1::Attestation) -> Result<Self, InvalidAttestation> {
        let v1::Attestation { time_ms, signature } = attestation;
        let invalid = |_| InvalidAttestation::Signature(signature.len());
        let bytes = signature[..].try_into().map_err(invalid)?;
        Ok(Self { time: read_millis(time_ms)?, signature: bytes })
    }
}

/// Why a delta is not the next commit.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum InvalidDelta {
    /// The chain hash cannot be read.
    #[error(transparent)]
    Chain(#[from] InvalidPosition),
    /// The delta and its commit name different revisions.
    #[error("the delta of revision {claimed} carries the commit of revision {actual}")]
    Revision {
        /// What the delta says.
        claimed: Revision,
        /// What its commit says.
        actual: Revision,
    },
    /// Too many or too few documents.
    #[error("revision {revision} registers {registered} entities and comes with {sent} documents")]
    Documents {
        /// Of which revision.
        revision: Revision,
        /// How many it registers.
        registered: usize,
        /// How many documents came.
        sent: usize,
    },
    /// A document is not the one that the commit names.
    #[error("the document of {key} cannot be used: {source}")]
    Document {
        /// Of which entity.
        key: registry_core::Key,
        /// What is wrong with it.
        source: Box<InvalidDocument>,
    },
    /// The commit cannot be read, or does not continue the chain.
    #[error(transparent)]
    Commit(#[from] InvalidCommit),
}

impl From<&SealedCommit> for v1::Delta {
    fn from(sealed: &SealedCommit) -> Self {
        Self {
            revision: sealed.revision().0,
            commit: sealed.bytes().clone(),
            chain: chain_bytes(&sealed.chain()),
            documents: sealed.documents().iter().map(|d| d.bytes().clone()).collect(),
        }
    }
}

/// Reads a delta and proves it: the commit continues the chain after `previous`, and each document
/// has the digest that the commit names.
pub fn sealed_commit(previous: &ChainHash, delta: v1::Delta) -> Result<SealedCommit, InvalidDelta> {
    let v1::Delta { revision, commit: bytes, chain, documents } = delta;
    let chain = chain_hash(&chain)?;
    let commit = SealedCommit::parse(&bytes)?;
    let claimed = Revision(revision);
    if claimed != commit.revision {
        return Err(InvalidDelta::Revision { claimed, actual: commit.revision });
    }
    let documents = read_documents(&commit, documents)?;
    Ok(SealedCommit::verify(previous, bytes, chain, documents)?)
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

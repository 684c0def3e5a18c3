//! The entities of a snapshot, each proven by its digest.

use std::sync::Arc;

use bytes::Bytes;
use registry_core::{Digest, Document, Record, Revision, document::InvalidDocument};

use super::{
    key::{InvalidKind, kind},
    lifecycle::{self, InvalidLifecycle},
    time::{InvalidTime, read_millis},
};
use crate::v1;

/// A digest of another length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a digest has 32 bytes, this one has {0}")]
pub struct InvalidDigest(usize);

/// Reads the 32 bytes of a digest.
pub fn digest(bytes: &[u8]) -> Result<Digest, InvalidDigest> {
    let bytes = bytes.try_into().map_err(|_| InvalidDigest(bytes.len()))?;
    Ok(Digest::from_bytes(bytes))
}

/// Why a message is not an entity of a snapshot.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum InvalidSnapshotEntity {
    /// Its kind.
    #[error(transparent)]
    Kind(#[from] InvalidKind),
    /// Its digest.
    #[error(transparent)]
    Digest(#[from] InvalidDigest),
    /// The document is not the one that the digest names.
    #[error(transparent)]
    Document(#[from] InvalidDocument),
    /// The time of registration.
    #[error(transparent)]
    Time(#[from] InvalidTime),
    /// Its lifecycle.
    #[error(transparent)]
    Lifecycle(#[from] InvalidLifecycle),
}

impl From<&Record> for v1::SnapshotEntity {
    fn from(record: &Record) -> Self {
        let Record { document, owner, registered, registered_at, lifecycle } = record;
        Self {
            kind: v1::Kind::from(document.key().kind).into(),
            document: document.bytes().clone(),
            digest: Bytes::copy_from_slice(document.digest().as_bytes()),
            owner: owner.to_string(),
            registered_revision: registered.0,
            registered_at_ms: registered_at.as_millis(),
            lifecycle: Some(lifecycle.into()),
        }
    }
}

impl TryFrom<v1::SnapshotEntity> for Record {
    type Error = InvalidSnapshotEntity;

    fn try_from(entity: v1::SnapshotEntity) -> Result<Self, InvalidSnapshotEntity> {
        let v1::SnapshotEntity {
            kind: number,
            document,
            digest,
            owner,
            registered_revision,
            registered_at_ms,
            lifecycle,
        } = entity;
        let digest = self::digest(&digest)?;
        let document = Document::verify(kind(number)?, document, digest)?;
        Ok(Self {
            document: Arc::new(document),
            owner: owner.into(),
            registered: Revision(registered_revision),
            registered_at: read_millis(registered_at_ms)?,
            lifecycle: lifecycle::required(lifecycle)?,
        })
    }
}

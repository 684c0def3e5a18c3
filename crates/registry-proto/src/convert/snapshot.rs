//! Converts the entities of a snapshot, and verifies them by their digests.

use std::sync::Arc;

use registry_core::{
    Digest, Document, Record, Revision,
    document::{InvalidDigest, InvalidDocument},
};

use super::{
    key::{InvalidKind, kind},
    lifecycle::{self, InvalidLifecycle},
    time::{InvalidTime, read_timestamp, timestamp},
};
use crate::v1;

/// An invalid entity of a snapshot.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum InvalidSnapshotEntity {
    /// An invalid kind.
    #[error(transparent)]
    Kind(#[from] InvalidKind),
    /// An invalid digest.
    #[error(transparent)]
    Digest(#[from] InvalidDigest),
    /// The document does not match the digest.
    #[error(transparent)]
    Document(#[from] InvalidDocument),
    /// The time of registration is absent.
    #[error("the time of registration is missing")]
    NoTime,
    /// An invalid time of registration.
    #[error(transparent)]
    Time(#[from] InvalidTime),
    /// An invalid lifecycle.
    #[error(transparent)]
    Lifecycle(#[from] InvalidLifecycle),
}

impl From<&Record> for v1::SnapshotEntity {
    fn from(record: &Record) -> Self {
        let Record { document, owner, registered, registered_at, lifecycle } = record;
        Self {
            kind: v1::EntityKind::from(document.key().kind).into(),
            document: document.bytes().clone(),
            digest: document.digest().to_string(),
            owner: owner.to_string(),
            registered_revision: registered.0,
            register_time: Some(timestamp(*registered_at)),
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
            register_time,
            lifecycle,
        } = entity;
        let digest = Digest::parse(&digest)?;
        let document = Document::verify(kind(number)?, document, digest)?;
        Ok(Self {
            document: Arc::new(document),
            owner: owner.into(),
            registered: Revision(registered_revision),
            registered_at: read_timestamp(register_time.ok_or(InvalidSnapshotEntity::NoTime)?)?,
            lifecycle: lifecycle::required(lifecycle)?,
        })
    }
}

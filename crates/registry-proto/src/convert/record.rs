//! Entities as the registry keeps them.

use std::sync::Arc;

use registry_core::{
    Catalog, Digest, Document, Record, Revision,
    document::{InvalidDigest, InvalidDocument},
};

use super::{
    key::{self, InvalidEntityKey},
    lifecycle::{self, InvalidLifecycle},
    time::{InvalidTime, read_timestamp, timestamp},
};
use crate::v1;

/// Why a message is not a record.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum InvalidRecord {
    /// Its key.
    #[error(transparent)]
    Key(#[from] InvalidEntityKey),
    /// Its digest.
    #[error(transparent)]
    Digest(#[from] InvalidDigest),
    /// The canonical document was not asked for, or not sent.
    #[error("the record of {0} comes without its canonical document")]
    NoDocument(registry_core::Key),
    /// The document is not the one that the digest names.
    #[error(transparent)]
    Document(#[from] InvalidDocument),
    /// The document is another entity's.
    #[error("the record of {key} comes with the document of {actual}")]
    OtherEntity {
        /// The record's key.
        key: registry_core::Key,
        /// The document's key.
        actual: registry_core::Key,
    },
    /// The time of registration was left out.
    #[error("the time of registration is missing")]
    NoTime,
    /// The time of registration.
    #[error(transparent)]
    Time(#[from] InvalidTime),
    /// Its lifecycle.
    #[error(transparent)]
    Lifecycle(#[from] InvalidLifecycle),
}

/// Without the canonical document.
impl From<&Record> for v1::EntityRecord {
    fn from(record: &Record) -> Self {
        Self { entity: Some(record.document.entity().into()), ..outline(record) }
    }
}

/// Without any form of its content.
fn outline(record: &Record) -> v1::EntityRecord {
    let Record { document, owner, registered, registered_at, lifecycle } = record;
    v1::EntityRecord {
        key: Some(document.key().into()),
        entity: None,
        digest: document.digest().to_string(),
        owner: owner.to_string(),
        registered_revision: registered.0,
        registered_at: Some(timestamp(*registered_at)),
        lifecycle: Some(lifecycle.into()),
        document: None,
    }
}

/// A record as a catalog has it: with the present owner of its name, and without its document.
pub fn record_of(catalog: &Catalog, record: &Record) -> v1::EntityRecord {
    v1::EntityRecord { owner: catalog.owner_of(record).to_owned(), ..record.into() }
}

/// The same without its typed form.
pub fn outline_of(catalog: &Catalog, record: &Record) -> v1::EntityRecord {
    v1::EntityRecord { owner: catalog.owner_of(record).to_owned(), ..outline(record) }
}

/// A record with its canonical document.
pub fn record_with_document(record: &Record) -> v1::EntityRecord {
    v1::EntityRecord { document: Some(record.document.bytes().clone()), ..record.into() }
}

/// Reads a record that came with its canonical document, and proves the document by the digest.
impl TryFrom<v1::EntityRecord> for Record {
    type Error = InvalidRecord;

    fn try_from(record: v1::EntityRecord) -> Result<Self, InvalidRecord> {
        let v1::EntityRecord {
            key,
            entity: _, // the typed form of the document below
            digest,
            owner,
            registered_revision,
            registered_at,
            lifecycle,
            document,
        } = record;
        let key = key::required(key)?;
        let Some(bytes) = document else { return Err(InvalidRecord::NoDocument(key)) };
        let document = Document::verify(key.kind, bytes, Digest::parse(&digest)?)?;
        if *document.key() != key {
            return Err(InvalidRecord::OtherEntity { key, actual: document.key().clone() });
        }
        Ok(Self {
            document: Arc::new(document),
            owner: owner.into(),
            registered: Revision(registered_revision),
            registered_at: read_timestamp(registered_at.ok_or(InvalidRecord::NoTime)?)?,
            lifecycle: lifecycle::required(lifecycle)?,
        })
    }
}

//! Converts records of entities.

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

/// An invalid record.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum InvalidRecord {
    /// An invalid key.
    #[error(transparent)]
    Key(#[from] InvalidEntityKey),
    /// An invalid digest.
    #[error(transparent)]
    Digest(#[from] InvalidDigest),
    /// The canonical document is absent.
    #[error("the record of {0} has no canonical document")]
    NoDocument(registry_core::Key),
    /// The document does not match the digest.
    #[error(transparent)]
    Document(#[from] InvalidDocument),
    /// The document has another key.
    #[error("the record of {key} has the document of {actual}")]
    OtherEntity {
        /// The record's key.
        key: registry_core::Key,
        /// The document's key.
        actual: registry_core::Key,
    },
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

/// Without the canonical document.
impl From<&Record> for v1::EntityRecord {
    fn from(record: &Record) -> Self {
        Self { entity: Some(record.document.entity().into()), ..outline(record) }
    }
}

fn outline(record: &Record) -> v1::EntityRecord {
    let Record { document, owner, registered, registered_at, lifecycle } = record;
    v1::EntityRecord {
        key: Some(document.key().into()),
        entity: None,
        digest: document.digest().to_string(),
        owner: owner.to_string(),
        registered_revision: registered.0,
        register_time: Some(timestamp(*registered_at)),
        lifecycle: Some(lifecycle.into()),
        document: None,
    }
}

/// Writes a record with the current owner of its name and without its document.
pub fn record_of(catalog: &Catalog, record: &Record) -> v1::EntityRecord {
    v1::EntityRecord { owner: catalog.owner_of(record).to_owned(), ..record.into() }
}

/// Writes the same without the typed message.
pub fn outline_of(catalog: &Catalog, record: &Record) -> v1::EntityRecord {
    v1::EntityRecord { owner: catalog.owner_of(record).to_owned(), ..outline(record) }
}

/// Writes a record with its canonical document.
pub fn record_with_document(record: &Record) -> v1::EntityRecord {
    v1::EntityRecord { document: Some(record.document.bytes().clone()), ..record.into() }
}

/// Reads a record with its canonical document, and verifies the document by its digest.
impl TryFrom<v1::EntityRecord> for Record {
    type Error = InvalidRecord;

    fn try_from(record: v1::EntityRecord) -> Result<Self, InvalidRecord> {
        let v1::EntityRecord {
            key,
            entity: _, // the typed form of the document below
            digest,
            owner,
            registered_revision,
            register_time,
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
            registered_at: read_timestamp(register_time.ok_or(InvalidRecord::NoTime)?)?,
            lifecycle: lifecycle::required(lifecycle)?,
        })
    }
}

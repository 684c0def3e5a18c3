//! Parsing and verification of exports. No part of an export is used before all of it is verified.

use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{attestation::WrittenAttestation, record::WrittenRecord, unmarked};
use crate::{
    attestation::Attestation,
    catalog::{Catalog, Record},
    chain::{ChainHash, RegistryId, Revision},
    document::{Digest, Document, InvalidDocument},
    kind::Kind,
    lifecycle::InvalidLifecycleState,
    parallel,
    reference::{InvalidKey, Key},
    scope::Scope,
    setting::{Selector, SelectorSettings, Settings},
};

/// An export is incomplete or modified.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum InvalidExport {
    /// It is not JSON or not an export.
    #[error("cannot parse the export: {0}")]
    Unreadable(String),
    /// The schema version is not supported.
    #[error("the export has the schema version `{0}`; this program reads 2.0")]
    SchemaVersion(String),
    /// The numbers of documents and records differ.
    #[error("the export has {documents} documents, but {records} records")]
    Incomplete {
        /// The number of documents.
        documents: usize,
        /// The number of records.
        records: usize,
    },
    /// The key of a record is invalid.
    #[error("record {index} of the export has an invalid key: {reason}")]
    Key {
        /// The index of the record, starting at 0.
        index: usize,
        /// The reason.
        #[source]
        reason: InvalidKey,
    },
    /// The lifecycle state of a record is unknown.
    #[error("the export has an invalid lifecycle of {key}: {reason}")]
    Lifecycle {
        /// The key of the entity.
        key: Box<Key>,
        /// The reason.
        #[source]
        reason: InvalidLifecycleState,
    },
    /// A document does not match its digest.
    #[error("the export has an invalid document of {key}: {reason}")]
    Document {
        /// The key of the entity.
        key: Box<Key>,
        /// The reason.
        #[source]
        reason: InvalidDocument,
    },
    /// A document is out of order or belongs to another entity than its record.
    #[error("the export has {actual} in place of {expected}")]
    Misplaced {
        /// The key in the record.
        expected: Box<Key>,
        /// The key of the document.
        actual: Box<Key>,
    },
    /// The signature is not 64 bytes in base64.
    #[error("the signature of the export is not 64 bytes in base64")]
    Signature,
    /// The digest of the whole does not match.
    #[error(
        "digest mismatch in the export of registry {registry}: computed {actual}, expected {expected}"
    )]
    Digest {
        /// The registry's id.
        registry: RegistryId,
        /// The digest in the file.
        expected: Digest,
        /// The digest of the content.
        actual: Digest,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct File<'a> {
    schema_version: String,
    registry: RegistryId,
    revision: Revision,
    chain: ChainHash,
    digest: Digest,
    #[serde(borrow)]
    schemas: Vec<&'a RawValue>,
    #[serde(borrow)]
    servers: Vec<&'a RawValue>,
    #[serde(borrow)]
    tools: Vec<&'a RawValue>,
    #[serde(borrow)]
    agents: Vec<&'a RawValue>,
    /// Absent without policies.
    #[serde(borrow, default)]
    policies: Vec<&'a RawValue>,
    #[serde(borrow)]
    records: Vec<WrittenRecord<'a>>,
    /// Absent for a complete catalog.
    #[serde(default)]
    scope: Arc<Scope>,
    /// Absent if it was not signed.
    attestation: Option<WrittenAttestation>,
    /// Absent if nothing was ever set.
    #[serde(default)]
    settings: Vec<WrittenSet>,
}

#[derive(Deserialize)]
struct WrittenSet {
    target: Selector,
    #[serde(flatten)]
    set: SelectorSettings,
}

/// Restores the catalog of an export and verifies each document and the whole.
pub fn read_export(bytes: &[u8]) -> Result<Catalog, InvalidExport> {
    let file: File<'_> =
        serde_json::from_slice(bytes).map_err(|e| InvalidExport::Unreadable(e.to_string()))?;
    if file.schema_version != "2.0" {
        return Err(InvalidExport::SchemaVersion(file.schema_version.chars().take(40).collect()));
    }
    let kinds = [&file.schemas, &file.servers, &file.tools, &file.agents, &file.policies];
    let documents: Vec<(Kind, &RawValue)> = Kind::ALL
        .into_iter()
        .zip(kinds)
        .flat_map(|(kind, list)| list.iter().map(move |raw| (kind, *raw)))
        .collect();
    if documents.len() != file.records.len() {
        let (documents, records) = (documents.len(), file.records.len());
        return Err(InvalidExport::Incomplete { documents, records });
    }
    let records = prove_all(documents, &file.records)?;
    let settings = Settings::restore(file.settings.into_iter().map(|s| (s.target, s.set)));
    let catalog =
        Catalog::restore(file.registry, file.revision, file.chain, records).with_settings(settings);
    let attestation = file.attestation.map(Attestation::try_from).transpose()?;
    let catalog = catalog.with_scope(file.scope).with_attestation(attestation);
    proved(catalog, file.digest, file.records.len())
}

/// Verifies the documents on all cores, because a starting gateway waits for it.
fn prove_all(
    documents: Vec<(Kind, &RawValue)>,
    records: &[WrittenRecord<'_>],
) -> Result<Vec<Record>, InvalidExport> {
    let written: Vec<_> = documents.into_iter().zip(records).enumerate().collect();
    let prove = |(i, ((kind, raw), written))| record(i, kind, raw, written);
    parallel::map(written, prove).into_iter().collect()
}

fn proved(catalog: Catalog, expected: Digest, records: usize) -> Result<Catalog, InvalidExport> {
    if catalog.len() != records {
        return Err(InvalidExport::Incomplete { documents: catalog.len(), records });
    }
    let actual = catalog.digest();
    if actual != expected {
        let registry = catalog.registry().clone();
        return Err(InvalidExport::Digest { registry, expected, actual });
    }
    Ok(catalog)
}

fn record(
    index: usize,
    kind: Kind,
    raw: &RawValue,
    written: &WrittenRecord<'_>,
) -> Result<Record, InvalidExport> {
    let key = written.key.parse::<Key>();
    let key = Box::new(key.map_err(|reason| InvalidExport::Key { index, reason })?);
    let lifecycle = written
        .lifecycle()
        .map_err(|reason| InvalidExport::Lifecycle { key: key.clone(), reason })?;
    let bytes = Bytes::copy_from_slice(unmarked(raw.get(), &lifecycle).as_bytes());
    let document = Document::verify(kind, bytes, written.digest)
        .map_err(|reason| InvalidExport::Document { key: key.clone(), reason })?;
    if *document.key() != *key {
        let actual = Box::new(document.key().clone());
        return Err(InvalidExport::Misplaced { expected: key, actual });
    }
    Ok(Record {
        document: Arc::new(document),
        owner: written.owner.as_ref().into(),
        registered: written.registered,
        registered_at: written.registered_at,
        lifecycle,
    })
}

#[cfg(test)]
mod tests;

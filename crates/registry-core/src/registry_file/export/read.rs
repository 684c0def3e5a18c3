//! Reading a verified copy: nothing of it is used before all of it is proved.

use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{attestation::WrittenAttestation, record::WrittenRecord};
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
    setting::{Selector, Set, Settings},
};

/// Why bytes are not a whole and unchanged copy of a registry.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum InvalidExport {
    /// Not JSON, or not of the form of an export.
    #[error("the copy cannot be read: {0}")]
    Unreadable(String),
    /// Of another version.
    #[error("the copy has the schema version `{0}`, this program reads 2.0")]
    SchemaVersion(String),
    /// Documents and records do not belong together.
    #[error("the copy has {documents} documents, but {records} records")]
    Incomplete {
        /// How many documents there are.
        documents: usize,
        /// How many records.
        records: usize,
    },
    /// A record whose key cannot be read.
    #[error("record {index} of the copy has no key: {reason}")]
    Key {
        /// Which record, from 0.
        index: usize,
        /// Why not.
        #[source]
        reason: InvalidKey,
    },
    /// A record with another lifecycle state.
    #[error("the lifecycle of {key} cannot be read: {reason}")]
    Lifecycle {
        /// The entity.
        key: Box<Key>,
        /// Why not.
        #[source]
        reason: InvalidLifecycleState,
    },
    /// A document that is not what its digest says.
    #[error("the document of {key} is damaged: {reason}")]
    Document {
        /// The entity.
        key: Box<Key>,
        /// What is wrong.
        #[source]
        reason: InvalidDocument,
    },
    /// A document of another entity than its record's, or out of order.
    #[error("the copy has {actual} where {expected} belongs")]
    Misplaced {
        /// What the record says.
        expected: Box<Key>,
        /// What is there.
        actual: Box<Key>,
    },
    /// A signature of another form.
    #[error("the signature of the copy is not the base64 text of 64 bytes")]
    Signature,
    /// The whole does not have the digest that it claims.
    #[error("the copy of registry {registry} has the digest {actual}, not {expected}")]
    Digest {
        /// Which registry.
        registry: RegistryId,
        /// What the file claims.
        expected: Digest,
        /// What its content gives.
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
    #[serde(borrow)]
    records: Vec<WrittenRecord<'a>>,
    /// Absent: everything.
    #[serde(default)]
    scope: Arc<Scope>,
    /// Absent: it was not signed.
    attestation: Option<WrittenAttestation>,
    /// Absent: nothing was ever set.
    #[serde(default)]
    settings: Vec<WrittenSet>,
}

#[derive(Deserialize)]
struct WrittenSet {
    on: Selector,
    #[serde(flatten)]
    set: Set,
}

/// Rebuilds the catalog of an export and proves every document and the whole.
pub fn read_export(bytes: &[u8]) -> Result<Catalog, InvalidExport> {
    let file: File<'_> =
        serde_json::from_slice(bytes).map_err(|e| InvalidExport::Unreadable(e.to_string()))?;
    if file.schema_version != "2.0" {
        return Err(InvalidExport::SchemaVersion(file.schema_version.chars().take(40).collect()));
    }
    let kinds = [&file.schemas, &file.servers, &file.tools, &file.agents];
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
    let settings = Settings::restore(file.settings.into_iter().map(|s| (s.on, s.set)));
    let catalog =
        Catalog::restore(file.registry, file.revision, file.chain, records).with_settings(settings);
    let attestation = file.attestation.map(Attestation::try_from).transpose()?;
    let catalog = catalog.as_part(file.scope).attested(attestation);
    proved(catalog, file.digest, file.records.len())
}

/// Proves each document, on all cores: a gateway waits for it when it starts.
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
    let bytes = Bytes::copy_from_slice(raw.get().as_bytes());
    let document = Document::verify(kind, bytes, written.digest)
        .map_err(|reason| InvalidExport::Document { key: key.clone(), reason })?;
    if *document.key() != *key {
        let actual = Box::new(document.key().clone());
        return Err(InvalidExport::Misplaced { expected: key, actual });
    }
    let lifecycle =
        written.lifecycle().map_err(|reason| InvalidExport::Lifecycle { key, reason })?;
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

//! Snapshots: the catalog at one revision, with its digest, in bounded chunks.
//!
//! Deliberately absent: copies; a snapshot shares everything with the catalog it was taken from.

use std::sync::Arc;

use registry_core::{Catalog, Digest, Key, Record, Revision, Settings};
use registry_proto::convert::Position;

const CHUNK_ENTITIES: usize = 512;
const CHUNK_BYTES: usize = 256 * 1024;

#[derive(Debug)]
pub(super) struct Snapshot {
    catalog: Arc<Catalog>,
    digest: Digest,
}

impl Snapshot {
    /// Computes the digest beside the runtime: it looks at every entity.
    pub(super) async fn of(catalog: Arc<Catalog>) -> Self {
        let source = catalog.clone();
        let digest = match tokio::task::spawn_blocking(move || source.digest()).await {
            Ok(digest) => digest,
            // Only a runtime that is going down refuses; then nobody reads this either.
            Err(_) => catalog.digest(),
        };
        Self { catalog, digest }
    }

    pub(super) fn revision(&self) -> Revision {
        self.catalog.revision()
    }

    pub(super) fn position(&self) -> Position {
        Position::of(&self.catalog)
    }

    pub(super) fn settings(&self) -> &Settings {
        self.catalog.settings()
    }

    pub(super) fn len(&self) -> usize {
        self.catalog.len()
    }

    pub(super) fn digest(&self) -> Digest {
        self.digest
    }

    /// The entities after a key, as many as go into one message; none at the end.
    pub(super) fn chunk(&self, after: Option<&Key>) -> Vec<Arc<Record>> {
        match after {
            Some(key) => fill(self.catalog.after(key).map(|(_, record)| record)),
            None => fill(self.catalog.iter().map(|(_, record)| record)),
        }
    }
}

fn fill<'a>(records: impl Iterator<Item = &'a Arc<Record>>) -> Vec<Arc<Record>> {
    let mut bytes = 0;
    records
        .take(CHUNK_ENTITIES)
        .take_while(|record| {
            let fits = bytes < CHUNK_BYTES;
            bytes += record.document.bytes().len();
            fits
        })
        .cloned()
        .collect()
}

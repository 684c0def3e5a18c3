//! Snapshots: the catalog at one revision, with its digest, in bounded chunks.
//!
//! Deliberately absent: copies; a snapshot shares everything with the catalog it was taken from.

use std::sync::Arc;

use registry_core::{Catalog, Digest, Key, Record, Revision, Selector, setting::Set};
use registry_proto::convert::Position;

const CHUNK_ENTITIES: usize = 512;
/// Each takes less than a KiB.
const CHUNK_SETTINGS: usize = 512;
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

    pub(super) fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    pub(super) fn digest(&self) -> Digest {
        self.digest
    }

    /// The entities after a key, as many as go into one message; none at the end.
    pub(super) fn chunk(&self, after: Option<&Key>) -> Vec<Arc<Record>> {
        fill(self.catalog.after(after).map(|(_, record)| record))
    }

    /// The settings after a selector, as many as go into one message; none at the end.
    pub(super) fn settings(&self, after: Option<&Selector>) -> Vec<(Selector, Set)> {
        let rest = self.catalog.settings().after(after);
        rest.take(CHUNK_SETTINGS).map(|(on, set)| (on.clone(), set.clone())).collect()
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

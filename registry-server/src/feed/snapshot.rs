//! Snapshots: the catalog at one revision with its digest, split into chunks.
//!
//! A snapshot shares its data with the catalog. Encoded chunks are copies; the last stream that uses them
//! drops them.

use std::sync::{Arc, Weak};

use registry_core::{
    Attestation, Catalog, ChainHash, Digest, Record, Revision, Scope, Selector, chain::Position,
    setting::SelectorSettings,
};
use tokio::sync::Mutex;

use super::{SharedMessage, scopes::run_blocking};

const CHUNK_ENTITIES: usize = 512;
/// A setting takes less than 1 KiB.
const CHUNK_SETTINGS: usize = 512;
const CHUNK_BYTES: usize = 256 * 1024;

/// A message of a snapshot.
#[derive(Debug)]
pub enum SnapshotChunk {
    /// Start of the snapshot.
    Begin {
        /// Position of the state.
        position: Position,
        /// Scope of the state.
        scope: Arc<Scope>,
        /// Number of entities.
        entities: usize,
        /// Number of settings.
        settings: usize,
        /// Oldest retained revision, if the snapshot replaces commits that are no longer retained.
        compacted: Option<Revision>,
    },
    /// Entities, in order.
    Entities(Vec<Arc<Record>>),
    /// Settings, after the entities.
    Settings(Vec<(Selector, SelectorSettings)>),
    /// End, with the digest of the catalog and its signature.
    End(Digest, Option<Attestation>),
}

/// All messages of a snapshot, in order.
pub(super) type SnapshotChunks = Vec<Arc<SharedMessage<SnapshotChunk>>>;

#[derive(Debug)]
pub(super) struct Snapshot {
    catalog: Arc<Catalog>,
    digest: Digest,
    chunks: Mutex<Weak<SnapshotChunks>>,
}

impl Snapshot {
    /// Takes a snapshot. Computes the digest on the blocking pool, because it covers every entity.
    pub(super) async fn take(catalog: Arc<Catalog>) -> Self {
        let source = catalog.clone();
        let digest = run_blocking(move || source.digest()).await;
        Self { catalog, digest, chunks: Mutex::default() }
    }

    pub(super) fn revision(&self) -> Revision {
        self.catalog.revision()
    }

    /// Whether the state is signed. A relay may lack the signature.
    pub(super) fn is_attested(&self) -> bool {
        self.catalog.attestation().is_some()
    }

    /// Position of a follower after the snapshot.
    pub(super) fn position(&self) -> (Revision, ChainHash) {
        (self.catalog.revision(), self.catalog.chain())
    }

    /// First message for a follower that needs commits that are no longer retained.
    pub(super) fn begin_compacted(&self, oldest: Revision) -> SnapshotChunk {
        begin(&self.catalog, Some(oldest))
    }

    /// All messages, shared by concurrent streams.
    pub(super) async fn chunks(&self) -> Arc<SnapshotChunks> {
        let mut cached = self.chunks.lock().await;
        if let Some(chunks) = cached.upgrade() {
            return chunks;
        }
        let (catalog, digest) = (self.catalog.clone(), self.digest);
        let chunks = Arc::new(run_blocking(move || split(&catalog, digest)).await);
        *cached = Arc::downgrade(&chunks);
        chunks
    }
}

fn split(catalog: &Catalog, digest: Digest) -> SnapshotChunks {
    let mut chunks = vec![begin(catalog, None)];
    let mut records = catalog.after(None).map(|(_, record)| record.clone()).peekable();
    while records.peek().is_some() {
        chunks.push(SnapshotChunk::Entities(fill(&mut records)));
    }
    let mut settings = catalog.settings().after(None).peekable();
    while settings.peek().is_some() {
        let some = settings.by_ref().take(CHUNK_SETTINGS);
        chunks.push(SnapshotChunk::Settings(
            some.map(|(target, set)| (target.clone(), set.clone())).collect(),
        ));
    }
    chunks.push(SnapshotChunk::End(digest, catalog.attestation().copied()));
    chunks.into_iter().map(SharedMessage::new).collect()
}

fn begin(catalog: &Catalog, compacted: Option<Revision>) -> SnapshotChunk {
    SnapshotChunk::Begin {
        position: Position::of_catalog(catalog),
        scope: catalog.scope().clone(),
        entities: catalog.len(),
        settings: catalog.settings().len(),
        compacted,
    }
}

/// Takes the records of one chunk, at least one.
fn fill(records: &mut impl Iterator<Item = Arc<Record>>) -> Vec<Arc<Record>> {
    let (mut chunk, mut bytes) = (Vec::new(), 0);
    while chunk.len() < CHUNK_ENTITIES
        && bytes < CHUNK_BYTES
        && let Some(record) = records.next()
    {
        bytes += record.document.bytes().len();
        chunk.push(record);
    }
    chunk
}

//! Snapshots: the catalog at one revision, with its digest, in bounded pieces.
//!
//! A snapshot shares its data with the catalog. Only the encoded pieces are copies; the last stream
//! that reads them drops them.

use std::sync::{Arc, Weak};

use registry_core::{
    Attestation, Catalog, ChainHash, Digest, Record, Revision, Scope, Selector, chain::Position,
    setting::SelectorSettings,
};
use tokio::sync::Mutex;

use super::{Shared, scopes::beside};

const CHUNK_ENTITIES: usize = 512;
/// Each takes less than a KiB.
const CHUNK_SETTINGS: usize = 512;
const CHUNK_BYTES: usize = 256 * 1024;

/// One message of a snapshot.
#[derive(Debug)]
pub enum Piece {
    /// It begins.
    Begin {
        /// The state that it holds.
        position: Position,
        /// Of which part.
        scope: Arc<Scope>,
        /// How many entities it has.
        entities: usize,
        /// How many settings.
        settings: usize,
        /// Where it comes because the follower lacks commits that are no longer kept: the oldest
        /// that is.
        compacted: Option<Revision>,
    },
    /// Entities, in their order.
    Entities(Vec<Arc<Record>>),
    /// Settings, after the entities.
    Settings(Vec<(Selector, SelectorSettings)>),
    /// It is complete; the digest of the catalog, and the registry's word on it.
    End(Digest, Option<Attestation>),
}

/// All messages of a snapshot, in order.
pub(super) type Pieces = Vec<Arc<Shared<Piece>>>;

#[derive(Debug)]
pub(super) struct Snapshot {
    catalog: Arc<Catalog>,
    digest: Digest,
    pieces: Mutex<Weak<Pieces>>,
}

impl Snapshot {
    /// Computes the digest beside the runtime: it looks at every entity.
    pub(super) async fn of(catalog: Arc<Catalog>) -> Self {
        let source = catalog.clone();
        let digest = beside(move || source.digest()).await;
        Self { catalog, digest, pieces: Mutex::default() }
    }

    pub(super) fn revision(&self) -> Revision {
        self.catalog.revision()
    }

    /// Whether the registry's word on it is there. A relay may have had to wait for it.
    pub(super) fn is_attested(&self) -> bool {
        self.catalog.attestation().is_some()
    }

    /// The place that whoever was told it is at.
    pub(super) fn place(&self) -> (Revision, ChainHash) {
        (self.catalog.revision(), self.catalog.chain())
    }

    /// Its first message, for a follower that lacks commits that are no longer kept.
    pub(super) fn begin_instead_of(&self, oldest: Revision) -> Piece {
        begin(&self.catalog, Some(oldest))
    }

    /// Its messages; those who are told them at the same time share them.
    pub(super) async fn pieces(&self) -> Arc<Pieces> {
        let mut told = self.pieces.lock().await;
        if let Some(pieces) = told.upgrade() {
            return pieces;
        }
        let (catalog, digest) = (self.catalog.clone(), self.digest);
        let pieces = Arc::new(beside(move || cut(&catalog, digest)).await);
        *told = Arc::downgrade(&pieces);
        pieces
    }
}

fn cut(catalog: &Catalog, digest: Digest) -> Pieces {
    let mut pieces = vec![begin(catalog, None)];
    let mut records = catalog.after(None).map(|(_, record)| record.clone()).peekable();
    while records.peek().is_some() {
        pieces.push(Piece::Entities(fill(&mut records)));
    }
    let mut settings = catalog.settings().after(None).peekable();
    while settings.peek().is_some() {
        let some = settings.by_ref().take(CHUNK_SETTINGS);
        pieces.push(Piece::Settings(some.map(|(on, set)| (on.clone(), set.clone())).collect()));
    }
    pieces.push(Piece::End(digest, catalog.attestation().copied()));
    pieces.into_iter().map(Shared::new).collect()
}

fn begin(catalog: &Catalog, compacted: Option<Revision>) -> Piece {
    Piece::Begin {
        position: Position::of_catalog(catalog),
        scope: catalog.scope().clone(),
        entities: catalog.len(),
        settings: catalog.settings().len(),
        compacted,
    }
}

/// As many as go into one message, at least one.
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

//! A snapshot on its way: entities proved as they come, and the whole at its end.
//!
//! Deliberately absent: whether it may replace what is served.

use registry_core::{Catalog, Digest, Record, Settings};
use registry_proto::{
    convert::Position,
    v1::{SnapshotChunk, SnapshotEnd},
};

use super::incoming::{Refusal, offloaded};

/// The entities so far.
#[derive(Debug)]
pub(super) struct Snapshot {
    position: Position,
    announced: u64,
    settings: Settings,
    records: Vec<Record>,
}

impl Snapshot {
    pub(super) fn new(position: Position, announced: u64, settings: Settings) -> Self {
        Self { position, announced, settings, records: Vec::new() }
    }

    /// Adds a part.
    pub(super) async fn extended(mut self, chunk: SnapshotChunk) -> Result<Self, Refusal> {
        let part = offloaded(move || {
            let records = chunk.entities.into_iter().map(Record::try_from);
            records.collect::<Result<Vec<_>, _>>().map_err(|e| e.to_string())
        });
        match part.await? {
            Ok(part) => self.records.extend(part),
            Err(message) => return Err(self.refused(message)),
        }
        if self.records.len() as u64 > self.announced {
            let message = format!("more entities than the {} announced", self.announced);
            return Err(self.refused(message));
        }
        Ok(self)
    }

    /// Proves the whole.
    pub(super) async fn finished(
        self,
        SnapshotEnd { digest }: SnapshotEnd,
    ) -> Result<Catalog, Refusal> {
        let Position { registry, revision, chain } = self.position.clone();
        let refused = |message: String| Refusal { revision, message, is_final: false };
        let Ok(digest) = <[u8; 32]>::try_from(&*digest) else {
            return Err(refused(format!("a digest has 32 bytes, this one has {}", digest.len())));
        };
        let (expected, announced) = (Digest::from_bytes(digest), self.announced);
        let restoring = offloaded(move || {
            let catalog = Catalog::restore(registry, revision, chain, self.records)
                .with_settings(self.settings);
            let actual = catalog.digest();
            (catalog, actual)
        });
        let (catalog, actual) = restoring.await?;
        if catalog.len() as u64 != announced {
            let message = format!("{} entities instead of {announced}", catalog.len());
            return Err(refused(message));
        }
        if actual != expected {
            let message = format!("the snapshot has the digest {actual}, not {expected}");
            return Err(refused(message));
        }
        Ok(catalog)
    }

    fn refused(&self, message: String) -> Refusal {
        Refusal { revision: self.position.revision, message, is_final: false }
    }
}

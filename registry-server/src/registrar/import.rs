//! The writer of a relay: stores and publishes the commits of the upstream registry unchanged.

use registry_core::{Catalog, ChainHash, Revision, SealedCommit};

use super::{
    Database,
    log::{AppendOutcome, Source, corrupt},
    writer::Writer,
};
use crate::store;

/// Stores and publishes upstream commits.
pub struct Importer(Writer);

impl Importer {
    pub(super) fn new(writer: Writer) -> Self {
        Self(writer)
    }

    /// Stores commits after a revision. Skips commits that are already stored, for example by another relay on
    /// the same database.
    pub async fn store(
        &mut self,
        after: Revision,
        commits: &[SealedCommit],
    ) -> Result<(), store::Error> {
        let Self(writer) = self;
        let (mut after, mut left) = (after, commits);
        while !left.is_empty() {
            match Box::pin(writer.log.append(Source::Upstream, None, after, left)).await {
                AppendOutcome::Stored => break,
                AppendOutcome::Conflict | AppendOutcome::RequestIdTaken(_) => {
                    let there = writer.log.common_prefix(left).await?;
                    let Some(last) = there.checked_sub(1).and_then(|last| left.get(last)) else {
                        let detail = "it differs from the commit of the upstream registry";
                        return Err(corrupt(after.next(), detail));
                    };
                    (after, left) = (last.revision(), left.get(there..).unwrap_or_default());
                }
                AppendOutcome::Failed(_, cause) => {
                    writer.note_failure(cause.clone());
                    return Err(cause);
                }
            }
        }
        writer.set_database(Database::Writable);
        Ok(())
    }

    /// Publishes a catalog and its last commits, which start after the position `after`.
    pub fn publish(
        &mut self,
        catalog: Catalog,
        after: (Revision, ChainHash),
        commits: Vec<SealedCommit>,
    ) {
        let Self(writer) = self;
        if writer.hub.catalog().revision() != after.0 {
            writer.hub.skip_to(after);
        }
        writer.publish(catalog, commits);
    }
}

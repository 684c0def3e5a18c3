//! A relay's writer: stores and publishes the registry's commits just as they are.

use registry_core::{Catalog, ChainHash, Revision, SealedCommit};

use super::{
    Database,
    log::{Appended, Source, corrupt},
    writer::Writer,
};
use crate::store;

/// Takes commits of the registry.
pub struct Importer(Writer);

impl Importer {
    pub(super) fn new(writer: Writer) -> Self {
        Self(writer)
    }

    /// Stores commits that follow on a revision. Those that are there already, because a relay of the same
    /// database has stored them, or this one before it was stopped, stay as they are.
    pub async fn store(
        &mut self,
        after: Revision,
        commits: &[SealedCommit],
    ) -> Result<(), store::Error> {
        let Self(writer) = self;
        let (mut after, mut left) = (after, commits);
        while !left.is_empty() {
            match Box::pin(writer.log.append(Source::Registry, None, after, left)).await {
                Appended::Stored => break,
                Appended::Behind | Appended::RequestIdTaken(_) => {
                    let there = writer.log.in_common(left).await?;
                    let Some(last) = there.checked_sub(1).and_then(|last| left.get(last)) else {
                        let detail = "it is not the commit that the registry has there";
                        return Err(corrupt(after.next(), detail));
                    };
                    (after, left) = (last.revision(), left.get(there..).unwrap_or_default());
                }
                Appended::Failed(_, cause) => {
                    writer.note_failure(cause.clone());
                    return Err(cause);
                }
            }
        }
        writer.set_database(Database::Writable);
        Ok(())
    }

    /// Publishes a catalog and the last commits that led to it, the first after this place.
    pub fn publish(
        &mut self,
        catalog: Catalog,
        after: (Revision, ChainHash),
        commits: Vec<SealedCommit>,
    ) {
        let Self(writer) = self;
        if writer.hub.catalog().revision() != after.0 {
            writer.hub.leap(after);
        }
        writer.publish(catalog, commits);
    }
}

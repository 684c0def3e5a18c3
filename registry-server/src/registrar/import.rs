//! A relay's writer: stores and publishes the registry's commits just as they are.
//!
//! Deliberately absent: validation, which the registry has done, and proving, which the relay has.

use registry_core::{Catalog, ChainHash, Revision, SealedCommit};

use super::{Database, log::Appended, writer::Writer};
use crate::store;

/// Takes commits of the registry.
pub struct Importer(Writer);

impl Importer {
    pub(super) fn new(writer: Writer) -> Self {
        Self(writer)
    }

    /// Stores commits that follow on a revision. Fails with nothing stored, or with what another relay of the
    /// same database has stored first.
    pub async fn store(
        &mut self,
        after: Revision,
        commits: &[SealedCommit],
    ) -> Result<(), store::Error> {
        let Self(writer) = self;
        match writer.log.append(None, after, commits).await {
            Appended::Stored => {
                writer.set_database(Database::Writable);
                Ok(())
            }
            Appended::Behind | Appended::RequestIdTaken(_) => {
                writer.catch_up().await;
                let database = writer.log.store.registry().to_string();
                let detail = "another relay of this database stored it first".to_owned();
                Err(store::Error::Unavailable { database, detail })
            }
            Appended::Failed(_, cause) => {
                writer.note_failure(cause.clone());
                Err(cause)
            }
        }
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

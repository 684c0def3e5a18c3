//! A relay's writer: stores and publishes the registry's commits just as they are.
//!
//! Deliberately absent: validation, which the registry has done, and proving, which the relay has.

use registry_core::{Catalog, SealedCommit};

use super::{Database, log::Appended, writer::Writer};
use crate::store;

/// Takes commits of the registry.
pub struct Importer(Writer);

impl Importer {
    pub(super) fn new(writer: Writer) -> Self {
        Self(writer)
    }

    /// Stores these commits, which follow on what is published, and publishes the catalog after them.
    /// Fails with nothing stored, or with what another relay of the same database has stored first.
    pub async fn import(
        &mut self,
        catalog: Catalog,
        commits: Vec<SealedCommit>,
    ) -> Result<(), store::Error> {
        let Self(writer) = self;
        let base = writer.hub.catalog().revision();
        match writer.log.append(None, base, &commits).await {
            Appended::Stored => {
                writer.set_database(Database::Writable);
                writer.publish(catalog, commits);
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
}

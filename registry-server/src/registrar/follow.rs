//! The writer follows the log: other servers' commits, and the health of the database.

use std::time::Instant;

use registry_core::{Catalog, SealedCommit};

use super::{Database, log::corrupt, writer::Writer};
use crate::{metrics, store};

impl Writer {
    /// Publishes what other servers have committed since.
    pub(super) async fn catch_up(&mut self) {
        match self.read_log().await {
            // What only a write can find out, only a write can clear.
            Ok(()) if self.database.borrow().refusal().is_some() => {
                self.set_database(Database::Writable);
            }
            Ok(()) => {}
            Err(error) => self.set_database(Database::ReadOnly(error)),
        }
    }

    async fn read_log(&mut self) -> Result<(), store::Error> {
        self.log.store.check_file()?;
        let catalog = self.hub.catalog();
        let is_due = self.proved_at.elapsed() > self.poll_interval() / 2;
        if is_due || self.database.borrow().refusal().is_some() {
            self.log.holds(catalog.revision(), catalog.chain()).await?;
            self.proved_at = Instant::now();
        }
        while let Some((catalog, commits)) = self.log.next(&self.hub.catalog()).await? {
            self.judge(&commits)?;
            self.publish(catalog, commits);
        }
        Ok(())
    }

    /// Refuses what no server of this database would have appended.
    fn judge(&self, commits: &[SealedCommit]) -> Result<(), store::Error> {
        let mut before = self.last_commit_at;
        for sealed in commits {
            let (revision, at) = (sealed.revision(), sealed.commit().committed_at);
            if !self.log.store.is_shared() && !self.unsure.contains(&sealed.chain()) {
                let detail = "this server alone writes this database, and did not write it; \
                              `registryctl audit verify` tells more";
                return Err(corrupt(revision, detail));
            }
            if at < before {
                let detail =
                    format!("its time {at} is before {before}, the time of the commit before it");
                return Err(corrupt(revision, &detail));
            }
            before = at;
        }
        Ok(())
    }

    /// Makes stored commits visible to readers and followers.
    pub(super) fn publish(&mut self, catalog: Catalog, commits: Vec<SealedCommit>) {
        let last = commits.last().map(|last| last.commit().committed_at);
        self.last_commit_at = self.last_commit_at.max(last.unwrap_or_default());
        metrics::published(&catalog, &commits);
        self.hub.publish(catalog, commits);
    }

    /// A statement that was refused says nothing of the next one; any other failure does.
    pub(super) fn note_failure(&self, error: store::Error) {
        if let store::Error::Refused { .. } = error {
            tracing::error!(%error, "a write failed in a way that should not be possible");
        } else {
            self.set_database(Database::ReadOnly(error));
        }
    }

    pub(super) fn set_database(&self, now: Database) {
        let changed = self.database.send_if_modified(|was| {
            let changed = *was != now;
            *was = now.clone();
            changed
        });
        metrics::database(now == Database::Writable);
        match now {
            Database::ReadOnly(error) if changed => {
                tracing::error!(%error, "the database takes no writes; reads and streams go on");
            }
            Database::Writable if changed => tracing::info!("the database takes writes again"),
            Database::ReadOnly(_) | Database::Writable => {}
        }
    }
}

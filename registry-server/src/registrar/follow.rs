//! Reads the commits of other servers and tracks the health of the database.

use std::time::Instant;

use registry_core::{Catalog, SealedCommit};

use super::{Database, audit_events, log::corrupt, writer::Writer};
use crate::{metrics, store};

impl Writer {
    /// Publishes new commits of other servers.
    pub(super) async fn catch_up(&mut self) {
        match self.read_log().await {
            // A failure that only a write can detect is cleared by the next successful write.
            Ok(()) if self.database.borrow().write_failure().is_some() => {
                self.set_database(Database::Writable);
            }
            Ok(()) => {}
            Err(error) => self.set_database(Database::ReadOnly(error)),
        }
    }

    async fn read_log(&mut self) -> Result<(), store::Error> {
        self.log.store.check_file()?;
        let catalog = self.hub.catalog();
        let is_due = self.verified_at.elapsed() > self.poll_interval() / 2;
        if is_due || self.database.borrow().write_failure().is_some() {
            self.log.verify_contains(catalog.revision(), catalog.chain()).await?;
            self.verified_at = Instant::now();
        }
        while let Some((catalog, commits)) = self.log.next(&self.hub.catalog()).await? {
            self.validate(&commits)?;
            let is_own = |sealed: &&SealedCommit| self.unknown_outcomes.contains(&sealed.chain());
            for sealed in commits.iter().filter(is_own) {
                audit_events::committed(sealed, "");
            }
            self.publish(catalog, commits);
        }
        Ok(())
    }

    /// Rejects commits that no server of this database would have appended.
    fn validate(&self, commits: &[SealedCommit]) -> Result<(), store::Error> {
        let mut before = self.last_commit_at;
        for sealed in commits {
            let (revision, at) = (sealed.revision(), sealed.commit().committed_at);
            if !self.log.store.is_shared() && !self.unknown_outcomes.contains(&sealed.chain()) {
                let detail =
                    "another program wrote to this SQLite database; run `registryctl audit verify`";
                return Err(corrupt(revision, detail));
            }
            if at < before {
                let detail =
                    format!("its time {at} is before the time of the previous commit, {before}");
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

    /// A rejected statement does not affect later statements; other failures mark the database as read-only.
    pub(super) fn note_failure(&self, error: store::Error) {
        if let store::Error::StatementRejected { .. } = error {
            tracing::error!(%error, "the database rejected a statement unexpectedly");
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
                tracing::error!(%error, "the database is unavailable for writes; reads and streams continue");
            }
            Database::Writable if changed => tracing::info!("the database accepts writes again"),
            Database::ReadOnly(_) | Database::Writable => {}
        }
    }
}

//! The writer's access to the log: appends with a known outcome, and reads of other servers' commits.
//!
//! A connection that is lost during a commit leaves the outcome open. The writer then appends the same
//! commits again: the lock on the head row makes the second attempt wait for the first, and then either it
//! succeeds or the log shows which commits are stored.

use std::{future::Future, time::Duration};

use registry_core::{Catalog, ChainHash, Revision, SealedCommit};
use retry_backoff::jittered_by;
use tokio::time::{Instant, sleep, timeout};

use super::{Error, waiting::Request};
use crate::store::{self, AppendError, CommitEvent, HeadLock, Store};

const RETRY_DELAY: Duration = Duration::from_millis(200);
const PAGE: usize = 256;
const REPLACED: &str = "it differs from the commit that this server read earlier";

/// A revision and its chain hash.
pub(super) type Position = (Revision, ChainHash);

/// The log with timeouts.
#[derive(Debug, Clone)]
pub(super) struct Log {
    pub(super) store: Store,
    pub(super) timeout: Duration,
    /// Time to resolve the outcome of a commit after a lost connection.
    pub(super) outcome_timeout: Duration,
}

/// Origin of commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source<'a> {
    /// This server, with the access events of the commits.
    Local(&'a [CommitEvent]),
    /// The upstream registry of this relay.
    Upstream,
}

/// Result of an append.
#[derive(Debug)]
pub(super) enum AppendOutcome {
    /// The commits are stored.
    Stored,
    /// Not stored: another server committed first.
    Conflict,
    /// Not stored: an earlier commit has the request id.
    RequestIdTaken(Request),
    /// Not stored, or unknown.
    Failed(Error, store::Error),
}

impl AppendOutcome {
    /// Label of the metric.
    pub(super) fn label(&self) -> &'static str {
        match self {
            Self::Stored => "stored",
            Self::Conflict => "conflict",
            Self::RequestIdTaken(_) => "request_id_taken",
            Self::Failed(Error::OutcomeUnknown, _) => "unknown",
            Self::Failed(..) => "failed",
        }
    }
}

impl Log {
    /// Appends commits after a revision.
    pub(super) async fn append(
        &self,
        source: Source<'_>,
        mut lock: Option<HeadLock>,
        base: Revision,
        commits: &[SealedCommit],
    ) -> AppendOutcome {
        let deadline = Instant::now() + self.outcome_timeout;
        let mut lost = false;
        loop {
            let result = match source {
                Source::Local(events) => {
                    let lock = lock.take();
                    let append = Box::pin(self.store.append_locked(lock, base, commits, events));
                    self.timed(append).await
                }
                Source::Upstream => {
                    let append = Box::pin(self.store.append_copy(base, commits));
                    self.timed(append).await
                }
            };
            let error = match (result, lost) {
                (Ok(()), _) => return AppendOutcome::Stored,
                (Err(AppendError::Store(error)), _) => error,
                (Err(AppendError::Lost(error)), _) => {
                    return AppendOutcome::Failed(Error::OutcomeUnknown, error);
                }
                // The first attempt may have succeeded; then the second one finds a later head.
                (Err(AppendError::Conflict { .. } | AppendError::RequestIdTaken { .. }), true) => {
                    match self.is_stored(base, commits).await {
                        Ok(true) => return AppendOutcome::Stored,
                        Ok(false) => return AppendOutcome::Conflict,
                        Err(error) => error,
                    }
                }
                (Err(AppendError::Conflict { head }), false) if head < base => {
                    let error = rolled_back(base);
                    return AppendOutcome::Failed(Error::Database(error.clone()), error);
                }
                (Err(AppendError::Conflict { .. }), false) => return AppendOutcome::Conflict,
                (Err(AppendError::RequestIdTaken { author, request_id, .. }), false) => {
                    return AppendOutcome::RequestIdTaken((author, request_id));
                }
            };
            lost |= matches!(error, store::Error::Unavailable { .. });
            if !lost {
                return AppendOutcome::Failed(Error::Database(error.clone()), error);
            }
            if Instant::now() > deadline {
                return AppendOutcome::Failed(Error::OutcomeUnknown, error);
            }
            sleep(jittered_by(RETRY_DELAY, 0.1)).await;
        }
    }

    /// Whether these commits are stored after the base revision.
    async fn is_stored(
        &self,
        base: Revision,
        commits: &[SealedCommit],
    ) -> Result<bool, store::Error> {
        let Some(first) = commits.first() else { return Ok(true) };
        let stored = self.timed(self.store.commit(base.next())).await?;
        Ok(stored.is_some_and(|stored| stored.chain == first.chain()))
    }

    /// Number of leading commits that the log contains.
    pub(super) async fn common_prefix(
        &self,
        commits: &[SealedCommit],
    ) -> Result<usize, store::Error> {
        for (i, commit) in commits.iter().enumerate() {
            let stored = self.timed(self.store.commit(commit.revision())).await?;
            if stored.is_none_or(|stored| stored.chain != commit.chain()) {
                return Ok(i);
            }
        }
        Ok(commits.len())
    }

    /// Reads the next page of commits and applies them to the catalog; `None` at the end of the log.
    pub(super) async fn next(
        &self,
        catalog: &Catalog,
    ) -> Result<Option<(Catalog, Vec<SealedCommit>)>, store::Error> {
        let position = (catalog.revision(), catalog.chain());
        let commits = self.timed(self.store.commits_after(position, PAGE)).await?;
        if commits.is_empty() {
            return Ok(None);
        }
        let mut catalog = catalog.clone();
        for commit in &commits {
            catalog.apply(commit).map_err(|e| corrupt(commit.revision(), &e.to_string()))?;
        }
        Ok(Some((catalog, commits)))
    }

    /// Checks that the database still contains the served head. Detects a replaced or rolled back database.
    pub(super) async fn verify_contains(
        &self,
        head: Revision,
        chain: ChainHash,
    ) -> Result<(), store::Error> {
        if head == Revision(0) {
            return self.timed(self.store.check()).await;
        }
        match self.timed(self.store.stored_chain(head)).await? {
            Some(stored) if stored == chain => Ok(()),
            Some(_) => Err(corrupt(head, REPLACED)),
            None => Err(rolled_back(head)),
        }
    }

    /// Whether the log ends at this position, which this server has seen. SQLite has only one writer, so no
    /// query is needed.
    pub(super) async fn ends_at(&self, seen: Position) -> Result<bool, store::Error> {
        if !self.store.is_shared() {
            return Ok(true);
        }
        let head = self.timed(self.store.head()).await?;
        if head.0 < seen.0 {
            return Err(rolled_back(seen.0));
        }
        if head.0 == seen.0 && head.1 != seen.1 {
            return Err(corrupt(seen.0, REPLACED));
        }
        Ok(head == seen)
    }

    pub(super) async fn timed<T, E: From<store::Error>>(
        &self,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        match timeout(self.timeout, work).await {
            Ok(result) => result,
            Err(_) => Err(store::Error::Unavailable {
                database: format!("of registry {}", self.store.registry()),
                detail: format!("timed out after {:?}", self.timeout),
            }
            .into()),
        }
    }
}

pub(super) fn corrupt(revision: Revision, detail: &str) -> store::Error {
    store::Error::Corrupt { what: format!("revision {revision}"), detail: detail.to_owned() }
}

fn rolled_back(seen: Revision) -> store::Error {
    corrupt(
        seen,
        "this server has read it, but the log now ends before it: commits were lost, for example in a \
         failover to a lagging standby, or the database was replaced or restored. If the shorter log is \
         intended, restart the server to accept it. Otherwise restore the missing commits",
    )
}

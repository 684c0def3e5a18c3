//! The writer's side of the log: appending so that the outcome is known, and catching up with
//! other servers.
//!
//! A connection that is lost during a commit leaves open whether it was stored. The way out is to
//! append the same commits again: the head's lock makes the second try wait for the first, and then
//! either it is stored, or the log shows whose commits are there.

use std::{future::Future, time::Duration};

use registry_core::{Catalog, ChainHash, Revision, SealedCommit};
use retry_backoff::jittered_by;
use tokio::time::{Instant, sleep, timeout};

use super::{Error, waiting::Request};
use crate::store::{self, AppendError, CommitEvent, Hold, Store};

const PAUSE: Duration = Duration::from_millis(200);
const PAGE: usize = 256;
const ANOTHER: &str = "it is not the commit that this server has seen there";

/// A revision, and the chain hash after it.
pub(super) type Position = (Revision, ChainHash);

/// The log with a limit on how long it may take to answer.
#[derive(Debug, Clone)]
pub(super) struct Log {
    pub(super) store: Store,
    pub(super) timeout: Duration,
    /// How long a lost commit is looked for before its callers hear that nobody knows.
    pub(super) patience: Duration,
}

/// Where commits were made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source<'a> {
    /// By this server, with their lines of the trail of access.
    Here(&'a [CommitEvent]),
    /// By the registry that this relay follows.
    Registry,
}

/// What became of commits.
#[derive(Debug)]
pub(super) enum Appended {
    /// They are stored.
    Stored,
    /// They are not: another server's commits are there.
    Behind,
    /// They are not: this request made a commit before.
    RequestIdTaken(Request),
    /// They are not, or nobody knows.
    Failed(Error, store::Error),
}

impl Appended {
    /// One word for the metrics.
    pub(super) fn label(&self) -> &'static str {
        match self {
            Self::Stored => "stored",
            Self::Behind => "conflict",
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
        mut hold: Option<Hold>,
        base: Revision,
        commits: &[SealedCommit],
    ) -> Appended {
        let give_up = Instant::now() + self.patience;
        let mut lost = false;
        loop {
            let result = match source {
                Source::Here(events) => {
                    let hold = hold.take();
                    self.timed(self.store.append_holding(hold, base, commits, events)).await
                }
                Source::Registry => self.timed(self.store.append_copy(base, commits)).await,
            };
            let error = match (result, lost) {
                (Ok(()), _) => return Appended::Stored,
                (Err(AppendError::Store(error)), _) => error,
                (Err(AppendError::Lost(error)), _) => {
                    return Appended::Failed(Error::OutcomeUnknown, error);
                }
                // The first try may have been stored; then the second finds the log further on.
                (Err(AppendError::Conflict { .. } | AppendError::RequestIdTaken { .. }), true) => {
                    match self.is_ours(base, commits).await {
                        Ok(true) => return Appended::Stored,
                        Ok(false) => return Appended::Behind,
                        Err(error) => error,
                    }
                }
                (Err(AppendError::Conflict { head }), false) if head < base => {
                    let error = rolled_back(base);
                    return Appended::Failed(Error::Database(error.clone()), error);
                }
                (Err(AppendError::Conflict { .. }), false) => return Appended::Behind,
                (Err(AppendError::RequestIdTaken { author, request_id, .. }), false) => {
                    return Appended::RequestIdTaken((author, request_id));
                }
            };
            lost |= matches!(error, store::Error::Unavailable { .. });
            if !lost {
                return Appended::Failed(Error::Database(error.clone()), error);
            }
            if Instant::now() > give_up {
                return Appended::Failed(Error::OutcomeUnknown, error);
            }
            sleep(jittered_by(PAUSE, 0.1)).await;
        }
    }

    /// Whether the log goes on with these very commits.
    async fn is_ours(&self, base: Revision, ours: &[SealedCommit]) -> Result<bool, store::Error> {
        let Some(first) = ours.first() else { return Ok(true) };
        let stored = self.timed(self.store.commit(base.next())).await?;
        Ok(stored.is_some_and(|stored| stored.chain == first.chain()))
    }

    /// How many of these commits the log has, the first ones.
    pub(super) async fn in_common(&self, commits: &[SealedCommit]) -> Result<usize, store::Error> {
        for (i, commit) in commits.iter().enumerate() {
            let stored = self.timed(self.store.commit(commit.revision())).await?;
            if stored.is_none_or(|stored| stored.chain != commit.chain()) {
                return Ok(i);
            }
        }
        Ok(commits.len())
    }

    /// The catalog with the commits after it, as many as are read at once; `None` if there are no more.
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

    /// Proves that the database still has what this server has seen of it: not another one, and not
    /// one that lost commits.
    pub(super) async fn holds(&self, head: Revision, chain: ChainHash) -> Result<(), store::Error> {
        if head == Revision(0) {
            return self.timed(self.store.check()).await;
        }
        match self.timed(self.store.stored_chain(head)).await? {
            Some(stored) if stored == chain => Ok(()),
            Some(_) => Err(corrupt(head, ANOTHER)),
            None => Err(rolled_back(head)),
        }
    }

    /// Whether the log ends at this position, which this server has seen stored. A server that has
    /// its database to itself knows without asking.
    pub(super) async fn ends_at(&self, seen: Position) -> Result<bool, store::Error> {
        if !self.store.is_shared() {
            return Ok(true);
        }
        let head = self.timed(self.store.head()).await?;
        if head.0 < seen.0 {
            return Err(rolled_back(seen.0));
        }
        if head.0 == seen.0 && head.1 != seen.1 {
            return Err(corrupt(seen.0, ANOTHER));
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
                detail: format!("no answer within {:?}", self.timeout),
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
        "this server has seen it stored, and the log now ends before it: commits are lost, as in a \
         failover to a standby that lagged behind, or the database was replaced; restart the \
         server if that is to stay so",
    )
}

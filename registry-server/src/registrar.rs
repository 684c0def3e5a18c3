//! The writer of this server: queues writes, validates them, appends them to the log, publishes them and
//! returns the results.
//!
//! Concurrent writes share a transaction, with one commit each (group commit). Several servers may write to
//! the same log: on a conflict, the writer reads the other server's commits and validates again. A result is
//! never ahead of the log: success means stored, and failure means not stored.

mod answer;
pub(crate) mod audit_events;
mod database;
mod follow;
mod group;
mod import;
mod listen;
mod log;
mod repeat;
mod settings;
mod waiting;
mod writer;

use std::{sync::Arc, time::Duration};

use policy::PolicyBreaks;
use registry_core::{
    Catalog, Diagnostic, Digest, Key, Origin, Revision, SettingChange, Timestamp, limits,
    rules::{self, Plan, Proposed, WritePermissions},
};
use tokio::{
    sync::{Semaphore, mpsc, oneshot, watch},
    task::JoinHandle,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

pub use database::Database;
pub use import::Importer;
pub use settings::RegistrarConfig;
use waiting::Waiting;
use writer::Writer;

use crate::{
    clock::Clock,
    feed::Hub,
    store::{self, CommitEvent, NewAccessEvent, Store},
};

/// Interval between deletions of expired request ids.
const REQUEST_EXPIRY_INTERVAL: Duration = Duration::from_hours(1);

/// A batch to commit.
#[derive(Debug, Clone)]
pub struct Submission {
    /// Requested changes, in order.
    pub batch: Vec<Proposed>,
    /// Requested settings, in order, applied after the changes.
    pub settings: Vec<SettingChange>,
    /// Name of the author.
    pub author: String,
    /// Authentication of the author; `None` without authentication.
    pub origin: Option<Origin>,
    /// Client address, recorded only in access events.
    pub address: String,
    /// Write permissions of the author; `None` without authentication.
    pub permissions: Option<WritePermissions>,
    /// Commit message.
    pub message: String,
    /// Idempotency key that identifies retries.
    pub request_id: Option<String>,
    /// Required revision of the registry; a mismatch rejects the batch.
    pub base_revision: Option<Revision>,
    /// Whether new versions may break policies in force.
    pub policy_breaks: PolicyBreaks,
    /// The preconditions of the changes, in their order. Empty: none.
    pub preconditions: Vec<Precondition>,
}

/// The digest that the registered document of a change's key must have. The inner `None`: the key must not be
/// registered. The outer `None`: no precondition.
pub type Precondition = Option<Option<Digest>>;

impl Submission {
    /// Checks the preconditions of the batch and of its changes.
    pub fn check_preconditions(&self, catalog: &Catalog) -> Result<(), Error> {
        let current = catalog.revision();
        if let Some(wanted) = self.base_revision.filter(|wanted| *wanted != current) {
            return Err(Error::BaseRevision { wanted, current });
        }
        for (index, (change, wanted)) in self.batch.iter().zip(&self.preconditions).enumerate() {
            let Some(wanted) = *wanted else { continue };
            let actual = catalog.find(change.key()).map(|record| record.document.digest());
            if actual != wanted {
                let key = change.key().clone();
                return Err(Error::DigestMismatch { index, key, actual });
            }
        }
        Ok(())
    }

    /// Decides what it would do to a catalog, and whether its author may.
    pub fn plan(&self, catalog: &Catalog) -> Plan {
        #[cfg(test)]
        assert!(self.message != PANICS, "a defect");
        let mut plan = rules::plan_with(catalog, &self.batch, &self.settings);
        policy::check(catalog, &self.batch, self.policy_breaks, &mut plan);
        if let Some(permissions) = &self.permissions {
            rules::authorize(catalog, permissions, &self.batch, &mut plan);
        }
        plan
    }

    /// Access event of the commit.
    fn event(&self, revision: Revision, at: Timestamp) -> Option<CommitEvent> {
        let origin = self.origin.as_ref()?;
        let what = NewAccessEvent {
            at,
            principal: self.author.clone(),
            method: origin.method.clone(),
            address: self.address.clone(),
            detail: String::new(),
        };
        Some(CommitEvent { revision, what })
    }
}

/// Message of a test batch whose planning panics.
#[cfg(test)]
const PANICS: &str = "this batch panics";

/// Result of an accepted batch.
#[derive(Debug, Clone)]
pub struct Applied {
    /// Revision of the commit, or the current revision if the batch changed nothing.
    pub revision: Revision,
    /// Whether the batch created a commit.
    pub committed: bool,
    /// The submitted batch.
    pub batch: Vec<Proposed>,
    /// Effect of each change, and warnings.
    pub plan: Plan,
}

/// A batch that was not committed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// Validation errors.
    #[error("the batch is invalid: {}", summary(.0))]
    Refused(Vec<Diagnostic>),
    /// The registry is not where the caller believes.
    #[error("base_revision is {wanted} but the registry is at revision {current}")]
    BaseRevision {
        /// Required revision.
        wanted: Revision,
        /// Current revision.
        current: Revision,
    },
    /// The precondition of a change does not hold.
    #[error("changes[{index}]: if_digest does not match: {key} {}", registered(.actual.as_ref()))]
    DigestMismatch {
        /// The index of the change.
        index: usize,
        /// Its key.
        key: Key,
        /// The digest of the registered document; `None`: not registered.
        actual: Option<Digest>,
    },
    /// The request id belongs to another batch of the same author.
    #[error("the request id `{request_id}` was used for another request in revision {revision}")]
    RequestIdReused {
        /// The request id.
        request_id: String,
        /// Revision of the commit with this request id.
        revision: Revision,
    },
    /// A full write queue.
    #[error("the write queue is full; retry later")]
    QueueFull,
    /// Conflicts with commits of other servers in every attempt.
    #[error("write conflict: other servers committed first in {attempts} attempts; retry")]
    Contended {
        /// Number of attempts.
        attempts: u32,
    },
    /// A database failure; the batch was not stored.
    #[error(transparent)]
    Database(store::Error),
    /// A database failure during the commit, with an unknown outcome.
    #[error(
        "the database connection was lost during the commit; the batch may or may not be stored"
    )]
    OutcomeUnknown,
    /// A relay, which has a read-only copy of the log.
    #[error("this server is a read-only relay; send writes to its registry: {upstream}")]
    Relay {
        /// URL of the upstream registry.
        upstream: String,
    },
    /// A server that is shutting down; the batch was not stored.
    #[error("the server is shutting down")]
    Draining,
    /// A defect of the server.
    #[error("internal error: {0}")]
    Internal(String),
}

fn registered(digest: Option<&Digest>) -> String {
    digest.map_or("is not registered".to_owned(), |digest| format!("has the digest {digest}"))
}

fn summary(diagnostics: &[Diagnostic]) -> String {
    let errors = diagnostics.iter().filter(|found| found.is_error()).count();
    match diagnostics.iter().find(|found| found.is_error()) {
        Some(first) if errors == 1 => first.to_string(),
        Some(first) => format!("{first}; and {} more", errors - 1),
        None => "no findings".to_owned(),
    }
}

/// Handle of the writer. Clones share one queue.
#[derive(Clone)]
pub struct Registrar {
    queue: mpsc::Sender<Waiting>,
    space: Arc<Semaphore>,
    database: watch::Receiver<Database>,
    hub: Arc<Hub>,
    closing: CancellationToken,
    /// URL of the upstream registry, in a relay.
    upstream: Option<Arc<str>>,
    store: Store,
    /// Timeout of one database statement.
    limit: Duration,
}

/// Dependencies of the writer.
pub struct Parts {
    /// The log.
    pub store: Store,
    /// Publishes commits to readers and followers.
    pub hub: Arc<Hub>,
    /// Clock for commit times.
    pub clock: Arc<dyn Clock>,
    /// Limits and timeouts.
    pub config: RegistrarConfig,
}

/// Starts the writer task, which stops after [`Registrar::close`].
pub async fn start(parts: Parts) -> Result<(Registrar, JoinHandle<()>), store::Error> {
    let (queue, waiting) = mpsc::channel(parts.config.write_queue.max(1));
    let space = Arc::new(Semaphore::new(permits(parts.config.write_queue_bytes)));
    let (sender, database) = watch::channel(Database::Writable);
    let hub = parts.hub.clone();
    let listener = listen::spawn(parts.store.clone(), hub.clone());
    let (store, limit) = (parts.store.clone(), parts.config.database_timeout);
    let expiry = expire_requests(parts.store.clone(), parts.clock.clone());
    let writer = Writer::new(parts, sender).await?;
    let closing = CancellationToken::new();
    let closed = closing.clone();
    let task = tokio::spawn(async move {
        writer.run(waiting, closed).await;
        listener.abort();
        expiry.abort();
    });
    Ok((Registrar { queue, space, database, hub, closing, upstream: None, store, limit }, task))
}

/// Deletes expired request ids at startup and every hour.
fn expire_requests(store: Store, clock: Arc<dyn Clock>) -> JoinHandle<()> {
    tokio::spawn(async move {
        loop {
            if let Err(error) = store.delete_expired_requests(clock.now()).await {
                tracing::debug!(%error, "cannot delete expired request ids");
            }
            sleep(REQUEST_EXPIRY_INTERVAL).await;
        }
    })
}

/// Creates the registrar of a relay, which rejects writes, and the importer of upstream commits.
pub async fn start_relay(
    parts: Parts,
    upstream: String,
) -> Result<(Registrar, Importer), store::Error> {
    // A relay never queues a write.
    let (queue, _) = mpsc::channel(1);
    let (space, hub) = (Arc::new(Semaphore::new(0)), parts.hub.clone());
    let (sender, database) = watch::channel(Database::Writable);
    let (store, limit) = (parts.store.clone(), parts.config.database_timeout);
    let importer = Importer::new(Writer::new(parts, sender).await?);
    let (closing, upstream) = (CancellationToken::new(), Some(upstream.into()));
    Ok((Registrar { queue, space, database, hub, closing, upstream, store, limit }, importer))
}

impl Registrar {
    /// Commits a batch. A canceled caller does not cancel the commit.
    pub async fn apply(&self, submission: Submission) -> Result<Applied, Error> {
        if let Some(upstream) = &self.upstream {
            return Err(Error::Relay { upstream: upstream.to_string() });
        }
        if let Some(reason) = self.database.borrow().write_failure() {
            return Err(Error::Database(reason.clone()));
        }
        let (reply, answer) = oneshot::channel();
        let bytes = waiting::bytes(&submission);
        // A batch above the limit would never fit, so `QueueFull` would cause useless retries.
        if bytes > limits::BATCH_BYTES
            && let Some(found) = rules::exceeds_batch_limit(&submission.batch)
        {
            return Err(Error::Refused(vec![found]));
        }
        let wanted = u32::try_from(permits(bytes)).unwrap_or(u32::MAX);
        let space = self.space.clone().try_acquire_many_owned(wanted);
        let space = space.map_err(|_| Error::QueueFull)?;
        self.queue.try_send(Waiting::new(submission, reply, space)).map_err(|e| match e {
            mpsc::error::TrySendError::Full(_) => Error::QueueFull,
            mpsc::error::TrySendError::Closed(_) => Error::Draining,
        })?;
        // A missing result means that the writer stopped during the commit.
        answer.await.unwrap_or(Err(Error::OutcomeUnknown))
    }

    /// Waits until this server serves every commit that is stored now. A relay, and a server without its
    /// database, serve what they have.
    pub async fn catch_up(&self) -> Result<(), Error> {
        if self.upstream.is_some() || !self.store.is_shared() {
            return Ok(());
        }
        let head = match timeout(self.limit, self.store.head()).await {
            Ok(Ok((head, _))) => head,
            Ok(Err(store::Error::Unavailable { .. })) | Err(_) => return Ok(()),
            Ok(Err(error)) => return Err(Error::Database(error)),
        };
        let (mut served, mut database) = (self.hub.watch(), self.database.clone());
        self.hub.request_refresh(Some(head));
        let failure = async {
            tokio::select! {
                biased;
                _ = served.wait_for(|served| *served >= head) => None,
                Ok(state) = database.wait_for(Database::is_unreadable) => state.write_failure().cloned(),
            }
        };
        let failure = timeout(self.limit, failure).await.unwrap_or_else(|_| {
            Some(store::Error::Unavailable {
                database: format!("of registry {}", self.store.registry()),
                detail: format!("timed out after {:?} reading up to revision {head}", self.limit),
            })
        });
        failure.map_or(Ok(()), |error| Err(Error::Database(error)))
    }

    /// Last known state of the database.
    pub fn database(&self) -> Database {
        self.database.borrow().clone()
    }

    /// Rejects further batches. The writer finishes the queued ones and stops.
    pub fn close(&self) {
        self.closing.cancel();
    }
}

/// Converts bytes to semaphore permits of 1 KiB, because one acquisition is limited to `u32::MAX`.
fn permits(bytes: usize) -> usize {
    bytes.div_ceil(1024).max(1)
}

//! The one writer of this server: takes what callers want changed, validates it, appends it to the
//! log, publishes it and answers.
//!
//! Writes that wait at the same time share one transaction, one commit each. Several servers may
//! write the same log: whoever comes second reads the first one's commits and validates again. An
//! answer is never ahead of the log: success only for what is stored, failure only for what is known
//! not to be.

mod answer;
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

use registry_core::{
    Catalog, Diagnostic, Origin, Revision, SettingChange, Timestamp, limits,
    rules::{self, Author, Plan, Proposed},
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

/// How often expired request ids are deleted.
const FORGET: Duration = Duration::from_hours(1);

/// A batch that somebody wants committed.
#[derive(Debug, Clone)]
pub struct Submission {
    /// The wanted changes, in order.
    pub batch: Vec<Proposed>,
    /// What is wanted of settings, in order, after the changes.
    pub settings: Vec<SettingChange>,
    /// Who wants them.
    pub author: String,
    /// How the author is known; `None`: not authenticated.
    pub origin: Option<Origin>,
    /// The address of the caller's end of the connection, for the trail of access alone.
    pub address: String,
    /// Under which rights they are wanted; `None`: nobody is told apart.
    pub claimant: Option<Author>,
    /// Why.
    pub message: String,
    /// By which a retry is known.
    pub request_id: Option<String>,
    /// The revision that the registry must be at.
    pub base_revision: Option<Revision>,
}

impl Submission {
    /// Decides what it would do to a catalog, and whether its author may.
    pub fn plan(&self, catalog: &Catalog) -> Plan {
        #[cfg(test)]
        assert!(self.message != PANICS, "a defect");
        let mut plan = rules::plan_with(catalog, &self.batch, &self.settings);
        if let Some(claimant) = &self.claimant {
            rules::authorize(catalog, claimant, &self.batch, &mut plan);
        }
        plan
    }

    /// The line of its commit in the trail of access.
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

/// The message of a batch whose planning panics.
#[cfg(test)]
const PANICS: &str = "this batch panics";

/// What became of a batch.
#[derive(Debug, Clone)]
pub struct Applied {
    /// The revision of its commit, or the current one where it changed nothing.
    pub revision: Revision,
    /// Whether there is a commit of it.
    pub committed: bool,
    /// The batch as it was submitted.
    pub batch: Vec<Proposed>,
    /// What each of its changes did, and the warnings.
    pub plan: Plan,
}

/// Why a batch was not committed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// Validation found errors.
    #[error("the batch was refused: {}", summary(.0))]
    Refused(Vec<Diagnostic>),
    /// The registry is not where the caller believes.
    #[error("the batch wants the registry at revision {wanted}, it is at {current}")]
    BaseRevision {
        /// Where the caller believes that it is.
        wanted: Revision,
        /// Where it is.
        current: Revision,
    },
    /// The request id belongs to another batch, or to somebody else.
    #[error("the request id `{request_id}` was used for another request in revision {revision}")]
    RequestIdReused {
        /// The id.
        request_id: String,
        /// The commit of that other batch.
        revision: Revision,
    },
    /// Too much is waiting already.
    #[error("too many writes are waiting; try again later")]
    QueueFull,
    /// Other servers came first, again and again.
    #[error("other writers came first {attempts} times; try again")]
    Contended {
        /// How often it was tried.
        attempts: u32,
    },
    /// The database takes no writes; nothing was written.
    #[error(transparent)]
    Database(store::Error),
    /// The database was lost at a moment when the commit may have been stored or not.
    #[error("the database was lost while committing; whether the batch was stored is unknown")]
    OutcomeUnknown,
    /// This server only has a copy of the log.
    #[error(
        "this server is a relay and takes no writes; send them to its registry: {upstream}, or, where that \
         is a relay too, whom that follows"
    )]
    Relay {
        /// Where the registry is.
        upstream: String,
    },
    /// The server is shutting down; nothing was written.
    #[error("the server is shutting down")]
    Draining,
    /// A bug.
    #[error("the batch cannot be committed: {0}")]
    Internal(String),
}

fn summary(diagnostics: &[Diagnostic]) -> String {
    let errors = diagnostics.iter().filter(|found| found.is_error()).count();
    match diagnostics.iter().find(|found| found.is_error()) {
        Some(first) if errors == 1 => first.to_string(),
        Some(first) => format!("{errors} errors, the first is {first}"),
        None => "no reason was found".to_owned(),
    }
}

/// Where batches are submitted. Clones submit to the same writer.
#[derive(Clone)]
pub struct Registrar {
    queue: mpsc::Sender<Waiting>,
    space: Arc<Semaphore>,
    database: watch::Receiver<Database>,
    hub: Arc<Hub>,
    closing: CancellationToken,
    /// In a relay: where the registry is.
    upstream: Option<Arc<str>>,
    store: Store,
    /// Longest that one statement of the database may take.
    limit: Duration,
}

/// What the writer needs.
pub struct Parts {
    /// The log.
    pub store: Store,
    /// Where commits are published.
    pub hub: Arc<Hub>,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// Its limits.
    pub config: RegistrarConfig,
}

/// Starts the writer. The task ends after [`Registrar::close`].
pub async fn start(parts: Parts) -> Result<(Registrar, JoinHandle<()>), store::Error> {
    let (queue, waiting) = mpsc::channel(parts.config.write_queue.max(1));
    let space = Arc::new(Semaphore::new(units(parts.config.write_queue_bytes)));
    let (sender, database) = watch::channel(Database::Writable);
    let hub = parts.hub.clone();
    let listener = listen::spawn(parts.store.clone(), hub.clone());
    let (store, limit) = (parts.store.clone(), parts.config.database_timeout);
    let forgetting = forget_requests(parts.store.clone(), parts.clock.clone());
    let writer = Writer::new(parts, sender).await?;
    let closing = CancellationToken::new();
    let closed = closing.clone();
    let task = tokio::spawn(async move {
        writer.run(waiting, closed).await;
        listener.abort();
        forgetting.abort();
    });
    Ok((Registrar { queue, space, database, hub, closing, upstream: None, store, limit }, task))
}

/// Deletes the ids of requests that are too old to be retried, now and every hour.
fn forget_requests(store: Store, clock: Arc<dyn Clock>) -> JoinHandle<()> {
    tokio::spawn(async move {
        loop {
            if let Err(error) = store.forget_requests(clock.now()).await {
                tracing::debug!(%error, "expired request ids were not deleted");
            }
            sleep(FORGET).await;
        }
    })
}

/// The registrar of a relay, which takes no writes; and what takes the registry's commits instead.
pub async fn start_relay(
    parts: Parts,
    upstream: String,
) -> Result<(Registrar, Importer), store::Error> {
    // Nobody ever waits in it.
    let (queue, _) = mpsc::channel(1);
    let (space, hub) = (Arc::new(Semaphore::new(0)), parts.hub.clone());
    let (sender, database) = watch::channel(Database::Writable);
    let (store, limit) = (parts.store.clone(), parts.config.database_timeout);
    let importer = Importer::new(Writer::new(parts, sender).await?);
    let (closing, upstream) = (CancellationToken::new(), Some(upstream.into()));
    Ok((Registrar { queue, space, database, hub, closing, upstream, store, limit }, importer))
}

impl Registrar {
    /// Commits a batch, or says why not. A caller that stops waiting does not undo anything.
    pub async fn apply(&self, submission: Submission) -> Result<Applied, Error> {
        if let Some(upstream) = &self.upstream {
            return Err(Error::Relay { upstream: upstream.to_string() });
        }
        if let Some(reason) = self.database.borrow().refusal() {
            return Err(Error::Database(reason.clone()));
        }
        let (reply, answer) = oneshot::channel();
        let bytes = waiting::bytes(&submission);
        // No queue will ever have room for it, so "try again later" would be wrong.
        if bytes > limits::BATCH_BYTES
            && let Some(found) = rules::exceeds_batch_limit(&submission.batch)
        {
            return Err(Error::Refused(vec![found]));
        }
        let wanted = u32::try_from(units(bytes)).unwrap_or(u32::MAX);
        let space = self.space.clone().try_acquire_many_owned(wanted);
        let space = space.map_err(|_| Error::QueueFull)?;
        self.queue.try_send(Waiting::new(submission, reply, space)).map_err(|e| match e {
            mpsc::error::TrySendError::Full(_) => Error::QueueFull,
            mpsc::error::TrySendError::Closed(_) => Error::Draining,
        })?;
        // Without an answer, the writer ended at a moment that nobody knows.
        answer.await.unwrap_or(Err(Error::OutcomeUnknown))
    }

    /// Waits until this server shows every commit that is stored now. A relay shows only what its
    /// registry has signed, and a server without its database only what it has in memory.
    pub async fn catch_up(&self) -> Result<(), Error> {
        if self.upstream.is_some() || !self.store.is_shared() {
            return Ok(());
        }
        let head = match timeout(self.limit, self.store.head()).await {
            Ok(Ok((head, _))) => head,
            Ok(Err(store::Error::Unavailable { .. })) | Err(_) => return Ok(()),
            Ok(Err(error)) => return Err(Error::Database(error)),
        };
        let mut served = self.hub.watch();
        self.hub.request_refresh();
        let reached = timeout(self.limit, served.wait_for(|served| *served >= head)).await;
        reached.map(drop).map_err(|_| {
            Error::Database(store::Error::Unavailable {
                database: format!("of registry {}", self.store.registry()),
                detail: format!("revision {head} was not read within {:?}", self.limit),
            })
        })
    }

    /// Whether the database takes writes, as far as is known.
    pub fn database(&self) -> Database {
        self.database.borrow().clone()
    }

    /// Takes no more batches; the writer finishes what waits and ends.
    pub fn close(&self) {
        self.closing.cancel();
    }
}

/// Bytes in the units of the semaphore, which counts no further than an u32 in one step.
fn units(bytes: usize) -> usize {
    bytes.div_ceil(1024).max(1)
}

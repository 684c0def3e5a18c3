//! Storage of the log and the registered entities in SQLite or Postgres.
//!
//! [`Store::append`] is the only write to the log. One transaction moves the head and inserts all rows, so
//! readers see whole commits in revision order. Reads verify documents by their digest and commits by the
//! chain.

mod approvals;
mod audit;
mod backend;
mod batch;
mod error;
mod file_lock;
mod gateways;
mod key;
mod ledger;
mod listener;
mod model;
mod nack;
mod past;
mod postgres;
mod read;
mod relay;
mod row;
mod schema;
mod sql;
mod sql_timestamp;
mod sqlite;
mod tokens;
mod url;

use std::time::Duration;

use registry_core::{Catalog, ChainHash, RegistryId, Revision, SealedCommit, Timestamp};

pub use self::ledger::{
    AlertAttempt, AlertDelivery, BookKey, BookPosting, BookReports, BookTerms, BudgetPage,
    ChangeOrigin, ClaimedAlert, Crossing, GenerationCause, LedgerAges, LedgerChange, LedgerFailure,
    ListedAccount, ListedAlert, ListedBudget, ListedChange, OpenWindow, PostContext, PostRequest,
    Posting, RecallListener, RecallNotice, Reclaim, ReclaimFailure, Reclaimed, ReportedCall,
    SeenState, StoredCall, TraceCursor, TraceLimits, TraceQuery, TraceReport, UsageAges,
    UsageGroup, UsageGroupKey, UsageInterval, UsageProperty, UsageQuery,
};
pub use approvals::{ApprovalContext, ApprovalQuery, DecisionEvent, GrantQuery};
pub use audit::{Finding, Findings, Progress, ServedState};
pub use backend::HeadLock;
use backend::{Backend, execute};
use batch::{CommitSource, retries_since};
pub use error::{AppendError, Error};
pub use file_lock::FileLock;
pub use gateways::{FleetHeartbeat, GatewayQuery, GatewayRecord, Presence};
pub use listener::{Listener, Loss, Wake};
pub use model::{
    CommitFilter, CommitQuery, EntityEvent, EntityFilter, HistoryQuery, Order, SettingEvent,
    StoredCommit, StoredCommitHeader,
};
pub use past::Past;
use schema::SchemaMode;
use sql_timestamp::SqlTimestamp;
pub use tokens::{
    AccessEvent, CommitEvent, NewAccessEvent, Revoked, StoredToken, TokenCursor, TokenFilter,
};
use tokio::sync::mpsc;
pub use url::{DatabaseUrl, InvalidDatabaseUrl};

/// Timeout of an operation. Longer than the timeouts of the database, whose errors have more detail.
const OPERATION_TIMEOUT: Duration = Duration::from_secs(45);
/// Timeout of [`Store::check`], which readiness probes wait for.
const CHECK_TIMEOUT: Duration = Duration::from_secs(2);

/// Database of a registry. Clones share its connections.
#[derive(Debug, Clone)]
pub struct Store {
    registry: RegistryId,
    backend: Backend,
}

impl Store {
    /// Connects, creates or migrates the schema, and checks that the database belongs to a registry.
    pub async fn open(url: &DatabaseUrl) -> Result<Self, Error> {
        let (backend, registry) = Backend::open(url, SchemaMode::Migrate).await?;
        Ok(Self { registry, backend })
    }

    /// Connects like [`Store::open`] but never migrates, because servers of another version may be running.
    /// Rejects any other schema version.
    pub async fn open_existing(url: &DatabaseUrl) -> Result<Self, Error> {
        let (backend, registry) = Backend::open(url, SchemaMode::Require).await?;
        Ok(Self { registry, backend })
    }

    /// Schema version of this program.
    pub const SCHEMA: i64 = schema::KNOWN;

    /// Id of the registry, created with the database and immutable.
    pub fn registry(&self) -> &RegistryId {
        &self.registry
    }

    /// Whether several servers can append. A SQLite file has one server.
    pub fn is_shared(&self) -> bool {
        self.backend.is_shared()
    }

    /// Loads the current state as one consistent read. Verifies every document by its digest.
    pub async fn load(&self) -> Result<Catalog, Error> {
        read::load(&self.backend, &self.registry).await
    }

    /// Appends commits after the revision `expected` in one transaction. After the error `Unavailable` the
    /// outcome is unknown: [`Store::commits_after`] or [`Store::find_request`] shows whether they are stored.
    pub async fn append(
        &self,
        expected: Revision,
        commits: &[SealedCommit],
    ) -> Result<(), AppendError> {
        self.append_locked(None, expected, commits, &[]).await
    }

    /// Appends commits of the upstream registry, whose request ids were checked there.
    pub async fn append_copy(
        &self,
        expected: Revision,
        commits: &[SealedCommit],
    ) -> Result<(), AppendError> {
        self.within(
            OPERATION_TIMEOUT,
            self.backend.append(None, expected, commits, CommitSource::Upstream),
        )
        .await
    }

    /// Appends commits like [`Store::append`], with an optional lock on the head and with access events.
    pub async fn append_locked(
        &self,
        lock: Option<HeadLock>,
        expected: Revision,
        commits: &[SealedCommit],
        events: &[CommitEvent],
    ) -> Result<(), AppendError> {
        let source = CommitSource::Local(events);
        self.within(OPERATION_TIMEOUT, self.backend.append(lock, expected, commits, source)).await
    }

    /// Locks the head row, for a server that lost several races. `None` if the database has only one server.
    pub async fn lock_head(&self) -> Result<Option<HeadLock>, Error> {
        self.within(OPERATION_TIMEOUT, self.backend.lock_head()).await
    }

    /// Reads commits after a position, oldest first, and verifies each against the chain. Returns at most `limit`
    /// commits, and fewer if they have many changes; only an empty page is the end.
    pub async fn commits_after(
        &self,
        position: (Revision, ChainHash),
        limit: usize,
    ) -> Result<Vec<SealedCommit>, Error> {
        self.within(OPERATION_TIMEOUT, read::commits_after(&self.backend, position, limit)).await
    }

    /// Finds the commit of a request, unless the request id has expired.
    pub async fn find_request(
        &self,
        author: &str,
        request_id: &str,
        now: Timestamp,
    ) -> Result<Option<StoredCommitHeader>, Error> {
        let finding = read::find_request(&self.backend, (author, request_id), now);
        self.within(OPERATION_TIMEOUT, finding).await
    }

    /// Deletes expired request ids.
    pub async fn delete_expired_requests(&self, now: Timestamp) -> Result<(), Error> {
        let backend = &self.backend;
        let since = SqlTimestamp(retries_since(now));
        self.within(OPERATION_TIMEOUT, async {
            execute!(backend, sql::DELETE_EXPIRED_REQUESTS, [since])
        })
        .await
    }

    /// Reads one commit and verifies it against the previous chain hash.
    pub async fn commit(&self, revision: Revision) -> Result<Option<StoredCommit>, Error> {
        self.within(OPERATION_TIMEOUT, read::commit(&self.backend, &self.registry, revision)).await
    }

    /// Lists commits with their changes. Returns at most `limit` commits, and fewer if they have many changes;
    /// only an empty page is the end.
    pub async fn list_commits(&self, query: &CommitQuery) -> Result<Vec<StoredCommit>, Error> {
        self.within(OPERATION_TIMEOUT, read::list_commits(&self.backend, &self.registry, query))
            .await
    }

    /// Lists the changes of a name or of one version, oldest first. A page with fewer than `limit` items is the
    /// last one.
    pub async fn entity_history(&self, query: &HistoryQuery) -> Result<Vec<EntityEvent>, Error> {
        self.within(OPERATION_TIMEOUT, read::entity_history(&self.backend, query)).await
    }

    /// Lists the settings of a name, oldest first. A page with fewer than `limit` items is the last one.
    pub async fn setting_history(&self, query: &HistoryQuery) -> Result<Vec<SettingEvent>, Error> {
        self.within(OPERATION_TIMEOUT, read::setting_history(&self.backend, query)).await
    }

    /// Verified chain hash after a revision; `None` if the revision does not exist.
    pub async fn chain_after(&self, revision: Revision) -> Result<Option<ChainHash>, Error> {
        self.within(OPERATION_TIMEOUT, read::chain_after(&self.backend, &self.registry, revision))
            .await
    }

    /// Stored head: the last revision and its chain hash.
    pub async fn head(&self) -> Result<(Revision, ChainHash), Error> {
        self.within(OPERATION_TIMEOUT, read::stored_head(&self.backend)).await
    }

    /// Stored chain hash of a revision, without reading the commit; `None` if the revision does not exist.
    pub async fn stored_chain(&self, revision: Revision) -> Result<Option<ChainHash>, Error> {
        self.within(OPERATION_TIMEOUT, read::stored_chain(&self.backend, revision)).await
    }

    /// State of the log at an earlier revision; `None` if the revision does not exist.
    pub async fn past(&self, revision: Revision) -> Result<Option<Past>, Error> {
        self.within(OPERATION_TIMEOUT, past::past(&self.backend, &self.registry, revision)).await
    }

    /// Last revision at or before a time; 0 before the first commit.
    pub async fn revision_at(&self, time: Timestamp) -> Result<Revision, Error> {
        self.within(OPERATION_TIMEOUT, past::revision_at(&self.backend, time)).await
    }

    /// Verifies the whole database and lists mismatches. Sends its progress, and stops if the receiver is dropped.
    pub async fn verify(
        &self,
        known: ServedState,
        progress: mpsc::Sender<Progress>,
    ) -> Result<(Progress, Findings), Error> {
        audit::verify(&self.backend, &self.registry, known, progress).await
    }

    /// Reads a page of verified chain hashes after a position; an empty page is the end.
    pub async fn chains_after(
        &self,
        position: (Revision, ChainHash),
    ) -> Result<Vec<ChainHash>, Error> {
        self.within(OPERATION_TIMEOUT, audit::chains_after(&self.backend, position)).await
    }

    /// Public key of the registry's checkpoints. Stores `ours` if the database has none.
    pub async fn checkpoint_key(&self, ours: &str) -> Result<String, Error> {
        self.within(OPERATION_TIMEOUT, key::known(&self.backend, ours)).await
    }

    /// Replaces the public key of the checkpoints, forgets the key of approvals, and ends all standing grants. Turns a
    /// relay's copy into the registry.
    pub async fn replace_checkpoint_key(
        &self,
        new: &str,
        event: &NewAccessEvent,
    ) -> Result<(), Error> {
        self.within(OPERATION_TIMEOUT, key::replace(&self.backend, new, event)).await
    }

    /// Listener for commits of other servers, with a connection of its own.
    pub async fn listener(&self) -> Result<Listener, Error> {
        self.within(OPERATION_TIMEOUT, self.backend.listener()).await
    }

    /// Checks that the database answers.
    pub async fn check(&self) -> Result<(), Error> {
        self.within(CHECK_TIMEOUT, read::check(&self.backend)).await
    }

    /// Fails if the SQLite file was deleted or replaced since it was opened. Does not access the database.
    pub fn check_file(&self) -> Result<(), Error> {
        self.backend.check_file()
    }

    /// Waits for running operations and closes the connections. SQLite then merges its write-ahead log.
    pub async fn close(&self) {
        // Connections that do not close in time are closed with the process.
        let _ = tokio::time::timeout(CHECK_TIMEOUT, self.backend.close()).await;
    }

    /// Applies a timeout, so that an unresponsive database or network does not block callers.
    async fn within<T, E: From<Error>>(
        &self,
        limit: Duration,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        tokio::time::timeout(limit, work).await.unwrap_or_else(|_| {
            let database = self.backend.name().to_owned();
            let detail = format!("timed out after {} seconds", limit.as_secs());
            Err(Error::Unavailable { database, detail }.into())
        })
    }
}

//! The store: the log and the entities that it registers, in SQLite or Postgres.
//!
//! [`Store::append`] is the only write. It moves the head and inserts everything in one transaction,
//! so that what a reader sees is always whole commits in revision order. Everything that comes back
//! has been proved: documents by their digest, commits by the chain.

mod at;
mod audit;
mod backend;
mod batch;
mod claim;
mod error;
mod gateways;
mod key;
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
mod sqlite;
mod tokens;
mod url;

use std::time::Duration;

use registry_core::{Catalog, ChainHash, RegistryId, Revision, SealedCommit, Timestamp};

use at::At;
pub use audit::{Finding, Findings, Known, Progress};
pub use backend::Hold;
use backend::{Backend, execute};
use batch::{Made, retries_since};
pub use claim::Claim;
pub use error::{AppendError, Error};
pub use gateways::{Beat, GatewayQuery, KnownGateway, Presence};
pub use listener::{Listener, Loss, Wake};
pub use model::{
    About, CommitQuery, EntityEvent, HistoryQuery, Order, SettingEvent, StoredCommit,
    StoredCommitHeader, Subject,
};
pub use past::Past;
use schema::Opening;
pub use tokens::{
    AccessEvent, CommitEvent, NewAccessEvent, Revoked, StoredToken, TokenPlace, Which,
};
use tokio::sync::mpsc;
pub use url::{DatabaseUrl, InvalidDatabaseUrl};

/// How long an operation may take before the database counts as unavailable: longer than the
/// database's own limits, which know better what is wrong.
const PATIENCE: Duration = Duration::from_secs(45);
/// The same for [`Store::check`], which a readiness probe waits for.
const CHECK: Duration = Duration::from_secs(2);

/// A registry's database. Clones share its connections.
#[derive(Debug, Clone)]
pub struct Store {
    registry: RegistryId,
    backend: Backend,
}

impl Store {
    /// Connects, creates or migrates the schema, and checks that the database is ours.
    pub async fn open(url: &DatabaseUrl) -> Result<Self, Error> {
        let (backend, registry) = Backend::open(url, Opening::Migrate).await?;
        Ok(Self { registry, backend })
    }

    /// As [`Store::open`], beside servers of another version: rejects a schema that is not this program's
    /// and migrates nothing.
    pub async fn open_beside(url: &DatabaseUrl) -> Result<Self, Error> {
        let (backend, registry) = Backend::open(url, Opening::AsItIs).await?;
        Ok(Self { registry, backend })
    }

    /// The schema version of this program.
    pub const SCHEMA: i64 = schema::KNOWN;

    /// Which registry this is: created with the database, never changed.
    pub fn registry(&self) -> &RegistryId {
        &self.registry
    }

    /// Whether other servers may append to it. A SQLite file has one server.
    pub fn is_shared(&self) -> bool {
        self.backend.is_shared()
    }

    /// The current state, as one consistent read. Every document is proved by its digest.
    pub async fn load(&self) -> Result<Catalog, Error> {
        read::load(&self.backend, &self.registry).await
    }

    /// Appends these commits, which must follow on `expected`, in one transaction: all or none.
    /// No commits are no work. An error of the kind `Unavailable` leaves open whether they were
    /// stored; [`Store::commits_after`] or [`Store::find_request`] tells.
    pub async fn append(
        &self,
        expected: Revision,
        commits: &[SealedCommit],
    ) -> Result<(), AppendError> {
        self.append_holding(None, expected, commits, &[]).await
    }

    /// As [`Store::append`], for commits of another registry. Their request ids were judged there.
    pub async fn append_copy(
        &self,
        expected: Revision,
        commits: &[SealedCommit],
    ) -> Result<(), AppendError> {
        self.within(PATIENCE, self.backend.append(None, expected, commits, Made::Elsewhere)).await
    }

    /// As [`Store::append`], with the hold on the head, if there is one, and lines of the trail of access.
    pub async fn append_holding(
        &self,
        hold: Option<Hold>,
        expected: Revision,
        commits: &[SealedCommit],
        events: &[CommitEvent],
    ) -> Result<(), AppendError> {
        let made = Made::Here(events);
        self.within(PATIENCE, self.backend.append(hold, expected, commits, made)).await
    }

    /// Waits until it is this server's turn to append, for one that keeps losing the race. `None`
    /// where a database has one server.
    pub async fn hold(&self) -> Result<Option<Hold>, Error> {
        self.within(PATIENCE, self.backend.hold()).await
    }

    /// The commits after a position, oldest first, each proved against the chain hash before it.
    /// At most `limit`, and fewer where they have many changes: only an empty answer means that
    /// there are no more.
    pub async fn commits_after(
        &self,
        position: (Revision, ChainHash),
        limit: usize,
    ) -> Result<Vec<SealedCommit>, Error> {
        self.within(PATIENCE, read::commits_after(&self.backend, position, limit)).await
    }

    /// The commit that a request of an author made, if it made one and is not forgotten by now.
    pub async fn find_request(
        &self,
        author: &str,
        request_id: &str,
        now: Timestamp,
    ) -> Result<Option<StoredCommitHeader>, Error> {
        let finding = read::find_request(&self.backend, (author, request_id), now);
        self.within(PATIENCE, finding).await
    }

    /// Deletes the ids of requests that are too old to be retried now.
    pub async fn forget_requests(&self, now: Timestamp) -> Result<(), Error> {
        let backend = &self.backend;
        let since = At(retries_since(now));
        self.within(PATIENCE, async { execute!(backend, sql::FORGET_REQUESTS, [since]) }).await
    }

    /// One commit, proved against the chain hash before it.
    pub async fn commit(&self, revision: Revision) -> Result<Option<StoredCommit>, Error> {
        self.within(PATIENCE, read::commit(&self.backend, &self.registry, revision)).await
    }

    /// Commits in the order asked for, with their changes. At most `limit`, and fewer where they
    /// have many changes: only an empty answer means that there are no more.
    pub async fn list_commits(&self, query: &CommitQuery) -> Result<Vec<StoredCommit>, Error> {
        self.within(PATIENCE, read::list_commits(&self.backend, &self.registry, query)).await
    }

    /// The changes of one name, or of one version of it, oldest first. Fewer than `limit` means
    /// that there are no more.
    pub async fn entity_history(&self, query: &HistoryQuery) -> Result<Vec<EntityEvent>, Error> {
        self.within(PATIENCE, read::entity_history(&self.backend, query)).await
    }

    /// What was set about the name, oldest first; nothing of a version of it. Fewer than `limit`
    /// means that there is no more.
    pub async fn setting_history(&self, query: &HistoryQuery) -> Result<Vec<SettingEvent>, Error> {
        self.within(PATIENCE, read::setting_history(&self.backend, query)).await
    }

    /// The chain hash after a revision; `None`: there is no such commit.
    pub async fn chain_after(&self, revision: Revision) -> Result<Option<ChainHash>, Error> {
        self.within(PATIENCE, read::chain_after(&self.backend, &self.registry, revision)).await
    }

    /// The stored head: the last revision of the log and the chain hash after it.
    pub async fn head(&self) -> Result<(Revision, ChainHash), Error> {
        self.within(PATIENCE, read::stored_head(&self.backend)).await
    }

    /// The chain hash that is stored with a revision, without reading the commit; `None`: there is
    /// no such commit.
    pub async fn stored_chain(&self, revision: Revision) -> Result<Option<ChainHash>, Error> {
        self.within(PATIENCE, read::stored_chain(&self.backend, revision)).await
    }

    /// What the log says of an earlier revision; `None`: there is no such commit.
    pub async fn past(&self, revision: Revision) -> Result<Option<Past>, Error> {
        self.within(PATIENCE, past::past(&self.backend, &self.registry, revision)).await
    }

    /// The last revision at a time or before it; 0 before the first.
    pub async fn revision_at(&self, time: Timestamp) -> Result<Revision, Error> {
        self.within(PATIENCE, past::revision_at(&self.backend, time)).await
    }

    /// Proves everything that the database holds, and lists what does not fit. `told` hears how far
    /// it is, and ends it by going away.
    pub async fn verify(
        &self,
        known: Known,
        told: mpsc::Sender<Progress>,
    ) -> Result<(Progress, Findings), Error> {
        audit::verify(&self.backend, &self.registry, known, told).await
    }

    /// A page of the chain hashes after a position, each proved by its commit's bytes; none at the
    /// end.
    pub async fn chains_after(
        &self,
        position: (Revision, ChainHash),
    ) -> Result<Vec<ChainHash>, Error> {
        self.within(PATIENCE, audit::chains_after(&self.backend, position)).await
    }

    /// The key that signs this registry's checkpoints, `NAME+HASH+KEY`: this one, where none is
    /// known yet.
    pub async fn checkpoint_key(&self, ours: &str) -> Result<String, Error> {
        self.within(PATIENCE, key::known(&self.backend, ours)).await
    }

    /// Lets another key sign checkpoints from now on. A relay's copy becomes the registry by that.
    pub async fn replace_checkpoint_key(&self, new: &str) -> Result<(), Error> {
        self.within(PATIENCE, key::replace(&self.backend, new)).await
    }

    /// What wakes whoever follows the log. It holds a connection of its own.
    pub async fn listener(&self) -> Result<Listener, Error> {
        self.within(PATIENCE, self.backend.listener()).await
    }

    /// Whether the database answers, as cheaply as that can be known.
    pub async fn check(&self) -> Result<(), Error> {
        self.within(CHECK, read::check(&self.backend)).await
    }

    /// Rejects a database whose file was deleted or replaced since it was opened. It reads no
    /// database; Postgres has no such file.
    pub fn check_file(&self) -> Result<(), Error> {
        self.backend.check_file()
    }

    /// Closes the connections, when nobody uses them any more; SQLite then folds its journal into
    /// the file. Nothing is lost without it.
    pub async fn close(&self) {
        // Whatever does not close in time is closed with the process.
        let _ = tokio::time::timeout(CHECK, self.backend.close()).await;
    }

    /// A database that hangs, or a network that swallows, must not hang its callers.
    async fn within<T, E: From<Error>>(
        &self,
        limit: Duration,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        tokio::time::timeout(limit, work).await.unwrap_or_else(|_| {
            let database = self.backend.name().to_owned();
            let detail = format!("no answer within {} seconds", limit.as_secs());
            Err(Error::Unavailable { database, detail }.into())
        })
    }
}

//! Common interface of the two databases, and the macros that run a statement on either.

use registry_core::{Commit, RegistryId, Revision, SealedCommit};
use sqlx::{Postgres, Sqlite, Transaction};

use super::{
    AppendError, DatabaseUrl, Error, Listener,
    batch::{Batch, CommitSource},
    postgres::{self, HeadTransaction, PostgresStore},
    read,
    schema::{self, Schema, SchemaMode},
    sqlite::{self, SqliteStore},
    url::Target,
};

/// Runs one of the shared queries: `run!(Backend(backend), HeadRow, sql::HEAD, [binds], fetch_one)`.
macro_rules! run {
    ($enum:ident($backend:expr), $row:ty, $sql:expr, [$($bind:expr),* $(,)?], $fetch:ident) => {
        match $backend {
            $enum::Sqlite(store) => {
                sqlx::query_as::<sqlx::Sqlite, $row>($sql)$(.bind($bind))*.$fetch(store.reader()).await
            }
            $enum::Postgres(store) => {
                sqlx::query_as::<sqlx::Postgres, $row>($sql)$(.bind($bind))*.$fetch(store.reader()).await
            }
        }
    };
}
pub(super) use run;

/// Runs one statement on either database in its own transaction. `@count`: returns the number of affected rows.
macro_rules! execute {
    (@count $backend:expr, $sql:expr, [$($bind:expr),* $(,)?]) => {
        match $backend {
            Backend::Sqlite(store) => {
                let done = sqlx::query($sql)$(.bind($bind))*.execute(store.writer()).await;
                done.map(|done| done.rows_affected())
            }
            Backend::Postgres(store) => {
                let done = sqlx::query($sql)$(.bind($bind))*.execute(store.writer()).await;
                done.map(|done| done.rows_affected())
            }
        }
        .map_err(|e| $backend.explain(&e))
    };
    ($backend:expr, $sql:expr, [$($bind:expr),* $(,)?]) => {
        execute!(@count $backend, $sql, [$($bind),*]).map(drop)
    };
}
pub(super) use execute;

/// An open database.
#[derive(Debug, Clone)]
pub(super) enum Backend {
    Sqlite(SqliteStore),
    Postgres(PostgresStore),
}

/// Exclusive lock on the head row. Other servers wait until it is used or dropped.
pub struct HeadLock(HeadTransaction);

/// An object that may change written rows: its type, name, table, and its statement if it is enabled and known.
pub(super) type WriteHook = (String, String, String, Option<String>);

/// A consistent snapshot for a read with several queries.
pub(super) enum Snapshot {
    Sqlite(SqliteSnapshot),
    Postgres(PostgresSnapshot),
}

pub(super) struct SqliteSnapshot(Transaction<'static, Sqlite>);
pub(super) struct PostgresSnapshot(Transaction<'static, Postgres>);

impl SqliteSnapshot {
    pub(super) fn reader(&mut self) -> &mut sqlx::SqliteConnection {
        &mut self.0
    }
}

impl PostgresSnapshot {
    pub(super) fn reader(&mut self) -> &mut sqlx::PgConnection {
        &mut self.0
    }
}

/// Result of an append without a failure.
pub(super) enum AppendResult {
    /// All rows are stored.
    Stored,
    /// The head was at another revision. Nothing was written.
    HeadMoved(Revision),
}

/// A failed append.
pub(super) enum AppendFailure {
    /// An earlier commit has a request id of the batch.
    RequestId,
    /// The database files were lost during the commit, so the outcome is unknown.
    Lost(Error),
    /// Any other failure.
    Store(Error),
}

/// Classifies an error that has no code of the database.
pub(super) fn driver_error(database: String, error: &sqlx::Error) -> Error {
    let detail = error.to_string();
    match error {
        sqlx::Error::Io(_)
        | sqlx::Error::Tls(_)
        | sqlx::Error::Protocol(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::PoolClosed
        | sqlx::Error::BeginFailed
        | sqlx::Error::WorkerCrashed => Error::Unavailable { database, detail },
        sqlx::Error::RowNotFound => Error::Corrupt { what: "the table head".to_owned(), detail },
        sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) => {
            Error::Corrupt { what: database, detail }
        }
        _ => Error::StatementRejected { database, detail },
    }
}

impl Backend {
    pub(super) async fn open(
        url: &DatabaseUrl,
        mode: SchemaMode,
    ) -> Result<(Self, RegistryId), Error> {
        let name = url.to_string();
        match &url.0 {
            Target::Sqlite(path) => {
                let (store, registry) = SqliteStore::open(path, name, mode).await?;
                Ok((Self::Sqlite(store), registry))
            }
            Target::Postgres(servers) => {
                let (store, registry) = PostgresStore::open(servers, name, mode).await?;
                Ok((Self::Postgres(store), registry))
            }
        }
    }

    /// Database URL without its password.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Sqlite(store) => store.name(),
            Self::Postgres(store) => store.name(),
        }
    }

    /// Converts a driver error.
    pub(super) fn explain(&self, error: &sqlx::Error) -> Error {
        match self {
            Self::Sqlite(store) => store.explain(error),
            Self::Postgres(store) => store.explain(error),
        }
    }

    pub(super) async fn snapshot(&self) -> Result<Snapshot, Error> {
        let begun = match self {
            Self::Sqlite(store) => {
                store.begin_read().await.map(|tx| Snapshot::Sqlite(SqliteSnapshot(tx)))
            }
            Self::Postgres(store) => {
                store.begin_read().await.map(|tx| Snapshot::Postgres(PostgresSnapshot(tx)))
            }
        };
        begun.map_err(|e| self.explain(&e))
    }

    /// Whether several servers can append.
    pub(super) fn is_shared(&self) -> bool {
        matches!(self, Self::Postgres(_))
    }

    /// Locks the head row; `None` on SQLite, which has one server.
    pub(super) async fn lock_head(&self) -> Result<Option<HeadLock>, Error> {
        match self {
            Self::Sqlite(_) => Ok(None),
            Self::Postgres(store) => {
                let transaction = store.lock_head().await.map_err(|e| self.explain(&e))?;
                Ok(Some(HeadLock(transaction)))
            }
        }
    }

    pub(super) async fn append(
        &self,
        lock: Option<HeadLock>,
        expected: Revision,
        commits: &[SealedCommit],
        source: CommitSource<'_>,
    ) -> Result<(), AppendError> {
        let failed = |detail| Error::StatementRejected { database: self.name().to_owned(), detail };
        let Some(batch) = Batch::new(expected, commits, source).map_err(failed)? else {
            return Ok(());
        };
        if batch.repeats_request && !batch.is_copy() {
            return Err(self.name_request(commits).await);
        }
        let appended = match self {
            Self::Sqlite(store) => store.append(expected, &batch).await,
            Self::Postgres(store) => {
                store.append(lock.map(|HeadLock(transaction)| transaction), expected, &batch).await
            }
        };
        match appended {
            Ok(AppendResult::Stored) => Ok(()),
            Ok(AppendResult::HeadMoved(head)) => Err(AppendError::Conflict { head }),
            Err(AppendFailure::RequestId) => Err(self.name_request(commits).await),
            Err(AppendFailure::Lost(error)) => Err(AppendError::Lost(error)),
            Err(AppendFailure::Store(error)) => Err(error.into()),
        }
    }

    /// Finds the request id that an earlier commit has.
    async fn name_request(&self, commits: &[SealedCommit]) -> AppendError {
        let mut seen = std::collections::HashMap::new();
        for Commit { author, request_id, committed_at, revision, .. } in
            commits.iter().map(SealedCommit::commit)
        {
            let Some(request_id) = request_id.clone() else { continue };
            let key = (author.clone(), request_id);
            let found = read::find_request(self, (&key.0, &key.1), *committed_at).await;
            let stored = match found {
                Ok(found) => found.map(|header| header.revision),
                Err(error) => return error.into(),
            };
            if let Some(revision) = stored.or(seen.insert(key.clone(), *revision)) {
                let (author, request_id) = key;
                return AppendError::RequestIdTaken { author, request_id, revision };
            }
        }
        let detail = "a request id is taken, but no commit has it".to_owned();
        Error::StatementRejected { database: self.name().to_owned(), detail }.into()
    }

    /// Migrations of this database.
    pub(super) fn schema(&self) -> &'static Schema {
        match self {
            Self::Sqlite(_) => &schema::SQLITE,
            Self::Postgres(_) => &schema::POSTGRES,
        }
    }

    /// Triggers, rules and settings that may change written rows.
    pub(super) async fn write_hooks(
        &self,
        snapshot: &mut Snapshot,
    ) -> Result<Vec<WriteHook>, Error> {
        let found = match snapshot {
            Snapshot::Sqlite(of) => sqlite::write_hooks(of.reader()).await,
            Snapshot::Postgres(of) => postgres::write_hooks(of.reader()).await,
        };
        found.map_err(|e| self.explain(&e))
    }

    pub(super) fn check_file(&self) -> Result<(), Error> {
        match self {
            Self::Sqlite(store) => store.check_file().map_err(|e| store.explain(&e)),
            Self::Postgres(_) => Ok(()),
        }
    }

    pub(super) async fn close(&self) {
        match self {
            Self::Sqlite(store) => store.close().await,
            Self::Postgres(store) => store.close().await,
        }
    }

    pub(super) async fn listener(&self) -> Result<Listener, Error> {
        match self {
            Self::Sqlite(_) => Ok(Listener::never()),
            Self::Postgres(store) => Listener::postgres(store.clone()).await,
        }
    }
}

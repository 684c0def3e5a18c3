//! The two databases behind one face, and the macro that runs a query on either.

use registry_core::{Commit, RegistryId, Revision, SealedCommit};
use sqlx::{Postgres, Sqlite, Transaction};

use super::{
    AppendError, DatabaseUrl, Error, Listener,
    batch::{Batch, Made},
    postgres::{self, HeldHead, PostgresStore},
    read,
    schema::{self, Opening, Schema},
    sqlite::{self, SqliteStore},
    url::Target,
};

/// Runs one of the shared queries: `run!(Backend(backend), HeadRow, sql::HEAD, [binds], fetch_one)`.
macro_rules! run {
    ($enum:ident($on:expr), $row:ty, $sql:expr, [$($bind:expr),* $(,)?], $fetch:ident) => {
        match $on {
            $enum::Sqlite(on) => {
                sqlx::query_as::<sqlx::Sqlite, $row>($sql)$(.bind($bind))*.$fetch(on.reader()).await
            }
            $enum::Postgres(on) => {
                sqlx::query_as::<sqlx::Postgres, $row>($sql)$(.bind($bind))*.$fetch(on.reader()).await
            }
        }
    };
}
pub(super) use run;

/// Runs one statement on either database, as a transaction of its own.
macro_rules! execute {
    ($backend:expr, $sql:expr, [$($bind:expr),* $(,)?]) => {
        match $backend {
            Backend::Sqlite(on) => {
                sqlx::query($sql)$(.bind($bind))*.execute(on.writer()).await.map(drop)
            }
            Backend::Postgres(on) => {
                sqlx::query($sql)$(.bind($bind))*.execute(on.writer()).await.map(drop)
            }
        }
        .map_err(|e| $backend.explain(&e))
    };
}
pub(super) use execute;

/// An open database of either sort.
#[derive(Debug, Clone)]
pub(super) enum Backend {
    Sqlite(SqliteStore),
    Postgres(PostgresStore),
}

/// The right to append next. Other servers wait until it is used or dropped.
pub struct Hold(HeldHead);

/// Something that may change what is written: what it is, its name, its table, and its statement,
/// where it works and is known.
pub(super) type Meddler = (String, String, String, Option<String>);

/// One unchanging state of the database, for a read of several queries.
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

/// How an append ended where nothing broke.
pub(super) enum Appended {
    /// Everything is stored.
    Yes,
    /// The head was elsewhere. Nothing was written.
    HeadMoved(Revision),
}

/// Why an append was refused by the database.
pub(super) enum Refusal {
    /// The unique constraint on request ids.
    RequestId,
    /// The files were lost during the commit, so its outcome is unknown.
    Lost(Error),
    /// Everything else.
    Store(Error),
}

impl Backend {
    pub(super) async fn open(
        url: &DatabaseUrl,
        opening: Opening,
    ) -> Result<(Self, RegistryId), Error> {
        let name = url.to_string();
        match &url.0 {
            Target::Sqlite(path) => {
                let (store, registry) = SqliteStore::open(path, name, opening).await?;
                Ok((Self::Sqlite(store), registry))
            }
            Target::Postgres(servers) => {
                let (store, registry) = PostgresStore::open(servers, name, opening).await?;
                Ok((Self::Postgres(store), registry))
            }
        }
    }

    /// The database's name without its password.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Sqlite(store) => store.name(),
            Self::Postgres(store) => store.name(),
        }
    }

    /// What a failure of the driver means.
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

    /// Whether several servers may append.
    pub(super) fn is_shared(&self) -> bool {
        matches!(self, Self::Postgres(_))
    }

    /// `None`: there is nobody else who could append.
    pub(super) async fn hold(&self) -> Result<Option<Hold>, Error> {
        match self {
            Self::Sqlite(_) => Ok(None),
            Self::Postgres(store) => {
                let held = store.hold_head().await.map_err(|e| self.explain(&e))?;
                Ok(Some(Hold(held)))
            }
        }
    }

    pub(super) async fn append(
        &self,
        hold: Option<Hold>,
        expected: Revision,
        commits: &[SealedCommit],
        made: Made<'_>,
    ) -> Result<(), AppendError> {
        let refused = |detail| Error::Refused { database: self.name().to_owned(), detail };
        let Some(batch) = Batch::new(expected, commits, made).map_err(refused)? else {
            return Ok(());
        };
        let appended = match self {
            Self::Sqlite(store) => store.append(expected, &batch).await,
            Self::Postgres(store) => {
                store.append(hold.map(|Hold(held)| held), expected, &batch).await
            }
        };
        match appended {
            Ok(Appended::Yes) => Ok(()),
            Ok(Appended::HeadMoved(head)) => Err(AppendError::Conflict { head }),
            Err(Refusal::RequestId) => Err(self.name_request(commits).await),
            Err(Refusal::Lost(error)) => Err(AppendError::Lost(error)),
            Err(Refusal::Store(error)) => Err(error.into()),
        }
    }

    /// Says which request id was taken, after the database refused one.
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
        let detail = "it refused a request id that nobody has".to_owned();
        Error::Refused { database: self.name().to_owned(), detail }.into()
    }

    /// What its migrations make.
    pub(super) fn schema(&self) -> &'static Schema {
        match self {
            Self::Sqlite(_) => &schema::SQLITE,
            Self::Postgres(_) => &schema::POSTGRES,
        }
    }

    /// What may change what is written: triggers, rules, a setting.
    pub(super) async fn meddlers(&self, snapshot: &mut Snapshot) -> Result<Vec<Meddler>, Error> {
        let found = match snapshot {
            Snapshot::Sqlite(of) => sqlite::meddlers(of.reader()).await,
            Snapshot::Postgres(of) => postgres::meddlers(of.reader()).await,
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
            Self::Postgres(store) => store.reader().close().await,
        }
    }

    pub(super) async fn listener(&self) -> Result<Listener, Error> {
        match self {
            Self::Sqlite(_) => Ok(Listener::never()),
            Self::Postgres(store) => Listener::postgres(store.clone()).await,
        }
    }
}

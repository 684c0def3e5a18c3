//! The log in one SQLite file: nothing to install, one process.
//!
//! One connection writes, a few read beside it (WAL), and a commit is on the disk before it is
//! acknowledged (`synchronous = FULL`). Notification of other processes is not supported.

mod append;
mod identity;
mod refusal;

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use registry_core::RegistryId;
use sqlx::{
    Connection as _, Sqlite, SqliteConnection, SqlitePool, Transaction,
    pool::PoolOptions,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous},
};

use self::identity::{FileIdentity, Moved};
use super::{
    Error,
    backend::Meddler,
    schema::{self, Opening, Unprepared},
};

/// How long a statement waits for another process that writes the file.
const BUSY: Duration = Duration::from_secs(10);
/// How long an operation waits for one of our own connections.
const ACQUIRE: Duration = Duration::from_secs(15);
const READERS: u32 = 4;
/// Per connection, in KiB, negative as SQLite wants it.
const CACHE: &str = "-16384";

/// An open SQLite file.
#[derive(Debug, Clone)]
pub(super) struct SqliteStore {
    name: Arc<str>,
    writer: SqlitePool,
    readers: SqlitePool,
    file: Arc<FileIdentity>,
}

impl SqliteStore {
    pub(super) async fn open(
        path: &Path,
        name: String,
        opening: Opening,
    ) -> Result<(Self, RegistryId), Error> {
        create_directory(path, &name)?;
        one_name(path, &name)?;
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .foreign_keys(true)
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(BUSY)
            .pragma("cache_size", CACHE);
        let registry = prepare(&options, &name, opening).await?;
        let file = Arc::new(FileIdentity::of(path));
        // A connection that is opened later must not create an empty file in place of a lost one.
        let options = options.create_if_missing(false).journal_mode(SqliteJournalMode::Wal);
        // All connections are opened now and stay open: one that is opened later might find another
        // file at the path, which `after_connect` refuses.
        let pool = |connections| {
            let file = Arc::clone(&file);
            PoolOptions::new()
                .acquire_timeout(ACQUIRE)
                .idle_timeout(None)
                .max_lifetime(None)
                .test_before_acquire(false)
                .min_connections(connections)
                .max_connections(connections)
                .after_connect(move |_, _| {
                    let checked = file.connected().map_err(moved);
                    Box::pin(async { checked })
                })
        };
        let reading = options.clone().pragma("query_only", "on");
        let store = Self {
            writer: pool(1).connect_lazy_with(options),
            readers: pool(READERS).connect_lazy_with(reading),
            name: name.into(),
            file,
        };
        store.connect_all().await.map_err(|e| store.explain(&e))?;
        Ok((store, registry))
    }

    /// Opens all connections. While a reader is open, closing the writer does not delete the journal.
    async fn connect_all(&self) -> Result<(), sqlx::Error> {
        let mut open = vec![self.writer.acquire().await?];
        for _ in 0..READERS {
            open.push(self.readers.acquire().await?);
        }
        Ok(())
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn reader(&self) -> &SqlitePool {
        &self.readers
    }

    /// For a statement that is a transaction of its own.
    pub(super) fn writer(&self) -> &SqlitePool {
        &self.writer
    }

    /// Fails where the file or its journal was deleted or replaced since it was opened.
    pub(super) fn check_file(&self) -> Result<(), sqlx::Error> {
        self.file.check().map_err(moved)
    }

    /// Begins to write; nobody else writes until it is committed or dropped.
    pub(super) async fn begin_write(&self) -> Result<Transaction<'static, Sqlite>, sqlx::Error> {
        self.check_file()?;
        self.writer.begin_with("BEGIN IMMEDIATE").await
    }

    pub(super) async fn begin_read(&self) -> Result<Transaction<'static, Sqlite>, sqlx::Error> {
        self.readers.begin().await
    }

    /// The writer last, so that it is the one that folds the journal into the file.
    pub(super) async fn close(&self) {
        self.readers.close().await;
        self.writer.close().await;
    }

    pub(super) fn explain(&self, error: &sqlx::Error) -> Error {
        refusal::explain(&self.name, error)
    }
}

/// As the driver's error, which `refusal.rs` reads again.
fn moved(moved: Moved) -> sqlx::Error {
    sqlx::Error::Io(std::io::Error::other(moved))
}

/// Makes the file ours in one transaction, so that whoever else opens it waits for all of it. Only
/// then is it switched to WAL: a file of something else stays as it is.
async fn prepare(
    options: &SqliteConnectOptions,
    name: &str,
    opening: Opening,
) -> Result<RegistryId, Error> {
    let unopened = |e: sqlx::Error| refusal::explain_open(name, &e);
    let mut connection = SqliteConnection::connect_with(options).await.map_err(unopened)?;
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await.map_err(unopened)?;
    let registry = schema::prepare::<Sqlite>(&mut transaction, &schema::SQLITE, name, opening)
        .await
        .map_err(|unprepared| match unprepared {
            Unprepared::Driver(error) => unopened(error),
            Unprepared::Store(error) => error,
        })?;
    transaction.commit().await.map_err(unopened)?;
    switch_to_wal(&mut connection).await.map_err(unopened)?;
    connection.close().await.map_err(unopened)?;
    Ok(registry)
}

/// SQLite does not wait here, however long its time-out is, while somebody else has the file open.
async fn switch_to_wal(connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
    let deadline = Instant::now() + BUSY;
    loop {
        match sqlx::query("PRAGMA journal_mode = WAL").execute(&mut *connection).await {
            Err(error) if refusal::is_busy(&error) && Instant::now() < deadline => {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            switched => return switched.map(drop),
        }
    }
}

/// The triggers that there are.
pub(super) async fn meddlers(
    connection: &mut SqliteConnection,
) -> Result<Vec<Meddler>, sqlx::Error> {
    sqlx::query_as("SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE type = 'trigger'")
        .fetch_all(connection)
        .await
}

/// Creates what is missing of the path, and says early what SQLite would say unclearly.
fn create_directory(path: &Path, name: &str) -> Result<(), Error> {
    let config = |detail: String, help| Error::Config { database: name.to_owned(), detail, help };
    if path.is_dir() {
        let detail = format!("{} is a directory", path.display());
        return Err(config(detail, "name a file inside it"));
    }
    let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) else {
        return Ok(());
    };
    fs::create_dir_all(parent).map_err(|e| {
        let detail = format!("the directory {} cannot be created: {e}", parent.display());
        config(detail, "create it, or name a path that this program may write")
    })
}

/// Refuses a file that has hard links: each name of it would have a journal and a lock of its own
/// beside it, and commits would be lost. Symbolic links are followed instead.
fn one_name(path: &Path, name: &str) -> Result<(), Error> {
    match fs::metadata(path) {
        Ok(file) if file.nlink() > 1 => Err(Error::Config {
            database: name.to_owned(),
            detail: format!("{} has other names too (hard links)", path.display()),
            help: "stop what uses it by them, and remove them, or name a copy",
        }),
        _ => Ok(()),
    }
}

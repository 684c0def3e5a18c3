//! The log in a SQLite file, for a single server without another service.
//!
//! One connection writes and a few read concurrently (WAL). A commit is on disk before it is acknowledged
//! (`synchronous = FULL`). Notifications of other processes are not supported.

mod append;
mod errors;
mod identity;

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
    backend::WriteHook,
    schema::{self, SchemaMode, Unprepared},
};

/// Time that a statement waits for a lock of another process.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// Time that the removal of erased data waits for readers. It blocks the writer.
const ERASURE_TIMEOUT: Duration = Duration::from_millis(100);
/// Time that an operation waits for a pooled connection.
const ACQUIRE: Duration = Duration::from_secs(15);
const READERS: u32 = 4;
/// Cache of each connection; a negative value is in KiB.
const CACHE: &str = "-16384";

/// An open SQLite database.
#[derive(Debug, Clone)]
pub(super) struct SqliteStore {
    name: Arc<str>,
    writer: SqlitePool,
    readers: SqlitePool,
    /// One connection that removes erased data from the journal.
    eraser: SqlitePool,
    file: Arc<FileIdentity>,
}

impl SqliteStore {
    pub(super) async fn open(
        path: &Path,
        name: String,
        mode: SchemaMode,
    ) -> Result<(Self, RegistryId), Error> {
        create_directory(path, &name)?;
        reject_hard_links(path, &name)?;
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .foreign_keys(true)
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(BUSY_TIMEOUT)
            .pragma("cache_size", CACHE)
            // Deleted values are overwritten.
            .pragma("secure_delete", "on");
        let registry = prepare(&options, &name, mode).await?;
        let file = Arc::new(FileIdentity::new(path));
        // A later connection must not create an empty file in place of a lost one.
        let options = options.create_if_missing(false).journal_mode(SqliteJournalMode::Wal);
        // All connections are opened now and stay open. A later one could open another file at the path, which
        // `after_connect` rejects.
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
                    let checked = file.connected().map_err(wrap);
                    Box::pin(async { checked })
                })
        };
        let reading = options.clone().pragma("query_only", "on");
        let erasing = reading.clone().busy_timeout(ERASURE_TIMEOUT);
        let store = Self {
            writer: pool(1).connect_lazy_with(options),
            readers: pool(READERS).connect_lazy_with(reading),
            eraser: pool(1).connect_lazy_with(erasing),
            name: name.into(),
            file,
        };
        store.connect_all().await.map_err(|e| store.explain(&e))?;
        Ok((store, registry))
    }

    /// Opens all connections. An open reader prevents SQLite from deleting the journal.
    async fn connect_all(&self) -> Result<(), sqlx::Error> {
        let mut open = vec![self.writer.acquire().await?];
        for _ in 0..READERS {
            open.push(self.readers.acquire().await?);
        }
        open.push(self.eraser.acquire().await?);
        Ok(())
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn reader(&self) -> &SqlitePool {
        &self.readers
    }

    /// Connections for a statement in its own transaction.
    pub(super) fn writer(&self) -> &SqlitePool {
        &self.writer
    }

    /// Fails if the file or its journal was deleted or replaced since it was opened.
    pub(super) fn check_file(&self) -> Result<(), sqlx::Error> {
        self.file.check().map_err(wrap)
    }

    /// Starts a write transaction, which excludes other writers.
    pub(super) async fn begin_write(&self) -> Result<Transaction<'static, Sqlite>, sqlx::Error> {
        self.check_file()?;
        self.writer.begin_with("BEGIN IMMEDIATE").await
    }

    pub(super) async fn begin_read(&self) -> Result<Transaction<'static, Sqlite>, sqlx::Error> {
        self.readers.begin().await
    }

    /// Moves the content of the journal to the file, and empties the journal, which contains erased values. A reader
    /// of an earlier state prevents it until a later call.
    pub(super) async fn empty_journal(&self) -> Result<(), sqlx::Error> {
        self.check_file()?;
        let emptied = sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").execute(&self.eraser);
        emptied.await.map(drop)
    }

    /// Closes the writer last, because the last connection merges the journal into the file.
    pub(super) async fn close(&self) {
        self.readers.close().await;
        self.eraser.close().await;
        self.writer.close().await;
    }

    pub(super) fn explain(&self, error: &sqlx::Error) -> Error {
        errors::explain(&self.name, error)
    }
}

/// Wraps the error for `errors.rs`, which unwraps it.
fn wrap(moved: Moved) -> sqlx::Error {
    sqlx::Error::Io(std::io::Error::other(moved))
}

/// Prepares the file in one transaction, then switches it to WAL. A file of another application stays unchanged.
async fn prepare(
    options: &SqliteConnectOptions,
    name: &str,
    mode: SchemaMode,
) -> Result<RegistryId, Error> {
    let open_error = |e: sqlx::Error| errors::explain_open(name, &e);
    let mut connection = SqliteConnection::connect_with(options).await.map_err(open_error)?;
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await.map_err(open_error)?;
    let registry = schema::prepare::<Sqlite>(&mut transaction, &schema::SQLITE, name, mode)
        .await
        .map_err(|unprepared| match unprepared {
        Unprepared::Driver(error) => open_error(error),
        Unprepared::Store(error) => error,
    })?;
    transaction.commit().await.map_err(open_error)?;
    switch_to_wal(&mut connection).await.map_err(open_error)?;
    connection.close().await.map_err(open_error)?;
    Ok(registry)
}

/// Switches to WAL. SQLite ignores its busy timeout here while another process has the file open.
async fn switch_to_wal(connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
    let deadline = Instant::now() + BUSY_TIMEOUT;
    loop {
        match sqlx::query("PRAGMA journal_mode = WAL").execute(&mut *connection).await {
            Err(error) if errors::is_busy(&error) && Instant::now() < deadline => {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            switched => return switched.map(drop),
        }
    }
}

/// Triggers of the database.
pub(super) async fn write_hooks(
    connection: &mut SqliteConnection,
) -> Result<Vec<WriteHook>, sqlx::Error> {
    sqlx::query_as("SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE type = 'trigger'")
        .fetch_all(connection)
        .await
}

/// Creates the missing directories of the path, with clearer errors than SQLite.
fn create_directory(path: &Path, name: &str) -> Result<(), Error> {
    let config = |detail: String, help| Error::Config { database: name.to_owned(), detail, help };
    if path.is_dir() {
        let detail = format!("{} is a directory", path.display());
        return Err(config(detail, "pass the path of a file in it"));
    }
    let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) else {
        return Ok(());
    };
    fs::create_dir_all(parent).map_err(|e| {
        let detail = format!("cannot create the directory {}: {e}", parent.display());
        config(detail, "create it, or choose a writable path")
    })
}

/// Rejects a file with hard links: each link would have its own journal and lock, and commits would be lost.
fn reject_hard_links(path: &Path, name: &str) -> Result<(), Error> {
    match fs::metadata(path) {
        Ok(file) if file.nlink() > 1 => Err(Error::Config {
            database: name.to_owned(),
            detail: format!("{} has several hard links", path.display()),
            help: "stop the programs that use the other links and remove those links, or use a copy",
        }),
        _ => Ok(()),
    }
}

//! The log in Postgres: several servers may share it.
//!
//! Deliberately absent: reading, which is the same for both databases (`read.rs`), and creating
//! the database itself.

mod append;
mod refusal;

pub(super) use append::HeldHead;

use std::{fmt, sync::Arc, time::Duration};

use registry_core::RegistryId;
use sqlx::{
    Connection as _, PgConnection, PgPool, Postgres, Transaction,
    pool::PoolOptions,
    postgres::{PgConnectOptions, PgListener},
};

use super::{
    Error,
    schema::{self, Unprepared},
};

/// How long an operation waits for a connection.
const ACQUIRE: Duration = Duration::from_secs(3);
/// A connection that rested longer is tried before it is used.
const RESTED: Duration = Duration::from_secs(1);
const CONNECTIONS: u32 = 8;
/// What `pg_notify` and `LISTEN` agree on.
const CHANNEL: &str = "registry_commits";
/// One writer of tokens at a time, until its transaction ends: $1 a number that they agree on. So
/// the trail shows its numbers in their order, and who has read up to one misses none before it.
const ONE_WRITER: &str = "SELECT pg_advisory_xact_lock($1)";
const WRITER: i64 = 0x0072_6779_5f61_6363;

/// An open Postgres database.
#[derive(Clone)]
pub(super) struct PostgresStore {
    name: Arc<str>,
    options: Arc<PgConnectOptions>,
    pool: PgPool,
}

impl PostgresStore {
    pub(super) async fn open(
        options: &PgConnectOptions,
        name: String,
    ) -> Result<(Self, RegistryId), Error> {
        let options = options.clone().application_name("registry-server").options([
            // The head's lock orders the appends; a stricter level would only add failures.
            ("default_transaction_isolation", "read committed"),
            ("statement_timeout", "30s"),
            ("lock_timeout", "10s"),
            ("idle_in_transaction_session_timeout", "60s"),
        ]);
        let registry = prepare(&options, &name).await?;
        let pool = PoolOptions::<Postgres>::new()
            .max_connections(CONNECTIONS)
            .acquire_timeout(ACQUIRE)
            .test_before_acquire(false)
            .before_acquire(|connection, meta| {
                Box::pin(async move {
                    if meta.idle_for > RESTED {
                        connection.ping().await?;
                    }
                    Ok(true)
                })
            })
            .connect_lazy_with(options.clone());
        Ok((Self { name: name.into(), options: options.into(), pool }, registry))
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn reader(&self) -> &PgPool {
        &self.pool
    }

    pub(super) async fn begin_write(&self) -> Result<Transaction<'static, Postgres>, sqlx::Error> {
        let mut transaction = self.pool.begin().await?;
        sqlx::query(ONE_WRITER).bind(WRITER).execute(&mut *transaction).await?;
        Ok(transaction)
    }

    pub(super) async fn begin_read(&self) -> Result<Transaction<'static, Postgres>, sqlx::Error> {
        self.pool.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await
    }

    pub(super) fn explain(&self, error: &sqlx::Error) -> Error {
        refusal::explain(&self.name, error)
    }

    /// Listens on a connection of its own.
    pub(super) async fn listen(&self) -> Result<PgListener, sqlx::Error> {
        let options = PoolOptions::new()
            .max_connections(1)
            .acquire_timeout(ACQUIRE)
            .idle_timeout(None)
            .max_lifetime(None);
        let pool = options.connect_with((*self.options).clone()).await?;
        let mut listener = PgListener::connect_with(&pool).await?;
        listener.eager_reconnect(false);
        listener.listen(CHANNEL).await?;
        Ok(listener)
    }
}

/// Migrates on a connection of its own, so that a failure cannot leave the lock behind.
async fn prepare(options: &PgConnectOptions, name: &str) -> Result<RegistryId, Error> {
    let unopened = |e: sqlx::Error| refusal::explain_open(name, &e);
    // A migration may take longer than a statement of every day.
    let options = options.clone().options([("statement_timeout", "0"), ("lock_timeout", "60s")]);
    let connecting = PgConnection::connect_with(&options);
    let mut connection = match tokio::time::timeout(ACQUIRE, connecting).await {
        Ok(connected) => connected.map_err(unopened)?,
        Err(_) => return Err(unopened(sqlx::Error::PoolTimedOut)),
    };
    let registry = schema::prepare::<Postgres>(&mut connection, &schema::POSTGRES, name)
        .await
        .map_err(|unprepared| match unprepared {
            Unprepared::Driver(error) => unopened(error),
            Unprepared::Store(error) => error,
        })?;
    // Only politeness: everything is committed.
    let _ = connection.close().await;
    Ok(registry)
}

/// The triggers that are enabled and do what the migrations say. The bits of `tgtype` (see Postgres'
/// `pg_trigger.h`): 1 for each row, 2 before, 8 `DELETE`, 16 `UPDATE`, 32 `TRUNCATE`.
pub(super) async fn armed(
    connection: &mut PgConnection,
) -> Result<Vec<(String, Option<String>)>, sqlx::Error> {
    sqlx::query_as(
        "SELECT t.tgname::text, NULL::text FROM pg_trigger t
             JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_proc p ON p.oid = t.tgfoid
         WHERE c.relnamespace = current_schema()::regnamespace AND t.tgenabled IN ('O', 'A')
             AND t.tgtype & 43 = 42 AND t.tgqual IS NULL
             AND (t.tgtype & 16 = 16 OR right(t.tgname::text, 5) = '_stay')
             AND p.proname = 'refuse_edit' AND p.prosrc LIKE '%RAISE EXCEPTION%'",
    )
    .fetch_all(connection)
    .await
}

impl fmt::Debug for PostgresStore {
    /// Without the options, which hold the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore").field("name", &self.name).finish_non_exhaustive()
    }
}

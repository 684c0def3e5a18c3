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
    backend::Meddler,
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

    /// For a statement that is a transaction of its own.
    pub(super) fn writer(&self) -> &PgPool {
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

/// The triggers and rules of our tables, those of the migrations with their statements where they are
/// enabled and call the function as it was made; and the setting that would silence all of them.
pub(super) async fn meddlers(connection: &mut PgConnection) -> Result<Vec<Meddler>, sqlx::Error> {
    sqlx::query_as(
        "WITH ours AS (SELECT oid, relname::text AS name, relnamespace FROM pg_class
                       WHERE relnamespace = current_schema()::regnamespace AND relname = ANY($1))
         SELECT 'trigger', t.tgname::text, ours.name,
                CASE WHEN t.tgenabled IN ('O', 'A') AND p.pronamespace = ours.relnamespace
                          AND p.prosrc = $2 AND l.lanname = 'plpgsql'
                     THEN pg_get_triggerdef(t.oid, true) END
         FROM pg_trigger t JOIN ours ON ours.oid = t.tgrelid JOIN pg_proc p ON p.oid = t.tgfoid
              JOIN pg_language l ON l.oid = p.prolang
         WHERE NOT t.tgisinternal
         UNION ALL SELECT 'rule', r.rulename::text, ours.name, NULL
         FROM pg_rewrite r JOIN ours ON ours.oid = r.ev_class
         UNION ALL SELECT 'setting', 'session_replication_role', '', NULL
         WHERE current_setting('session_replication_role') = 'replica' OR EXISTS (
             SELECT 1 FROM pg_db_role_setting s, unnest(s.setconfig) AS set
             WHERE set ILIKE 'session_replication_role=replica'
                 AND s.setrole IN (0, (SELECT oid FROM pg_roles WHERE rolname = session_user))
                 AND s.setdatabase IN
                     (0, (SELECT oid FROM pg_database WHERE datname = current_database())))",
    )
    .bind(schema::POSTGRES.created())
    .bind(schema::POSTGRES.refusing())
    .fetch_all(connection)
    .await
}

impl fmt::Debug for PostgresStore {
    /// Without the options, which hold the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore").field("name", &self.name).finish_non_exhaustive()
    }
}

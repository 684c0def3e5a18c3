//! The log in Postgres: several servers may share it.
//!
//! Creation of the database itself is not supported.

mod append;
mod hosts;
mod refusal;

pub(super) use append::HeldHead;

use std::{fmt, io, sync::Arc, time::Duration};

use registry_core::RegistryId;
use sqlx::{
    Connection as _, Executor as _, PgConnection, PgPool, Postgres, Transaction,
    pool::PoolOptions,
    postgres::{PgConnectOptions, PgListener},
};
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::{
    Error,
    backend::Meddler,
    schema::{self, Opening, Unprepared},
};
use hosts::{Hosts, refuse_standby};

/// How long an operation waits for a connection.
const ACQUIRE: Duration = Duration::from_secs(3);
/// A connection that rested longer is tried before it is used.
const RESTED: Duration = Duration::from_secs(1);
/// How long it may take to answer then, and when it is given back: whatever is on the way to a server
/// that vanished must not hold a place in the pool for the minutes that TCP takes to give up.
const ANSWER: Duration = Duration::from_secs(1);
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
    hosts: Arc<Hosts>,
    pool: PgPool,
    _follows: Option<Arc<AbortOnDropHandle<()>>>,
}

impl PostgresStore {
    pub(super) async fn open(
        servers: &[PgConnectOptions],
        name: String,
        opening: Opening,
    ) -> Result<(Self, RegistryId), Error> {
        let configured = |options: &PgConnectOptions| {
            options.clone().application_name("registry-server").options([
                // The head's lock orders the appends; a stricter level would only add failures.
                ("default_transaction_isolation", "read committed"),
                ("statement_timeout", "30s"),
                ("lock_timeout", "10s"),
                ("idle_in_transaction_session_timeout", "60s"),
            ])
        };
        let hosts = Arc::new(Hosts::new(servers.iter().map(configured).collect()));
        let registry = prepare(&hosts, &name, opening).await?;
        let pool = pool_of(&hosts);
        let follows = hosts.are_several().then(|| {
            let (hosts, pool) = (hosts.clone(), pool.clone());
            let following = async move { hosts.follow(pool).await };
            Arc::new(AbortOnDropHandle::new(tokio::spawn(following)))
        });
        Ok((Self { name: name.into(), hosts, pool, _follows: follows }, registry))
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
        let explained = refusal::explain(&self.name, error);
        if let Error::Unavailable { .. } | Error::ReadOnly { .. } = explained {
            self.hosts.note_lost();
        }
        explained
    }

    /// Listens on a connection of its own.
    pub(super) async fn listen(&self) -> Result<PgListener, sqlx::Error> {
        let options = PoolOptions::new()
            .max_connections(1)
            .acquire_timeout(ACQUIRE)
            .idle_timeout(None)
            .max_lifetime(None);
        let pool = options.connect_with(self.hosts.current()).await?;
        let mut listener = PgListener::connect_with(&pool).await?;
        listener.eager_reconnect(false);
        listener.listen(CHANNEL).await?;
        Ok(listener)
    }
}

/// Connections to whichever server takes writes, made when they are needed.
fn pool_of(hosts: &Arc<Hosts>) -> PgPool {
    let (before, after) = (hosts.clone(), hosts.clone());
    PoolOptions::<Postgres>::new()
        .max_connections(CONNECTIONS)
        .acquire_timeout(ACQUIRE)
        .test_before_acquire(false)
        .after_connect(move |connection, _| {
            let hosts = after.clone();
            Box::pin(async move {
                if !hosts.are_several() {
                    return Ok(());
                }
                let checked = refuse_standby(connection).await;
                checked.inspect_err(|_| hosts.note_lost())
            })
        })
        .before_acquire(move |connection, meta| {
            let hosts = before.clone();
            Box::pin(async move {
                if meta.idle_for > RESTED {
                    answers(connection).await.inspect_err(|_| hosts.note_lost())?;
                }
                Ok(true)
            })
        })
        .after_release(|connection, _| {
            Box::pin(async move { answers(connection).await.map(|()| true) })
        })
        .connect_lazy_with(hosts.current())
}

/// Whether a connection lives.
async fn answers(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    let vanished = |_| sqlx::Error::Io(io::ErrorKind::TimedOut.into());
    timeout(ANSWER, connection.ping()).await.map_err(vanished)?
}

/// Migrates on a connection of its own, so that a failure cannot leave the lock behind.
async fn prepare(hosts: &Hosts, name: &str, opening: Opening) -> Result<RegistryId, Error> {
    let unopened = |e: sqlx::Error| refusal::explain_open(name, &e);
    let mut connection = hosts.connect().await.map_err(unopened)?;
    // A migration may take longer than a statement of every day.
    let patience = "SET statement_timeout = 0; SET lock_timeout = '60s'";
    connection.execute(patience).await.map_err(unopened)?;
    let registry = schema::prepare::<Postgres>(&mut connection, &schema::POSTGRES, name, opening)
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

//! The log in Postgres, shared by several servers.
//!
//! Creation of the database itself is not supported.

mod append;
mod errors;
mod hosts;

pub(super) use append::HeadTransaction;

use std::{
    fmt, io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use registry_core::RegistryId;
use sqlx::{
    Connection as _, Executor as _, PgConnection, PgPool, Postgres, Transaction,
    pool::PoolOptions,
    postgres::{PgConnectOptions, PgListener},
};
use tokio::{
    sync::Notify,
    time::{sleep, timeout},
};
use tokio_util::task::AbortOnDropHandle;

use super::{
    Error,
    backend::{AppendFailure, WriteHook},
    schema::{self, SchemaMode, Unprepared},
};
use hosts::{Hosts, reject_standby};

/// Time that an operation waits for a connection.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(3);
/// Idle time after which a connection is tested before its use.
const IDLE_TIME: Duration = Duration::from_secs(1);
/// Timeout of the test, and of the test when a connection is returned. Packets to a lost server must not occupy
/// the pool until TCP gives up.
const TEST_TIMEOUT: Duration = Duration::from_secs(1);
const CONNECTIONS: u32 = 6;
/// New connections for appends. The server has one append at a time, and retries it while a lost connection times
/// out.
const APPEND_CONNECTIONS: u32 = 2;
/// Maximum lifetime of a connection for appends.
const APPEND_CONNECTION_LIFETIME: Duration = Duration::from_mins(30);
/// Connections for transactions of the ledger, so that reports do not occupy those of readers.
const LEDGER_CONNECTIONS: u32 = 8;
/// Minimum time between two notifications about commits. A notification wakes a process of the database and a task of
/// each server, including the one that appended.
const NOTIFICATION_INTERVAL: Duration = Duration::from_millis(10);
/// Timeout of a notification, with the wait for a connection. Packets to a lost server are not answered.
const NOTIFICATION_TIMEOUT: Duration = Duration::from_secs(5);
/// Delay before a failed notification is repeated.
const NOTIFICATION_RETRY_DELAY: Duration = Duration::from_secs(1);
/// Channel of notifications about commits.
pub(super) const COMMIT_CHANNEL: &str = "registry_commits";
/// Channel of notifications about recalls of the ledger.
pub(super) const RECALL_CHANNEL: &str = "registry_recalls";

/// An open Postgres database.
#[derive(Clone)]
pub(super) struct PostgresStore {
    name: Arc<str>,
    hosts: Arc<Hosts>,
    pool: PgPool,
    append_pool: PgPool,
    /// Connection of the last append.
    append_connection: Arc<Mutex<Option<AppendConnection>>>,
    /// Number of selections of the primary.
    selections: Arc<AtomicU64>,
    ledger_pool: PgPool,
    /// Requests a notification about commits.
    appended: Arc<Notify>,
    _primary_task: Arc<AbortOnDropHandle<()>>,
    _notifier_task: Arc<AbortOnDropHandle<()>>,
}

/// A connection for appends.
struct AppendConnection {
    connection: PgConnection,
    opened_at: Instant,
    used_at: Instant,
    /// Number of selections of the primary before it was opened.
    selections: u64,
}

impl PostgresStore {
    pub(super) async fn open(
        servers: &[PgConnectOptions],
        name: String,
        mode: SchemaMode,
    ) -> Result<(Self, RegistryId), Error> {
        let configured = |options: &PgConnectOptions| {
            options.clone().application_name("registry-server").options([
                // The lock on the head row orders appends; a stricter isolation level would only add conflicts.
                ("default_transaction_isolation", "read committed"),
                ("statement_timeout", "30s"),
                ("lock_timeout", "10s"),
                ("idle_in_transaction_session_timeout", "60s"),
            ])
        };
        let hosts = Arc::new(Hosts::new(servers.iter().map(configured).collect()));
        let registry = prepare(&hosts, &name, mode).await?;
        let pool = connect_pool(&hosts, CONNECTIONS, hosts.current());
        let append_pool = connect_pool(&hosts, APPEND_CONNECTIONS, append_options(hosts.current()));
        let ledger_pool = connect_pool(&hosts, LEDGER_CONNECTIONS, hosts.current());
        let selections = Arc::<AtomicU64>::default();
        let primary_task = {
            let (hosts, pool, append_pool) = (hosts.clone(), pool.clone(), append_pool.clone());
            let (ledger_pool, selections) = (ledger_pool.clone(), selections.clone());
            let following = async move {
                let select = |primary: PgConnectOptions| {
                    pool.set_connect_options(primary.clone());
                    ledger_pool.set_connect_options(primary.clone());
                    append_pool.set_connect_options(append_options(primary));
                    selections.fetch_add(1, Ordering::Release);
                };
                hosts.keep_on_primary(select).await;
            };
            Arc::new(AbortOnDropHandle::new(tokio::spawn(following)))
        };
        let (name, appended) = (name.into(), Arc::<Notify>::default());
        let notifying = notify_of_commits(pool.clone(), appended.clone());
        let notifier_task = Arc::new(AbortOnDropHandle::new(tokio::spawn(notifying)));
        let store = Self {
            name,
            hosts,
            pool,
            append_pool,
            append_connection: Arc::default(),
            selections,
            ledger_pool,
            appended,
            _primary_task: primary_task,
            _notifier_task: notifier_task,
        };
        Ok((store, registry))
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn reader(&self) -> &PgPool {
        &self.pool
    }

    /// Connections for a statement in its own transaction.
    pub(super) fn writer(&self) -> &PgPool {
        &self.pool
    }

    /// Starts a write transaction, which excludes other writers. Numbers of access events therefore become visible
    /// in order, and a reader misses none.
    pub(super) async fn begin_write(&self) -> Result<Transaction<'static, Postgres>, sqlx::Error> {
        append::begin_with_head(&self.pool).await
    }

    /// Starts a transaction of the ledger. A server that stops while it has the lock on a budget must not block others
    /// for long.
    pub(super) async fn begin_ledger(&self) -> Result<Transaction<'static, Postgres>, sqlx::Error> {
        let begin = "BEGIN; SET LOCAL idle_in_transaction_session_timeout = '5s'";
        self.ledger_pool.begin_with(begin).await
    }

    /// Starts a transaction of the ledger that excludes other writers of access events.
    pub(super) async fn begin_recorded(
        &self,
    ) -> Result<Transaction<'static, Postgres>, sqlx::Error> {
        append::begin_with_head(&self.ledger_pool).await
    }

    pub(super) async fn begin_read(&self) -> Result<Transaction<'static, Postgres>, sqlx::Error> {
        self.pool.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await
    }

    /// Takes a connection for an append. Appends share one that is not in the pool, because a pool tests each
    /// returned connection with two round trips. A former primary may still answer, so a selection ends it.
    async fn take_append_connection(&self) -> Result<AppendConnection, sqlx::Error> {
        let selections = self.selections.load(Ordering::Acquire);
        let last = self.last_append_connection().take();
        let is_usable = |last: &AppendConnection| {
            last.selections == selections && last.opened_at.elapsed() < APPEND_CONNECTION_LIFETIME
        };
        if let Some(mut last) = last.filter(is_usable) {
            if last.used_at.elapsed() <= IDLE_TIME || test(&mut last.connection).await.is_ok() {
                return Ok(last);
            }
            self.hosts.request_selection();
        }
        let connection = self.append_pool.acquire().await?.detach();
        let now = Instant::now();
        Ok(AppendConnection { connection, opened_at: now, used_at: now, selections })
    }

    /// Keeps a connection for the next append.
    fn keep_append_connection(&self, last: AppendConnection) {
        *self.last_append_connection() = Some(AppendConnection { used_at: Instant::now(), ..last });
    }

    fn last_append_connection(&self) -> MutexGuard<'_, Option<AppendConnection>> {
        self.append_connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) async fn close(&self) {
        let last = self.last_append_connection().take();
        if let Some(AppendConnection { connection, .. }) = last {
            // A failed close is harmless, because everything is committed.
            let _ = connection.close().await;
        }
        self.append_pool.close().await;
        self.ledger_pool.close().await;
        self.pool.close().await;
    }

    pub(super) fn explain(&self, error: &sqlx::Error) -> Error {
        let explained = errors::explain(&self.name, error);
        if let Error::Unavailable { .. } | Error::ReadOnly { .. } = explained {
            self.hosts.request_selection();
        }
        match (explained, error) {
            // A pool retries refused connections until it times out, and gives no cause.
            (Error::Unavailable { database, detail }, sqlx::Error::PoolTimedOut) => {
                let problem = self.hosts.problem().map(|problem| format!(": {problem}"));
                let detail = format!("{detail}{}", problem.unwrap_or_default());
                Error::Unavailable { database, detail }
            }
            (explained, _) => explained,
        }
    }

    /// A failure of an append.
    fn append_failure(&self, error: &sqlx::Error) -> AppendFailure {
        if errors::is_used_request_id(error) {
            return AppendFailure::RequestId;
        }
        AppendFailure::Store(self.explain(error))
    }

    /// Opens a separate connection that listens for notifications.
    pub(super) async fn listen(&self, channel: &str) -> Result<PgListener, sqlx::Error> {
        let options = PoolOptions::new()
            .max_connections(1)
            .acquire_timeout(ACQUIRE_TIMEOUT)
            .idle_timeout(None)
            .max_lifetime(None);
        let pool = options.connect_with(self.hosts.current()).await?;
        let mut listener = PgListener::connect_with(&pool).await?;
        listener.eager_reconnect(false);
        listener.listen(channel).await?;
        Ok(listener)
    }
}

/// Connections for appends. Planning the append takes longer than its execution, so its plan is reused. Postgres
/// would not reuse it, because it estimates ten rows for each array of unknown length.
fn append_options(options: PgConnectOptions) -> PgConnectOptions {
    options.options([("plan_cache_mode", "force_generic_plan")])
}

/// Notifies all servers of commits. Commits in quick succession share a notification. Until one succeeds, other servers
/// find the commits by polling.
async fn notify_of_commits(pool: PgPool, appended: Arc<Notify>) {
    while !pool.is_closed() {
        appended.notified().await;
        let notify = "SELECT pg_notify($1, revision::text) FROM head";
        let notifying = sqlx::query(notify).bind(COMMIT_CHANNEL).execute(&pool);
        let timed_out = |_| sqlx::Error::Io(io::ErrorKind::TimedOut.into());
        let notified = timeout(NOTIFICATION_TIMEOUT, notifying).await.map_err(timed_out).flatten();
        if let Err(error) = notified {
            tracing::debug!(%error, "cannot notify other servers of commits");
            appended.notify_one();
            sleep(NOTIFICATION_RETRY_DELAY).await;
        } else {
            sleep(NOTIFICATION_INTERVAL).await;
        }
    }
}

/// Pool of connections to the primary.
fn connect_pool(hosts: &Arc<Hosts>, connections: u32, options: PgConnectOptions) -> PgPool {
    let (before, after) = (hosts.clone(), hosts.clone());
    PoolOptions::<Postgres>::new()
        .max_connections(connections)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .test_before_acquire(false)
        .after_connect(move |connection, _| {
            let hosts = after.clone();
            Box::pin(async move {
                if !hosts.has_several() {
                    return Ok(());
                }
                let checked = reject_standby(connection).await;
                checked.inspect_err(|_| hosts.request_selection())
            })
        })
        .before_acquire(move |connection, meta| {
            let hosts = before.clone();
            Box::pin(async move {
                if meta.idle_for > IDLE_TIME {
                    test(connection).await.inspect_err(|_| hosts.request_selection())?;
                }
                Ok(true)
            })
        })
        .after_release(|connection, _| {
            Box::pin(async move { test(connection).await.map(|()| true) })
        })
        .connect_lazy_with(options)
}

/// Tests a connection.
async fn test(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    let timed_out = |_| sqlx::Error::Io(io::ErrorKind::TimedOut.into());
    timeout(TEST_TIMEOUT, connection.ping()).await.map_err(timed_out)?
}

/// Migrates on a separate connection, so that a failure cannot leave a lock behind.
async fn prepare(hosts: &Hosts, name: &str, mode: SchemaMode) -> Result<RegistryId, Error> {
    let open_error = |e: sqlx::Error| errors::explain_open(name, &e);
    let mut connection = hosts.connect().await.map_err(open_error)?;
    // Migrations may take longer than other statements.
    let timeouts = "SET statement_timeout = 0; SET lock_timeout = '60s'";
    connection.execute(timeouts).await.map_err(open_error)?;
    let registry = schema::prepare::<Postgres>(&mut connection, &schema::POSTGRES, name, mode)
        .await
        .map_err(|unprepared| match unprepared {
            Unprepared::Driver(error) => open_error(error),
            Unprepared::Store(error) => error,
        })?;
    // A failed close is harmless, because everything is committed.
    let _ = connection.close().await;
    Ok(registry)
}

/// Triggers and rules of the registry's tables, and the setting that disables triggers. A trigger has a statement
/// only if it is enabled and calls the original function.
pub(super) async fn write_hooks(
    connection: &mut PgConnection,
) -> Result<Vec<WriteHook>, sqlx::Error> {
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
    .bind(schema::POSTGRES.tables_created())
    .bind(schema::POSTGRES.trigger_function())
    .fetch_all(connection)
    .await
}

impl fmt::Debug for PostgresStore {
    /// Omits the connection options, which contain the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore").field("name", &self.name).finish_non_exhaustive()
    }
}

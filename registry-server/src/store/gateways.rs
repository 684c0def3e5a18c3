//! Gateways in the database. Each server stores its own followers; all servers read all of them.
//!
//! Missing rows are restored by the next heartbeat.

use registry_core::{
    Revision, Timestamp,
    follower::{CacheState, Nack},
};
use sqlx::{FromRow, Postgres, QueryBuilder, Row as _, Sqlite, postgres::PgRow, sqlite::SqliteRow};

use super::{
    Error, OPERATION_TIMEOUT, Store,
    backend::{Backend, execute, run},
    nack::{self, NackColumns},
    row::{corrupt, revision, row, stored},
    sql,
    sql_timestamp::SqlTimestamp,
};

/// A connected or disconnected follower.
#[derive(Debug, Clone, PartialEq)]
pub struct GatewayRecord {
    /// Name.
    pub gateway: String,
    /// Authenticated principal.
    pub principal: String,
    /// Software version.
    pub version: String,
    /// Client address; empty if unknown.
    pub address: String,
    /// Followed scope; `*` is the whole catalog.
    pub scope: String,
    /// Server of the follower.
    pub server: String,
    /// Time of the last connection.
    pub connected_at: Timestamp,
    /// Time when it was last known to be connected.
    pub seen_at: Timestamp,
    /// Whether it is connected.
    pub presence: Presence,
    /// Last sent revision.
    pub sent: Revision,
    /// Last applied revision.
    pub applied: Revision,
    /// Last persisted revision.
    pub persisted: Revision,
    /// State of its cache.
    pub cache: CacheState,
    /// Last rejection, if it has not applied a revision since.
    pub nack: Option<Nack>,
}

/// Connection state of a gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// Connected.
    Connected,
    /// Disconnected.
    Disconnected,
}

/// Query of followers, ordered by name and principal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatewayQuery {
    /// Only followers after this name and principal.
    pub after: (String, String),
    /// Only names with this prefix.
    pub prefix: String,
    /// Only followers that have not applied this revision.
    pub behind: Option<Revision>,
    /// Only followers in this state.
    pub presence: Option<Presence>,
    /// Omit connected followers of this server, which has newer data in memory.
    pub except: String,
    /// Servers without a heartbeat since this time are dead, and their followers disconnected.
    pub alive_since: Timestamp,
    /// Maximum number of followers.
    pub limit: usize,
}

/// Heartbeat of a server, which also deletes expired rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetHeartbeat {
    /// Name of the server.
    pub server: String,
    /// Current time.
    pub now: Timestamp,
    /// Servers without a heartbeat since this time are dead.
    pub alive_since: Timestamp,
    /// Followers disconnected before this time are deleted.
    pub retain_since: Timestamp,
    /// Maximum number of stored followers that are disconnected.
    pub max_disconnected: usize,
}

row!(
    /// A follower with the time of its server's last heartbeat.
    GatewayRow {
        gateway: String,
        principal: String,
        version: String,
        address: String,
        scope: String,
        server: String,
        connected_at: SqlTimestamp,
        noted_at: SqlTimestamp,
        gone_at: Option<SqlTimestamp>,
        sent: i64,
        applied: i64,
        persisted: i64,
        cache: String,
        cache_problem: String,
        nack_revision: Option<i64>,
        nack_message: Option<String>,
        nack_diagnostics: Option<String>,
        server_seen_at: Option<SqlTimestamp>,
    }
);

impl Store {
    /// Stores followers of one server in one statement. Each name and principal occurs once. A follower that has
    /// moved to another server is not changed.
    pub async fn upsert_gateways(&self, known: &[GatewayRecord]) -> Result<(), Error> {
        self.within(OPERATION_TIMEOUT, upsert(&self.backend, known)).await
    }

    /// Names and principals of the stored followers of a server.
    pub async fn followers_of(&self, server: &str) -> Result<Vec<(String, String)>, Error> {
        self.within(OPERATION_TIMEOUT, followers_of(&self.backend, server)).await
    }

    /// Stores that a follower of a server has disconnected.
    pub async fn mark_disconnected(
        &self,
        server: &str,
        (gateway, principal): (&str, &str),
        at: Timestamp,
    ) -> Result<(), Error> {
        let update = async {
            let at = SqlTimestamp(at);
            execute!(&self.backend, sql::DISCONNECT_GATEWAY, [gateway, principal, server, at])
        };
        self.within(OPERATION_TIMEOUT, update).await
    }

    /// Stores a heartbeat, marks followers of dead servers as disconnected, and deletes expired rows.
    pub async fn record_heartbeat(&self, heartbeat: &FleetHeartbeat) -> Result<(), Error> {
        self.within(OPERATION_TIMEOUT, record_heartbeat(&self.backend, heartbeat)).await
    }

    /// Lists stored followers. A page with fewer than `limit` rows is the last one.
    pub async fn gateways(&self, query: &GatewayQuery) -> Result<Vec<GatewayRecord>, Error> {
        self.within(OPERATION_TIMEOUT, read(&self.backend, query)).await
    }

    /// Times of the commits that exist.
    pub async fn commit_times(
        &self,
        revisions: &[Revision],
    ) -> Result<Vec<(Revision, Timestamp)>, Error> {
        self.within(OPERATION_TIMEOUT, commit_times(&self.backend, revisions)).await
    }
}

/// Inserts many rows in one statement on either database.
macro_rules! upsert_all {
    ($db:ty, $known:expr, $transaction:expr) => {
        QueryBuilder::<$db>::new(sql::UPSERT_GATEWAYS)
            .push_values($known, |mut row, (known, cache, nack)| {
                let (state, problem) = cache;
                let gone_at = (known.presence == Presence::Disconnected)
                    .then_some(SqlTimestamp(known.seen_at));
                row.push_bind(known.gateway.as_str())
                    .push_bind(known.principal.as_str())
                    .push_bind(known.version.as_str())
                    .push_bind(known.address.as_str())
                    .push_bind(known.scope.as_str())
                    .push_bind(known.server.as_str())
                    .push_bind(SqlTimestamp(known.connected_at))
                    .push_bind(SqlTimestamp(known.seen_at))
                    .push_bind(gone_at)
                    .push_bind(stored(known.sent))
                    .push_bind(stored(known.applied))
                    .push_bind(stored(known.persisted))
                    .push_bind(state)
                    .push_bind(problem)
                    .push_bind(nack.revision)
                    .push_bind(nack.message)
                    .push_bind(nack.diagnostics);
            })
            .push(sql::UPSERT_GATEWAYS_CONFLICT)
            .build()
            // The statement depends on the number of rows, so it is not cached.
            .persistent(false)
            .execute($transaction)
            .await
            .map(drop)
    };
}

async fn upsert(backend: &Backend, known: &[GatewayRecord]) -> Result<(), Error> {
    if known.is_empty() {
        return Ok(());
    }
    let columns = known
        .iter()
        .map(|known| (known, cache_columns(&known.cache), NackColumns::new(known.nack.as_ref())));
    match backend {
        Backend::Sqlite(store) => upsert_all!(Sqlite, columns, store.writer()),
        Backend::Postgres(store) => upsert_all!(Postgres, columns, store.writer()),
    }
    .map_err(|e| backend.explain(&e))
}

fn cache_columns(cache: &CacheState) -> (&'static str, &str) {
    match cache {
        CacheState::Unknown => ("unknown", ""),
        CacheState::Ok => ("ok", ""),
        CacheState::Failing(problem) => ("failing", problem),
        CacheState::None => ("none", ""),
    }
}

async fn followers_of(backend: &Backend, server: &str) -> Result<Vec<(String, String)>, Error> {
    run!(Backend(backend), (String, String), sql::FOLLOWERS_OF, [server], fetch_all)
        .map_err(|e| backend.explain(&e))
}

/// The statements are independent, so they need no transaction.
async fn record_heartbeat(backend: &Backend, heartbeat: &FleetHeartbeat) -> Result<(), Error> {
    let FleetHeartbeat { server, now, alive_since, retain_since, max_disconnected } = heartbeat;
    let (server, since) = (server.as_str(), SqlTimestamp(*alive_since));
    let max_disconnected = i64::try_from(*max_disconnected).unwrap_or(i64::MAX);
    execute!(backend, sql::SERVER_HEARTBEAT, [server, SqlTimestamp(*now)])?;
    execute!(backend, sql::DISCONNECT_GATEWAYS_OF_DEAD_SERVERS, [since])?;
    execute!(backend, sql::DELETE_DEAD_SERVERS, [since])?;
    execute!(
        backend,
        sql::DELETE_DISCONNECTED_GATEWAYS,
        [SqlTimestamp(*retain_since), max_disconnected]
    )
}

async fn read(backend: &Backend, query: &GatewayQuery) -> Result<Vec<GatewayRecord>, Error> {
    let GatewayQuery { after: (gateway, principal), prefix, behind, presence, .. } = query;
    let (gateway, principal, prefix) = (gateway.as_str(), principal.as_str(), prefix.as_str());
    let behind = behind.map_or(i64::MAX, stored);
    let presence = match presence {
        None => 0_i64,
        Some(Presence::Connected) => 1,
        Some(Presence::Disconnected) => 2,
    };
    let (except, since) = (query.except.as_str(), SqlTimestamp(query.alive_since));
    let limit = i64::try_from(query.limit).unwrap_or(i64::MAX);
    let rows: Result<Vec<GatewayRow>, _> = run!(
        Backend(backend),
        GatewayRow,
        sql::GATEWAYS,
        [gateway, principal, prefix, behind, presence, except, since, limit],
        fetch_all
    );
    let rows = rows.map_err(|e| backend.explain(&e))?;
    rows.into_iter().map(|row| known(row, query.alive_since)).collect()
}

/// Converts a row. Servers without a heartbeat since `alive_since` have lost their followers.
fn known(row: GatewayRow, alive_since: Timestamp) -> Result<GatewayRecord, Error> {
    let what = || format!("the gateway {}", row.gateway);
    let (stored_at, heartbeat_at) = (row.noted_at.0, row.server_seen_at.map(|SqlTimestamp(at)| at));
    let seen = stored_at.max(heartbeat_at.unwrap_or(stored_at));
    let is_alive = heartbeat_at.is_some_and(|at| at >= alive_since);
    let (presence, seen_at) = match row.gone_at {
        Some(SqlTimestamp(at)) => (Presence::Disconnected, at),
        None if is_alive => (Presence::Connected, seen),
        None => (Presence::Disconnected, seen),
    };
    let cache = match row.cache.as_str() {
        "ok" => CacheState::Ok,
        "failing" => CacheState::Failing(row.cache_problem),
        "none" => CacheState::None,
        _ => CacheState::Unknown,
    };
    let nack = (row.nack_revision, row.nack_message, row.nack_diagnostics);
    Ok(GatewayRecord {
        nack: nack::read(nack).map_err(|e| corrupt(what(), e))?,
        sent: revision(row.sent)?,
        applied: revision(row.applied)?,
        persisted: revision(row.persisted)?,
        gateway: row.gateway,
        principal: row.principal,
        version: row.version,
        address: row.address,
        scope: row.scope,
        server: row.server,
        connected_at: row.connected_at.0,
        seen_at,
        presence,
        cache,
    })
}

async fn commit_times(
    backend: &Backend,
    revisions: &[Revision],
) -> Result<Vec<(Revision, Timestamp)>, Error> {
    if revisions.is_empty() {
        return Ok(Vec::new());
    }
    macro_rules! fetch {
        ($db:ty, $transaction:expr) => {{
            let mut query = QueryBuilder::<$db>::new(sql::COMMIT_TIMES);
            let mut list = query.separated(", ");
            for revision in revisions {
                list.push_bind(stored(*revision));
            }
            list.push_unseparated(")");
            query
                .build_query_as::<(i64, SqlTimestamp)>()
                .persistent(false)
                .fetch_all($transaction.reader())
                .await
        }};
    }
    let rows = match backend {
        Backend::Sqlite(store) => fetch!(Sqlite, store),
        Backend::Postgres(store) => fetch!(Postgres, store),
    };
    let rows = rows.map_err(|e| backend.explain(&e))?;
    rows.into_iter().map(|(at, SqlTimestamp(time))| Ok((revision(at)?, time))).collect()
}

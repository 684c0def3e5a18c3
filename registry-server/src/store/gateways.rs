//! Gateways in the database: each server stores its own followers, and all servers read them.
//!
//! The rows are not essential: missing rows are written again.

use registry_core::{
    Revision, Timestamp,
    follower::{CacheState, Nack},
};
use sqlx::{FromRow, Postgres, QueryBuilder, Row as _, Sqlite, postgres::PgRow, sqlite::SqliteRow};

use super::{
    Error, PATIENCE, Store,
    at::At,
    backend::{Backend, execute, run},
    nack::{self, NackColumns},
    row::{corrupt, revision, row, stored},
    sql,
};

/// A follower, present or past.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownGateway {
    /// Its name.
    pub gateway: String,
    /// As whom it is authenticated.
    pub principal: String,
    /// Its software version.
    pub version: String,
    /// From where it comes; empty: unknown.
    pub address: String,
    /// What it follows; `*`: everything.
    pub scope: String,
    /// Which server it follows, or followed.
    pub server: String,
    /// Since when; of one that is gone, since when it was connected last.
    pub connected_at: Timestamp,
    /// When it was last known to follow.
    pub seen_at: Timestamp,
    /// Whether it follows.
    pub presence: Presence,
    /// The last revision that was sent to it.
    pub sent: Revision,
    /// The last that it applied.
    pub applied: Revision,
    /// The last on its disk.
    pub persisted: Revision,
    /// How its disk is.
    pub cache: CacheState,
    /// Its last refusal, if it applied nothing since.
    pub nack: Option<Nack>,
}

/// Whether a gateway follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// It does.
    Connected,
    /// It did.
    Gone,
}

/// Which followers to read: by name and principal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatewayQuery {
    /// Only those after this name and principal.
    pub after: (String, String),
    /// Only names that begin so.
    pub prefix: String,
    /// Only those that have not applied this.
    pub behind: Option<Revision>,
    /// Only those.
    pub presence: Option<Presence>,
    /// Not those that still follow this server, which knows them better.
    pub except: String,
    /// Servers that were not heard of since have lost their followers.
    pub alive_since: Timestamp,
    /// At most how many.
    pub limit: usize,
}

/// A sign of life of a server, on which it also clears away what is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Beat {
    /// Which server.
    pub server: String,
    /// Now.
    pub now: Timestamp,
    /// Servers that were not heard of since have lost their followers.
    pub alive_since: Timestamp,
    /// Those that are gone for longer are forgotten.
    pub remember_since: Timestamp,
    /// Most that are remembered of those that are gone.
    pub most: usize,
}

row!(
    /// A follower, with when its server was heard of.
    GatewayRow {
        gateway: String,
        principal: String,
        version: String,
        address: String,
        scope: String,
        server: String,
        connected_at: At,
        noted_at: At,
        gone_at: Option<At>,
        sent: i64,
        applied: i64,
        persisted: i64,
        cache: String,
        cache_problem: String,
        nack_revision: Option<i64>,
        nack_message: Option<String>,
        nack_diagnostics: Option<String>,
        server_seen_at: Option<At>,
    }
);

impl Store {
    /// Notes these followers of one server, in one statement; each name and principal may be there
    /// once. One that follows another server by now is left as that server has it.
    pub async fn note_gateways(&self, known: &[KnownGateway]) -> Result<(), Error> {
        self.within(PATIENCE, note(&self.backend, known)).await
    }

    /// The names and principals of those that follow a server, as it has noted.
    pub async fn followers_of(&self, server: &str) -> Result<Vec<(String, String)>, Error> {
        self.within(PATIENCE, followers_of(&self.backend, server)).await
    }

    /// Notes that a follower of a server is gone.
    pub async fn note_gone(
        &self,
        server: &str,
        (gateway, principal): (&str, &str),
        at: Timestamp,
    ) -> Result<(), Error> {
        let gone = async {
            let at = At(at);
            execute!(&self.backend, sql::GATEWAY_GONE, [gateway, principal, server, at])
        };
        self.within(PATIENCE, gone).await
    }

    /// Notes that a server lives, that those of dead ones are gone, and forgets the oldest.
    pub async fn beat(&self, beat: &Beat) -> Result<(), Error> {
        self.within(PATIENCE, make_beat(&self.backend, beat)).await
    }

    /// A page of what is known of followers. Fewer than `limit` means that there are no more.
    pub async fn gateways(&self, query: &GatewayQuery) -> Result<Vec<KnownGateway>, Error> {
        self.within(PATIENCE, read(&self.backend, query)).await
    }

    /// When these commits were made, as far as there are such.
    pub async fn commit_times(
        &self,
        revisions: &[Revision],
    ) -> Result<Vec<(Revision, Timestamp)>, Error> {
        self.within(PATIENCE, commit_times(&self.backend, revisions)).await
    }
}

/// One statement for many rows, on either database.
macro_rules! note_all {
    ($db:ty, $known:expr, $on:expr) => {
        QueryBuilder::<$db>::new(sql::NOTE_GATEWAYS)
            .push_values($known, |mut row, (known, cache, nack)| {
                let (state, problem) = cache;
                let gone_at = (known.presence == Presence::Gone).then_some(At(known.seen_at));
                row.push_bind(known.gateway.as_str())
                    .push_bind(known.principal.as_str())
                    .push_bind(known.version.as_str())
                    .push_bind(known.address.as_str())
                    .push_bind(known.scope.as_str())
                    .push_bind(known.server.as_str())
                    .push_bind(At(known.connected_at))
                    .push_bind(At(known.seen_at))
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
            .push(sql::NOTE_GATEWAYS_AGAIN)
            .build()
            // Each number of rows is another statement.
            .persistent(false)
            .execute($on)
            .await
            .map(drop)
    };
}

async fn note(backend: &Backend, known: &[KnownGateway]) -> Result<(), Error> {
    if known.is_empty() {
        return Ok(());
    }
    let columns = known
        .iter()
        .map(|known| (known, cache_columns(&known.cache), NackColumns::of(known.nack.as_ref())));
    match backend {
        Backend::Sqlite(store) => note_all!(Sqlite, columns, store.writer()),
        Backend::Postgres(store) => note_all!(Postgres, columns, store.writer()),
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

/// Each statement is right by itself, so they are no transaction.
async fn make_beat(backend: &Backend, beat: &Beat) -> Result<(), Error> {
    let Beat { server, now, alive_since, remember_since, most } = beat;
    let (server, since) = (server.as_str(), At(*alive_since));
    let most = i64::try_from(*most).unwrap_or(i64::MAX);
    execute!(backend, sql::SERVER_LIVES, [server, At(*now)])?;
    execute!(backend, sql::LOSE_GATEWAYS, [since])?;
    execute!(backend, sql::FORGET_SERVERS, [since])?;
    execute!(backend, sql::FORGET_GATEWAYS, [At(*remember_since), most])
}

async fn read(backend: &Backend, query: &GatewayQuery) -> Result<Vec<KnownGateway>, Error> {
    let GatewayQuery { after: (gateway, principal), prefix, behind, presence, .. } = query;
    let (gateway, principal, prefix) = (gateway.as_str(), principal.as_str(), prefix.as_str());
    let behind = behind.map_or(i64::MAX, stored);
    let presence = match presence {
        None => 0_i64,
        Some(Presence::Connected) => 1,
        Some(Presence::Gone) => 2,
    };
    let (except, since) = (query.except.as_str(), At(query.alive_since));
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

/// What a row says, where servers that were not heard of since have lost their followers.
fn known(row: GatewayRow, alive_since: Timestamp) -> Result<KnownGateway, Error> {
    let what = || format!("the gateway {}", row.gateway);
    let (noted, heard) = (row.noted_at.0, row.server_seen_at.map(|At(at)| at));
    let seen = noted.max(heard.unwrap_or(noted));
    let lives = heard.is_some_and(|at| at >= alive_since);
    let (presence, seen_at) = match row.gone_at {
        Some(At(at)) => (Presence::Gone, at),
        None if lives => (Presence::Connected, seen),
        None => (Presence::Gone, seen),
    };
    let cache = match row.cache.as_str() {
        "ok" => CacheState::Ok,
        "failing" => CacheState::Failing(row.cache_problem),
        "none" => CacheState::None,
        _ => CacheState::Unknown,
    };
    let nack = (row.nack_revision, row.nack_message, row.nack_diagnostics);
    Ok(KnownGateway {
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
        ($db:ty, $on:expr) => {{
            let mut query = QueryBuilder::<$db>::new(sql::COMMIT_TIMES);
            let mut list = query.separated(", ");
            for revision in revisions {
                list.push_bind(stored(*revision));
            }
            list.push_unseparated(")");
            query.build_query_as::<(i64, At)>().persistent(false).fetch_all($on.reader()).await
        }};
    }
    let rows = match backend {
        Backend::Sqlite(store) => fetch!(Sqlite, store),
        Backend::Postgres(store) => fetch!(Postgres, store),
    };
    let rows = rows.map_err(|e| backend.explain(&e))?;
    rows.into_iter().map(|(at, At(time))| Ok((revision(at)?, time))).collect()
}

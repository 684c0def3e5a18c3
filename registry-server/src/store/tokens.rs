//! API tokens, and the trail of who made and ended them.
//!
//! Each change of a token and its line in the trail are one transaction.

use registry_core::{Digest, Revision, Timestamp};

use super::{
    Error, PATIENCE, Store,
    at::At,
    backend::{Backend, run},
    row::{AccessEventRow, TokenRow, corrupt},
    sql,
};

/// A token as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredToken {
    /// The part of its text that may be shown.
    pub id: String,
    /// The digest of its text.
    pub digest: Digest,
    /// The name of whoever holds it.
    pub name: String,
    /// The team that they act for.
    pub team: String,
    /// The roles, with spaces between.
    pub roles: String,
    /// The scopes, with spaces between.
    pub scopes: String,
    /// Since when.
    pub created_at: Timestamp,
    /// By whom.
    pub created_by: String,
    /// Until when; none: until it is revoked.
    pub expires_at: Option<Timestamp>,
    /// Since when no more, and by whom.
    pub revoked: Option<Revoked>,
    /// When it was last used, to the hour.
    pub last_used_at: Option<Timestamp>,
}

/// The end of a token before its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revoked {
    /// When.
    pub at: Timestamp,
    /// By whom.
    pub by: String,
}

/// A line of the trail: who did it, when, how authenticated, from where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewAccessEvent {
    /// When.
    pub at: Timestamp,
    /// Who.
    pub principal: String,
    /// How authenticated.
    pub method: String,
    /// From where; empty: on the server's machine.
    pub address: String,
    /// What it meant, for people.
    pub detail: String,
}

/// The line of the trail that says from where a commit came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitEvent {
    /// The commit.
    pub revision: Revision,
    /// Its author, when, how authenticated, from where.
    pub what: NewAccessEvent,
}

/// A line of the trail as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessEvent {
    /// Its number.
    pub number: u64,
    /// `token-created`, `token-revoked` or `committed`.
    pub event: String,
    /// The token's id, or the commit's revision.
    pub subject: String,
    /// Who, when, how, from where.
    pub what: NewAccessEvent,
}

/// The place of a token in the list of all, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenPlace {
    /// When it was created.
    pub created_at: Timestamp,
    /// Its id.
    pub id: String,
}

impl TokenPlace {
    /// Before all tokens.
    pub fn start() -> Self {
        Self { created_at: Timestamp::from_millis(i64::MAX), id: String::new() }
    }
}

/// Runs these statements in one transaction, on either database.
macro_rules! transact {
    ($backend:expr, $tx:ident => $work:block) => {
        match $backend {
            Backend::Sqlite(store) => transact!(@ store, $tx, $work),
            Backend::Postgres(store) => transact!(@ store, $tx, $work),
        }
    };
    (@ $store:ident, $tx:ident, $work:block) => {
        async {
            let mut $tx = $store.begin_write().await?;
            let result = $work;
            $tx.commit().await?;
            Ok(result)
        }
        .await
        .map_err(|e: sqlx::Error| $store.explain(&e))
    };
}
pub(super) use transact;

const CREATED: &str = "token-created";
const REVOKED: &str = "token-revoked";
/// A trigger or a rule did that.
const DROPPED: &str = "it drops lines of the table access_events, so nothing was changed; \
                       `registryctl audit verify` names what does that";

/// One statement of the trail, within a transaction. What it is about must not be without it.
macro_rules! record {
    ($tx:ident, $event:expr, $kind:expr, $subject:expr) => {{
        let done = sqlx::query(sql::NEW_ACCESS_EVENT)
            .bind(At($event.at))
            .bind($event.principal.as_str())
            .bind($event.method.as_str())
            .bind($event.address.as_str())
            .bind($kind)
            .bind($subject)
            .bind($event.detail.as_str())
            .execute(&mut *$tx)
            .await?;
        if done.rows_affected() != 1 {
            return Err(sqlx::Error::InvalidArgument(DROPPED.to_owned()));
        }
    }};
}

impl Store {
    /// Stores a new token, unless there are so many that live already.
    pub async fn insert_token(
        &self,
        token: &StoredToken,
        event: &NewAccessEvent,
        most_live: usize,
    ) -> Result<bool, Error> {
        self.within(PATIENCE, insert(&self.backend, token, event, most_live)).await
    }

    /// Ends a token. False: there is none with this id that lives.
    pub async fn revoke_token(&self, id: &str, event: &NewAccessEvent) -> Result<bool, Error> {
        self.within(PATIENCE, revoke(&self.backend, id, event)).await
    }

    /// Tokens after a place, newest first; those that live, or all.
    pub async fn tokens(
        &self,
        which: Which,
        after: &TokenPlace,
        limit: usize,
    ) -> Result<Vec<StoredToken>, Error> {
        self.within(PATIENCE, list(&self.backend, which, after, limit)).await
    }

    /// The token with this id.
    pub async fn token(&self, id: &str) -> Result<Option<StoredToken>, Error> {
        self.within(PATIENCE, find(&self.backend, id)).await
    }

    /// The lines of the trail after this number, oldest first.
    pub async fn access_events(&self, after: u64, limit: usize) -> Result<Vec<AccessEvent>, Error> {
        self.within(PATIENCE, events(&self.backend, after, limit)).await
    }

    /// Whether the trail says that there were tokens.
    pub async fn had_tokens(&self) -> Result<bool, Error> {
        self.within(PATIENCE, had_tokens(&self.backend)).await
    }

    /// Notes when tokens were last used.
    pub async fn note_token_use(&self, used: &[(String, Timestamp)]) -> Result<(), Error> {
        self.within(PATIENCE, note_use(&self.backend, used)).await
    }
}

/// Which tokens to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// Those that were neither revoked nor have expired by now.
    Live(Timestamp),
    /// All that ever were.
    All,
}

async fn insert(
    backend: &Backend,
    token: &StoredToken,
    event: &NewAccessEvent,
    most_live: usize,
) -> Result<bool, Error> {
    let most = i64::try_from(most_live).unwrap_or(i64::MAX);
    transact!(backend, tx => {
        let done = sqlx::query(sql::NEW_TOKEN)
            .bind(token.id.as_str())
            .bind(token.digest.to_string())
            .bind(token.name.as_str())
            .bind(token.team.as_str())
            .bind(token.roles.as_str())
            .bind(token.scopes.as_str())
            .bind(At(token.created_at))
            .bind(token.created_by.as_str())
            .bind(token.expires_at.map(At))
            .bind(most)
            .execute(&mut *tx)
            .await?;
        let is_new = done.rows_affected() == 1;
        if is_new {
            record!(tx, event, CREATED, token.id.as_str());
        }
        is_new
    })
}

async fn revoke(backend: &Backend, id: &str, event: &NewAccessEvent) -> Result<bool, Error> {
    transact!(backend, tx => {
        let done = sqlx::query(sql::REVOKE_TOKEN)
            .bind(id)
            .bind(At(event.at))
            .bind(event.principal.as_str())
            .execute(&mut *tx)
            .await?;
        let is_revoked = done.rows_affected() == 1;
        if is_revoked {
            record!(tx, event, REVOKED, id);
        }
        is_revoked
    })
}

async fn note_use(backend: &Backend, used: &[(String, Timestamp)]) -> Result<(), Error> {
    transact!(backend, tx => {
        for (id, at) in used {
            sqlx::query(sql::TOKEN_USED).bind(id.as_str()).bind(At(*at)).execute(&mut *tx).await?;
        }
    })
}

async fn list(
    backend: &Backend,
    which: Which,
    TokenPlace { created_at, id }: &TokenPlace,
    limit: usize,
) -> Result<Vec<StoredToken>, Error> {
    let (limit, at, id) = (i64::try_from(limit).unwrap_or(i64::MAX), At(*created_at), id.as_str());
    let rows: Result<Vec<TokenRow>, _> = match which {
        Which::Live(now) => {
            let now = At(now);
            run!(Backend(backend), TokenRow, sql::LIVE_TOKENS, [limit, at, id, now], fetch_all)
        }
        Which::All => run!(Backend(backend), TokenRow, sql::ALL_TOKENS, [limit, at, id], fetch_all),
    };
    let rows = rows.map_err(|e| backend.explain(&e))?;
    rows.into_iter().map(StoredToken::try_from).collect()
}

async fn find(backend: &Backend, wanted: &str) -> Result<Option<StoredToken>, Error> {
    let TokenPlace { created_at, id } = TokenPlace::start();
    let (at, id) = (At(created_at), id.as_str());
    let rows: Result<Vec<TokenRow>, _> =
        run!(Backend(backend), TokenRow, sql::ONE_TOKEN, [1_i64, at, id, wanted], fetch_all);
    let row = rows.map_err(|e| backend.explain(&e))?.into_iter().next();
    row.map(StoredToken::try_from).transpose()
}

async fn events(backend: &Backend, after: u64, limit: usize) -> Result<Vec<AccessEvent>, Error> {
    let after = i64::try_from(after).unwrap_or(i64::MAX);
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let rows: Result<Vec<AccessEventRow>, _> =
        run!(Backend(backend), AccessEventRow, sql::ACCESS_EVENTS, [after, limit], fetch_all);
    let rows = rows.map_err(|e| backend.explain(&e))?;
    rows.into_iter().map(AccessEvent::try_from).collect()
}

async fn had_tokens(backend: &Backend) -> Result<bool, Error> {
    let row: Result<Option<(i64,)>, _> =
        run!(Backend(backend), (i64,), sql::ANY_TOKEN_EVENT, [], fetch_optional);
    row.map(|row| row.is_some()).map_err(|e| backend.explain(&e))
}

impl TryFrom<AccessEventRow> for AccessEvent {
    type Error = Error;

    fn try_from(row: AccessEventRow) -> Result<Self, Error> {
        let AccessEventRow { number, at: At(at), principal, method, address, .. } = row;
        let number = u64::try_from(number)
            .map_err(|_| corrupt(format!("access event {number}"), "its number is negative"))?;
        let what = NewAccessEvent { at, principal, method, address, detail: row.detail };
        Ok(Self { number, event: row.event, subject: row.subject, what })
    }
}

impl TryFrom<TokenRow> for StoredToken {
    type Error = Error;

    fn try_from(row: TokenRow) -> Result<Self, Error> {
        let digest =
            Digest::parse(&row.digest).map_err(|e| corrupt(format!("token {}", row.id), e))?;
        let revoked = row.revoked_at.zip(row.revoked_by).map(|(At(at), by)| Revoked { at, by });
        Ok(Self {
            id: row.id,
            digest,
            name: row.name,
            team: row.team,
            roles: row.roles,
            scopes: row.scopes,
            created_at: row.created_at.0,
            created_by: row.created_by,
            expires_at: row.expires_at.map(|At(at)| at),
            revoked,
            last_used_at: row.last_used_at.map(|At(at)| at),
        })
    }
}

//! API tokens and access events.
//!
//! A change and its access event share a transaction.

use registry_core::{Digest, Revision, Timestamp};

use super::{
    Error, OPERATION_TIMEOUT, Store,
    backend::{Backend, run},
    row::{AccessEventRow, TokenRow, corrupt},
    sql,
    sql_timestamp::SqlTimestamp,
};

/// A stored token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredToken {
    /// Public id.
    pub id: String,
    /// Digest of the secret.
    pub digest: Digest,
    /// Name of the principal.
    pub name: String,
    /// Team of the principal.
    pub team: String,
    /// Roles, separated by spaces.
    pub roles: String,
    /// Scopes, separated by spaces.
    pub scopes: String,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Principal that created the token.
    pub created_by: String,
    /// Expiry; `None` never expires.
    pub expires_at: Option<Timestamp>,
    /// Revocation, if any.
    pub revoked: Option<Revoked>,
    /// Time of last use, with a resolution of one hour.
    pub last_used_at: Option<Timestamp>,
}

/// Revocation of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revoked {
    /// Time.
    pub at: Timestamp,
    /// Principal that revoked the token.
    pub by: String,
}

/// An access event to store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewAccessEvent {
    /// Time.
    pub at: Timestamp,
    /// Principal.
    pub principal: String,
    /// Authentication method of the principal.
    pub method: String,
    /// Client address; empty for an administrative command.
    pub address: String,
    /// Readable details.
    pub detail: String,
}

/// Access event of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitEvent {
    /// Revision of the commit.
    pub revision: Revision,
    /// Author, time, authentication method and client address.
    pub what: NewAccessEvent,
}

/// A stored access event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessEvent {
    /// Sequence number.
    pub number: u64,
    /// `token-created`, `token-revoked`, `committed`, `checkpoint-key-replaced`, `ledger-recovery-started`,
    /// `ledger-recovery-ended`, `approval-approved`, `approval-denied`, `approval-grant-revoked`, `budget-adjusted` or
    /// `budget-reclaimed`.
    pub event: String,
    /// Id of the token, approval request or grant, revision of the commit, verifier key, generation of the ledger, or
    /// budget with its window.
    pub subject: String,
    /// Principal, time, authentication method and client address.
    pub what: NewAccessEvent,
}

/// Position in the list of tokens, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenCursor {
    /// Creation time of the last token.
    pub created_at: Timestamp,
    /// Id of the last token.
    pub id: String,
}

impl TokenCursor {
    /// Position before all tokens.
    pub fn start() -> Self {
        Self { created_at: Timestamp::from_millis(i64::MAX), id: String::new() }
    }
}

/// Runs statements in one transaction on either database.
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
/// Error of a database whose triggers or rules discard access events.
pub(super) const DROPPED: &str = "a trigger or rule discards rows of the table access_events, so the change \
                                  was rolled back; run `registryctl audit verify` to find it";

/// Stores an access event in a transaction. Fails if no row was inserted.
macro_rules! record {
    ($tx:ident, $event:expr, $kind:expr, $subject:expr) => {{
        let done = sqlx::query($crate::store::sql::NEW_ACCESS_EVENT)
            .bind($crate::store::sql_timestamp::SqlTimestamp($event.at))
            .bind($event.principal.as_str())
            .bind($event.method.as_str())
            .bind($event.address.as_str())
            .bind($kind)
            .bind($subject)
            .bind($event.detail.as_str())
            .execute(&mut *$tx)
            .await?;
        if done.rows_affected() != 1 {
            return Err(sqlx::Error::InvalidArgument($crate::store::tokens::DROPPED.to_owned()));
        }
    }};
}
pub(super) use record;

impl Store {
    /// Stores a new token. Returns false if the limit of active tokens is reached.
    pub async fn insert_token(
        &self,
        token: &StoredToken,
        event: &NewAccessEvent,
        max_active: usize,
    ) -> Result<bool, Error> {
        self.within(OPERATION_TIMEOUT, insert(&self.backend, token, event, max_active)).await
    }

    /// Revokes a token. Returns false if no active token has the id.
    pub async fn revoke_token(&self, id: &str, event: &NewAccessEvent) -> Result<bool, Error> {
        self.within(OPERATION_TIMEOUT, revoke(&self.backend, id, event)).await
    }

    /// Lists tokens after a position, newest first.
    pub async fn tokens(
        &self,
        filter: TokenFilter,
        after: &TokenCursor,
        limit: usize,
    ) -> Result<Vec<StoredToken>, Error> {
        self.within(OPERATION_TIMEOUT, list(&self.backend, filter, after, limit)).await
    }

    /// Finds a token by its id.
    pub async fn token(&self, id: &str) -> Result<Option<StoredToken>, Error> {
        self.within(OPERATION_TIMEOUT, find(&self.backend, id)).await
    }

    /// Lists access events after a sequence number, oldest first.
    pub async fn access_events(&self, after: u64, limit: usize) -> Result<Vec<AccessEvent>, Error> {
        self.within(OPERATION_TIMEOUT, events(&self.backend, after, limit)).await
    }

    /// Whether an access event shows that there was a token.
    pub async fn had_tokens(&self) -> Result<bool, Error> {
        self.within(OPERATION_TIMEOUT, had_tokens(&self.backend)).await
    }

    /// Stores the times of last use.
    pub async fn record_token_use(&self, used: &[(String, Timestamp)]) -> Result<(), Error> {
        self.within(OPERATION_TIMEOUT, record_use(&self.backend, used)).await
    }
}

/// Selection of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenFilter {
    /// Tokens that are neither revoked nor expired at this time.
    Active(Timestamp),
    /// All tokens.
    All,
}

async fn insert(
    backend: &Backend,
    token: &StoredToken,
    event: &NewAccessEvent,
    max_active: usize,
) -> Result<bool, Error> {
    let most = i64::try_from(max_active).unwrap_or(i64::MAX);
    transact!(backend, tx => {
        let done = sqlx::query(sql::NEW_TOKEN)
            .bind(token.id.as_str())
            .bind(token.digest.to_string())
            .bind(token.name.as_str())
            .bind(token.team.as_str())
            .bind(token.roles.as_str())
            .bind(token.scopes.as_str())
            .bind(SqlTimestamp(token.created_at))
            .bind(token.created_by.as_str())
            .bind(token.expires_at.map(SqlTimestamp))
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
            .bind(SqlTimestamp(event.at))
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

async fn record_use(backend: &Backend, used: &[(String, Timestamp)]) -> Result<(), Error> {
    transact!(backend, tx => {
        for (id, at) in used {
            sqlx::query(sql::TOKEN_USED).bind(id.as_str()).bind(SqlTimestamp(*at)).execute(&mut *tx).await?;
        }
    })
}

async fn list(
    backend: &Backend,
    filter: TokenFilter,
    TokenCursor { created_at, id }: &TokenCursor,
    limit: usize,
) -> Result<Vec<StoredToken>, Error> {
    let (limit, at, id) =
        (i64::try_from(limit).unwrap_or(i64::MAX), SqlTimestamp(*created_at), id.as_str());
    let rows: Result<Vec<TokenRow>, _> = match filter {
        TokenFilter::Active(now) => {
            let now = SqlTimestamp(now);
            run!(Backend(backend), TokenRow, sql::ACTIVE_TOKENS, [limit, at, id, now], fetch_all)
        }
        TokenFilter::All => {
            run!(Backend(backend), TokenRow, sql::ALL_TOKENS, [limit, at, id], fetch_all)
        }
    };
    let rows = rows.map_err(|e| backend.explain(&e))?;
    rows.into_iter().map(StoredToken::try_from).collect()
}

async fn find(backend: &Backend, wanted: &str) -> Result<Option<StoredToken>, Error> {
    let TokenCursor { created_at, id } = TokenCursor::start();
    let (at, id) = (SqlTimestamp(created_at), id.as_str());
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
        let AccessEventRow { number, at: SqlTimestamp(at), principal, method, address, .. } = row;
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
        let revoked =
            row.revoked_at.zip(row.revoked_by).map(|(SqlTimestamp(at), by)| Revoked { at, by });
        Ok(Self {
            id: row.id,
            digest,
            name: row.name,
            team: row.team,
            roles: row.roles,
            scopes: row.scopes,
            created_at: row.created_at.0,
            created_by: row.created_by,
            expires_at: row.expires_at.map(|SqlTimestamp(at)| at),
            revoked,
            last_used_at: row.last_used_at.map(|SqlTimestamp(at)| at),
        })
    }
}

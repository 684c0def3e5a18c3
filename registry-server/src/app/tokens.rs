//! Creates, lists and revokes API tokens, and lists access events.
//!
//! Each change is recorded as an access event and in the log (target `audit`).

use registry_core::{Selector, Timestamp};

use super::page::{InvalidPage, Page, PageRequest};
use crate::{
    access::{InvalidToken, MAX_ACTIVE_TOKENS, NewToken, Principal, Scopes, TokenSecret},
    store::{self, AccessEvent, NewAccessEvent, Store, StoredToken, TokenCursor, TokenFilter},
};

/// A failed operation on tokens.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An invalid token.
    #[error(transparent)]
    Invalid(#[from] InvalidToken),
    /// The scopes of the token exceed those of the caller.
    #[error(
        "the scope `{beyond}` of the token exceeds the scopes of `{name}`, which are {held}; use a caller with wider \
         scopes"
    )]
    Beyond {
        /// The name of the caller.
        name: String,
        /// The scopes of the caller.
        held: String,
        /// The first scope that exceeds them.
        beyond: Selector,
    },
    /// The limit of active tokens is reached.
    #[error("the limit of {MAX_ACTIVE_TOKENS} active tokens is reached; revoke unused tokens")]
    TooMany,
    /// No active token has this id.
    #[error("no active token has the id `{0}`")]
    Unknown(String),
    /// The random number generator failed.
    #[error("the random number generator of the system failed")]
    Random,
    /// An invalid page.
    #[error(transparent)]
    Page(#[from] InvalidPage),
    /// The database.
    #[error(transparent)]
    Store(#[from] store::Error),
}

/// Creates a token. Only the returned secret authenticates.
pub async fn create(
    store: &Store,
    by: &Principal,
    wanted: NewToken,
    now: Timestamp,
) -> Result<(TokenSecret, StoredToken), Error> {
    wanted.check(now)?;
    check_reach(by, &wanted.scopes)?;
    let secret = TokenSecret::generate().map_err(|_| Error::Random)?;
    let NewToken { name, team, roles, scopes, expires_at } = wanted;
    let token = StoredToken {
        id: secret.id().to_owned(),
        digest: secret.digest(),
        name,
        team,
        roles: roles.to_string(),
        scopes: scopes.to_string(),
        created_at: now,
        created_by: by.name.to_string(),
        expires_at,
        revoked: None,
        last_used_at: None,
    };
    let event = by.access_event(now, describe(&token));
    if !store.insert_token(&token, &event, MAX_ACTIVE_TOKENS).await? {
        return Err(Error::TooMany);
    }
    note("token-created", &token.id, &event);
    Ok((secret, token))
}

/// Lists active tokens or all tokens, newest first.
pub async fn list(
    store: &Store,
    which: TokenFilter,
    page: &PageRequest,
) -> Result<Page<StoredToken>, Error> {
    let after = page.cursor(read_place)?.unwrap_or_else(TokenCursor::start);
    let items = store.tokens(which, &after, page.size + 1).await?;
    let place = |last: &StoredToken| format!("{} {}", last.created_at.as_millis(), last.id);
    Ok(page.page(items, place))
}

fn read_place(cursor: &str) -> Option<TokenCursor> {
    let (millis, id) = cursor.split_once(' ')?;
    let created_at = Timestamp::from_millis(millis.parse().ok()?);
    Some(TokenCursor { created_at, id: id.to_owned() })
}

/// Lists access events after this number, oldest first.
pub async fn list_events(
    store: &Store,
    after: u64,
    page: &PageRequest,
) -> Result<Page<AccessEvent>, Error> {
    let after = page.cursor(|cursor| cursor.parse().ok())?.unwrap_or(after);
    let items = store.access_events(after, page.size + 1).await?;
    Ok(page.page(items, |last| last.number.to_string()))
}

/// Revokes a token.
pub async fn revoke(store: &Store, by: &Principal, id: &str, now: Timestamp) -> Result<(), Error> {
    let unknown = || Error::Unknown(id.chars().take(64).collect());
    if !by.scopes.selectors().is_empty() {
        let token = store.token(id).await?.ok_or_else(unknown)?;
        // Scopes of newer servers count as unrestricted.
        check_reach(by, &token.scopes.parse().unwrap_or_default())?;
    }
    let event = by.access_event(now, String::new());
    if !store.revoke_token(id, &event).await? {
        return Err(unknown());
    }
    note("token-revoked", id, &event);
    Ok(())
}

/// A caller with scopes must not create or revoke tokens with wider scopes, which would escalate privileges.
fn check_reach(by: &Principal, scopes: &Scopes) -> Result<(), Error> {
    let Some(beyond) = scopes.first_outside(&by.scopes) else { return Ok(()) };
    let (name, held) = (by.name.to_string(), by.scopes.to_string());
    Err(Error::Beyond { name, held, beyond })
}

fn describe(token: &StoredToken) -> String {
    let StoredToken { name, team, roles, scopes, expires_at, .. } = token;
    let scopes = if scopes.is_empty() { "*" } else { scopes };
    let end = expires_at.map_or("never".to_owned(), |at| at.to_string());
    format!("name {name}, team {team}, roles {roles}, scopes {scopes}, expires {end}")
}

fn note(event: &'static str, id: &str, what: &NewAccessEvent) {
    let NewAccessEvent { at: _, principal, method, address, detail } = what;
    tracing::info!(target: "audit", event, token.id = id, principal, method, address, detail);
}

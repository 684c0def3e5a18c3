//! Make, list and end API tokens, and read the trail of that.
//!
//! Each is noted in the trail of the database and in the log (target `audit`).

use registry_core::{Selector, Timestamp};

use super::page::{self, InvalidPage, Page};
use crate::{
    access::{InvalidToken, MAX_ACTIVE_TOKENS, NewToken, Principal, Scopes, TokenSecret},
    store::{self, AccessEvent, NewAccessEvent, Store, StoredToken, TokenCursor, TokenFilter},
};

/// Why a token was not made or ended.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be as it is wanted.
    #[error(transparent)]
    Invalid(#[from] InvalidToken),
    /// It reaches further than whoever asks.
    #[error(
        "`{name}` reaches {held} only, and this token reaches `{beyond}`; give it scopes within \
         those, or ask somebody who reaches that"
    )]
    Beyond {
        /// Who asks.
        name: String,
        /// The scopes of whoever asks.
        held: String,
        /// What of the token is beyond them.
        beyond: Selector,
    },
    /// There are too many.
    #[error("{MAX_ACTIVE_TOKENS} tokens live already; revoke some")]
    TooMany,
    /// There is none, or it has ended already.
    #[error("no token `{0}` lives")]
    Unknown(String),
    /// The machine has no randomness.
    #[error("the machine gives no random bytes")]
    Random,
    /// The page asked for.
    #[error(transparent)]
    Page(#[from] InvalidPage),
    /// The database.
    #[error(transparent)]
    Store(#[from] store::Error),
}

/// Makes a token; its text is in nobody's hands but the caller's.
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
    let event = event(by, now, describe(&token));
    if !store.insert_token(&token, &event, MAX_ACTIVE_TOKENS).await? {
        return Err(Error::TooMany);
    }
    note("token-created", &token.id, &event);
    Ok((secret, token))
}

/// Lists tokens, newest first: those that live, or all.
pub async fn list(
    store: &Store,
    which: TokenFilter,
    size: usize,
    token: &str,
) -> Result<Page<StoredToken>, Error> {
    let mark = match which {
        TokenFilter::Active(_) => "tokens that live",
        TokenFilter::All => "tokens",
    };
    let after = page::cursor(mark, token, read_place)?.unwrap_or_else(TokenCursor::start);
    let items = store.tokens(which, &after, size + 1).await?;
    let place = |last: &StoredToken| format!("{} {}", last.created_at.as_millis(), last.id);
    Ok(Page::of(items, size, mark, place))
}

fn read_place(cursor: &str) -> Option<TokenCursor> {
    let (millis, id) = cursor.split_once(' ')?;
    let created_at = Timestamp::from_millis(millis.parse().ok()?);
    Some(TokenCursor { created_at, id: id.to_owned() })
}

/// Lists the trail after this number, oldest first.
pub async fn list_events(
    store: &Store,
    after: u64,
    size: usize,
    token: &str,
) -> Result<Page<AccessEvent>, Error> {
    let mark = format!("access events after {after}");
    let after = page::cursor(&mark, token, |cursor| cursor.parse().ok())?.unwrap_or(after);
    let items = store.access_events(after, size + 1).await?;
    Ok(Page::of(items, size, &mark, |last| last.number.to_string()))
}

/// Ends a token.
pub async fn revoke(store: &Store, by: &Principal, id: &str, now: Timestamp) -> Result<(), Error> {
    let unknown = || Error::Unknown(id.chars().take(64).collect());
    if !by.scopes.selectors().is_empty() {
        let token = store.token(id).await?.ok_or_else(unknown)?;
        // Scopes that only a newer server can read may be everything.
        check_reach(by, &token.scopes.parse().unwrap_or_default())?;
    }
    let event = event(by, now, String::new());
    if !store.revoke_token(id, &event).await? {
        return Err(unknown());
    }
    note("token-revoked", id, &event);
    Ok(())
}

/// Whoever is held to scopes neither makes nor ends what reaches further: it would be a way out.
fn check_reach(by: &Principal, scopes: &Scopes) -> Result<(), Error> {
    let Some(beyond) = scopes.first_outside(&by.scopes) else { return Ok(()) };
    let (name, held) = (by.name.to_string(), by.scopes.to_string());
    Err(Error::Beyond { name, held, beyond })
}

fn event(by: &Principal, at: Timestamp, detail: String) -> NewAccessEvent {
    let (principal, method) = (by.name.to_string(), by.method.to_string());
    NewAccessEvent { at, principal, method, address: by.address_text(), detail }
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

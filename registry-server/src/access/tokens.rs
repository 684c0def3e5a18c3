//! In-memory cache of the active tokens, reloaded every [`REFRESH_INTERVAL`], so that authentication needs
//! no query and a revocation applies on every server within that time.
//!
//! If the database is unavailable, cached tokens stay valid for [`MAX_STALENESS`]. An unknown token causes a
//! reload, at most once per [`LOOKUP_INTERVAL`] for all callers.

use std::{
    collections::HashMap,
    mem,
    sync::{Arc, Mutex as StdMutex, PoisonError, Weak},
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use registry_core::Timestamp;
use tokio::{
    sync::{Mutex, watch},
    time::sleep,
};

use super::{Denied, TokenSecret, failures::Lookup, token::Token};
use crate::{
    clock::Clock,
    store::{self, Store, StoredToken, TokenCursor, TokenFilter},
};

/// Interval between reloads.
const REFRESH_INTERVAL: Duration = Duration::from_secs(2);
/// Maximum age of the cache while the database is unavailable.
const MAX_STALENESS: Duration = Duration::from_hours(1);
/// Minimum time between reloads caused by unknown tokens.
const LOOKUP_INTERVAL: Duration = Duration::from_millis(250);
/// Maximum active tokens.
pub const MAX_ACTIVE_TOKENS: usize = 2_000;
/// Resolution of the stored time of last use.
const LAST_USE_MILLIS: i64 = 60 * 60 * 1000;

/// Whether the registry has or had tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Issued {
    /// It never had one.
    Never,
    /// All tokens are expired or revoked.
    Inactive,
    /// At least one token is active.
    Active,
}

/// Cache of the active tokens.
pub struct Tokens {
    store: Store,
    clock: Arc<dyn Clock>,
    known: ArcSwap<Snapshot>,
    /// Notified when a token is removed from the cache.
    removed: watch::Sender<()>,
    /// Start of the last lookup; locked during a lookup.
    last_lookup: Mutex<Instant>,
    used: StdMutex<HashMap<String, Timestamp>>,
}

struct Snapshot {
    by_id: HashMap<String, Arc<Token>>,
    read: Instant,
}

impl Tokens {
    /// Loads the tokens and starts the periodic reload, which stops when the cache is dropped.
    pub async fn open(store: Store, clock: Arc<dyn Clock>) -> Result<Arc<Self>, store::Error> {
        let known = read(&store, clock.now()).await?;
        let last_lookup = Mutex::new(known.read);
        let known = ArcSwap::from_pointee(known);
        let (removed, used) = (watch::Sender::new(()), StdMutex::default());
        let tokens = Arc::new(Self { store, clock, known, removed, last_lookup, used });
        tokio::spawn(reload_periodically(Arc::downgrade(&tokens)));
        Ok(tokens)
    }

    /// Whether the registry has or had tokens, including those in access events.
    pub async fn issued(&self) -> Result<Issued, store::Error> {
        if !self.known.load().by_id.is_empty() {
            return Ok(Issued::Active);
        }
        let tokens = self.store.tokens(TokenFilter::All, &TokenCursor::start(), 1).await?;
        let is_new = tokens.is_empty() && !self.store.had_tokens().await?;
        Ok(if is_new { Issued::Never } else { Issued::Inactive })
    }

    /// Finds a token by its secret. The log has the details of a failure.
    pub(super) async fn find(&self, text: &str, lookup: Lookup) -> Result<Arc<Token>, Denied> {
        let secret = TokenSecret::parse(text).map_err(|e| Denied::Invalid(e.to_string()))?;
        let id = secret.id();
        let invalid = |reason: &str| Denied::Invalid(format!("the token {id} {reason}"));
        if lookup == Lookup::Allowed && !self.known.load().by_id.contains_key(id) {
            self.look_up().await;
        }
        let known = self.known.load();
        if known.read.elapsed() > MAX_STALENESS {
            return Err(Denied::TokensUnavailable);
        }
        let token = known.by_id.get(id).ok_or_else(|| invalid("is unknown or revoked"))?;
        if !secret.matches(&token.digest) {
            return Err(invalid("has a wrong secret"));
        }
        let now = self.clock.now();
        if token.expires_at.is_some_and(|at| at <= now) {
            return Err(invalid("has expired"));
        }
        self.record_use(id, token, now);
        Ok(token.clone())
    }

    /// Whether a token is neither revoked nor expired, by a current cache.
    pub(crate) fn is_active(&self, id: &str) -> bool {
        let known = self.known.load();
        let now = self.clock.now();
        let is_valid = |token: &Arc<Token>| token.expires_at.is_none_or(|at| at > now);
        known.read.elapsed() <= MAX_STALENESS && known.by_id.get(id).is_some_and(is_valid)
    }

    /// Reloads the tokens.
    pub async fn refresh(&self) -> Result<(), store::Error> {
        self.install(read(&self.store, self.clock.now()).await?);
        Ok(())
    }

    /// Replaces the snapshot, unless the current one is newer: an older one may lack a revocation.
    fn install(&self, reading: Snapshot) {
        let reading = Arc::new(reading);
        let later = |known: &Arc<Snapshot>| {
            if known.read > reading.read { known.clone() } else { reading.clone() }
        };
        let before = self.known.rcu(later);
        let is_taken = before.read <= reading.read;
        if is_taken && before.by_id.keys().any(|id| !reading.by_id.contains_key(id)) {
            self.removed.send_replace(());
        }
    }

    /// Completes when the token is no longer active.
    pub(super) async fn ended(&self, id: &str) {
        let mut removed = self.removed.subscribe();
        while self.known.load().by_id.contains_key(id) {
            // The sender lives as long as `self`.
            let _ = removed.changed().await;
        }
    }

    /// Reloads the tokens for an unknown one. Concurrent callers share one reload.
    async fn look_up(&self) {
        let started = Instant::now();
        let mut last_lookup = self.last_lookup.lock().await;
        if *last_lookup > started {
            return;
        }
        sleep(LOOKUP_INTERVAL.saturating_sub(last_lookup.elapsed())).await;
        *last_lookup = Instant::now();
        // Without the database, the cached tokens remain in use.
        let _ = self.refresh().await;
    }

    fn record_use(&self, id: &str, token: &Token, now: Timestamp) {
        let is_recorded = |at: Option<&Timestamp>| {
            at.is_some_and(|at| now.as_millis() - at.as_millis() < LAST_USE_MILLIS)
        };
        if !is_recorded(token.last_used_at.as_ref()) {
            // The map is consistent even if another thread panicked.
            let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
            if !used.contains_key(id) {
                used.insert(id.to_owned(), now);
            }
        }
    }

    async fn flush_uses(&self) {
        let used = mem::take(&mut *self.used.lock().unwrap_or_else(PoisonError::into_inner));
        if used.is_empty() {
            return;
        }
        let used: Vec<_> = used.into_iter().collect();
        if let Err(error) = self.store.record_token_use(&used).await {
            // The next use records a time again.
            tracing::debug!(%error, "cannot store the last use of tokens");
        }
    }
}

async fn reload_periodically(tokens: Weak<Tokens>) {
    loop {
        sleep(REFRESH_INTERVAL).await;
        let Some(tokens) = tokens.upgrade() else { return };
        tokens.flush_uses().await;
        if let Err(error) = tokens.refresh().await {
            tracing::debug!(%error, "cannot reload the tokens; cached tokens remain in use");
        }
    }
}

async fn read(store: &Store, now: Timestamp) -> Result<Snapshot, store::Error> {
    let read = Instant::now();
    let stored =
        store.tokens(TokenFilter::Active(now), &TokenCursor::start(), MAX_ACTIVE_TOKENS).await?;
    let mut by_id = HashMap::with_capacity(stored.len());
    for token in stored {
        let StoredToken { id, .. } = &token;
        let id = id.clone();
        match Token::try_from(token) {
            Ok(token) => drop(by_id.insert(id, Arc::new(token))),
            // A token of a newer version is unknown to this server.
            Err(error) => tracing::warn!(
                token.id = id,
                error,
                "ignoring a token with unknown roles or scopes"
            ),
        }
    }
    Ok(Snapshot { by_id, read })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        access::Roles,
        clock::SystemClock,
        store::{DatabaseUrl, NewAccessEvent},
    };

    fn event() -> NewAccessEvent {
        let (principal, method) = ("root".to_owned(), "local".to_owned());
        let (address, detail) = (String::new(), String::new());
        NewAccessEvent { at: SystemClock.now(), principal, method, address, detail }
    }

    #[tokio::test]
    async fn stale_reload_keeps_a_revocation() {
        let directory = tempfile::tempdir().unwrap();
        let url = DatabaseUrl::sqlite(directory.path().join("registry.db"));
        let store = Store::open(&url).await.unwrap();
        let secret = TokenSecret::generate().unwrap();
        let token = StoredToken {
            id: secret.id().to_owned(),
            digest: secret.digest(),
            name: "ann".to_owned(),
            team: "docs".to_owned(),
            roles: Roles::ALL.to_string(),
            scopes: String::new(),
            created_at: SystemClock.now(),
            created_by: "root".to_owned(),
            expires_at: None,
            revoked: None,
            last_used_at: None,
        };
        assert!(store.insert_token(&token, &event(), MAX_ACTIVE_TOKENS).await.unwrap());
        let tokens = Tokens::open(store.clone(), Arc::new(SystemClock)).await.unwrap();
        assert!(tokens.find(secret.expose(), Lookup::LocalOnly).await.is_ok());
        let early = read(&store, SystemClock.now()).await.unwrap();
        assert!(store.revoke_token(secret.id(), &event()).await.unwrap());
        tokens.refresh().await.unwrap();
        tokens.install(early);
        assert!(tokens.find(secret.expose(), Lookup::LocalOnly).await.is_err(), "it stays revoked");
    }
}

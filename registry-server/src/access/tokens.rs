//! The tokens that live, in memory: read again every [`FRESH`], so that a revocation on any server
//! holds everywhere within that time, and a call costs no query.
//!
//! Without the database the last known tokens go on for [`TRUST`]; then nobody is let in by one. A
//! token that is not known makes one look at the database, a few times a second at most, whoever
//! asks.

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

use super::{Denied, TokenSecret, failures::Ask, token::Token};
use crate::{
    clock::Clock,
    store::{self, Store, StoredToken, TokenPlace, Which},
};

/// How often the tokens are read.
const FRESH: Duration = Duration::from_secs(2);
/// How long they are believed without the database.
const TRUST: Duration = Duration::from_hours(1);
/// How often a token that is not known may make the server look.
const LOOK: Duration = Duration::from_millis(250);
/// Most tokens that live at once.
pub const LIVE: usize = 2_000;
/// How exactly the last use is kept.
const USE_MILLIS: i64 = 60 * 60 * 1000;

/// Whether tokens were ever made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Issued {
    /// Never.
    Never,
    /// All have expired or were revoked.
    Ended,
    /// There are some that live.
    Live,
}

/// The tokens that live.
pub struct Tokens {
    store: Store,
    clock: Arc<dyn Clock>,
    known: ArcSwap<Known>,
    /// Told when tokens were known and are no more.
    gone: watch::Sender<()>,
    /// When somebody last began to look; held while looking.
    looked: Mutex<Instant>,
    used: StdMutex<HashMap<String, Timestamp>>,
}

struct Known {
    by_id: HashMap<String, Arc<Token>>,
    read: Instant,
}

impl Tokens {
    /// Reads them, and keeps reading for as long as they are used.
    pub async fn open(store: Store, clock: Arc<dyn Clock>) -> Result<Arc<Self>, store::Error> {
        let known = read(&store, clock.now()).await?;
        let looked = Mutex::new(known.read);
        let known = ArcSwap::from_pointee(known);
        let (gone, used) = (watch::Sender::new(()), StdMutex::default());
        let tokens = Arc::new(Self { store, clock, known, gone, looked, used });
        tokio::spawn(keep_fresh(Arc::downgrade(&tokens)));
        Ok(tokens)
    }

    /// Whether there are some, or were. What the trail says counts too.
    pub async fn issued(&self) -> Result<Issued, store::Error> {
        if !self.known.load().by_id.is_empty() {
            return Ok(Issued::Live);
        }
        let tokens = self.store.tokens(Which::All, &TokenPlace::start(), 1).await?;
        let is_new = tokens.is_empty() && !self.store.had_tokens().await?;
        Ok(if is_new { Issued::Never } else { Issued::Ended })
    }

    /// The token of this text. What is wrong with it is for the log only.
    pub(super) async fn find(&self, text: &str, ask: Ask) -> Result<Arc<Token>, Denied> {
        let secret = TokenSecret::parse(text).map_err(|e| Denied::Invalid(e.to_string()))?;
        let id = secret.id();
        let invalid = |why: &str| Denied::Invalid(format!("the token {id} {why}"));
        if ask == Ask::Yes && !self.known.load().by_id.contains_key(id) {
            self.look().await;
        }
        let known = self.known.load();
        if known.read.elapsed() > TRUST {
            return Err(Denied::Unverifiable);
        }
        let token = known.by_id.get(id).ok_or_else(|| invalid("is unknown or revoked"))?;
        if !secret.matches(&token.digest) {
            return Err(invalid("has another text"));
        }
        let now = self.clock.now();
        if token.expires_at.is_some_and(|at| at <= now) {
            return Err(invalid("has expired"));
        }
        self.note_use(id, token, now);
        Ok(token.clone())
    }

    /// Reads the tokens now, after a change of them for example.
    pub async fn refresh(&self) -> Result<(), store::Error> {
        self.take(read(&self.store, self.clock.now()).await?);
        Ok(())
    }

    /// Takes what was read. A reading that began later stays: this one may lack a revocation.
    fn take(&self, reading: Known) {
        let reading = Arc::new(reading);
        let later = |known: &Arc<Known>| {
            if known.read > reading.read { known.clone() } else { reading.clone() }
        };
        let before = self.known.rcu(later);
        let is_taken = before.read <= reading.read;
        if is_taken && before.by_id.keys().any(|id| !reading.by_id.contains_key(id)) {
            self.gone.send_replace(());
        }
    }

    /// Waits until a token is no more.
    pub(super) async fn ended(&self, id: &str) {
        let mut gone = self.gone.subscribe();
        while self.known.load().by_id.contains_key(id) {
            // The sender is there as long as this is.
            let _ = gone.changed().await;
        }
    }

    /// Reads them, a little later where somebody has just done so. Whoever waited meanwhile is
    /// served by the same reading.
    async fn look(&self) {
        let came = Instant::now();
        let mut looked = self.looked.lock().await;
        if *looked > came {
            return;
        }
        sleep(LOOK.saturating_sub(looked.elapsed())).await;
        *looked = Instant::now();
        // Without the database, what is known has to do.
        let _ = self.refresh().await;
    }

    fn note_use(&self, id: &str, token: &Token, now: Timestamp) {
        let is_noted = |at: Option<&Timestamp>| {
            at.is_some_and(|at| now.as_millis() - at.as_millis() < USE_MILLIS)
        };
        if !is_noted(token.last_used_at.as_ref()) {
            // The map is whole even if somebody panicked beside it.
            let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
            if !used.contains_key(id) {
                used.insert(id.to_owned(), now);
            }
        }
    }

    async fn write_uses(&self) {
        let used = mem::take(&mut *self.used.lock().unwrap_or_else(PoisonError::into_inner));
        if used.is_empty() {
            return;
        }
        let used: Vec<_> = used.into_iter().collect();
        if let Err(error) = self.store.note_token_use(&used).await {
            // The next use is noted instead.
            tracing::debug!(%error, "the last use of tokens was not noted");
        }
    }
}

async fn keep_fresh(tokens: Weak<Tokens>) {
    loop {
        sleep(FRESH).await;
        let Some(tokens) = tokens.upgrade() else { return };
        tokens.write_uses().await;
        if let Err(error) = tokens.refresh().await {
            tracing::debug!(%error, "the tokens were not read; those that are known go on");
        }
    }
}

async fn read(store: &Store, now: Timestamp) -> Result<Known, store::Error> {
    let read = Instant::now();
    let stored = store.tokens(Which::Live(now), &TokenPlace::start(), LIVE).await?;
    let mut by_id = HashMap::with_capacity(stored.len());
    for token in stored {
        let StoredToken { id, .. } = &token;
        let id = id.clone();
        match Token::try_from(token) {
            Ok(token) => drop(by_id.insert(id, Arc::new(token))),
            // Here the token is none.
            Err(error) => tracing::warn!(token.id = id, error, "a token cannot be used here"),
        }
    }
    Ok(Known { by_id, read })
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
    async fn late_reading_does_not_undo_a_revocation() {
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
        assert!(store.insert_token(&token, &event(), LIVE).await.unwrap());
        let tokens = Tokens::open(store.clone(), Arc::new(SystemClock)).await.unwrap();
        assert!(tokens.find(secret.expose(), Ask::No).await.is_ok());
        let early = read(&store, SystemClock.now()).await.unwrap();
        assert!(store.revoke_token(secret.id(), &event()).await.unwrap());
        tokens.refresh().await.unwrap();
        tokens.take(early);
        assert!(tokens.find(secret.expose(), Ask::No).await.is_err(), "it stays revoked");
    }
}

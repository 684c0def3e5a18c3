//! Caches tokens until shortly before they expire. Concurrent callers share one fetch.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use http::HeaderValue;
use registry_core::Digest;
use tokio::sync::Mutex as AsyncMutex;

use super::issued::Issued;
use crate::error::TokenError;

/// A token is replaced up to this long before it expires, because requests take time.
const MARGIN: Duration = Duration::from_secs(30);
/// How long a failed fetch is reported to further callers of the same token.
const RETRY: Duration = Duration::from_secs(1);

/// The subject of a token.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Whose {
    /// The gateway itself.
    Gateway,
    /// A caller, and the digest of the caller's exchanged token.
    Caller { principal: Box<str>, token: Digest },
}

/// The tokens of one target.
#[derive(Debug)]
pub(super) struct Tokens {
    table: Mutex<HashMap<Whose, Arc<Place>>>,
    limit: usize,
}

#[derive(Debug)]
struct Place {
    token: Mutex<Option<Token>>,
    /// Locked during a fetch. The time and the reason of the last failure.
    failed: AsyncMutex<Option<(Instant, TokenError)>>,
    used: Mutex<Instant>,
}

#[derive(Debug, Clone)]
struct Token {
    value: HeaderValue,
    until: Instant,
}

impl Tokens {
    pub(super) fn new(limit: usize) -> Self {
        Self { table: Mutex::default(), limit }
    }

    /// The cached token, or the result of `fetch`, which runs once at a time.
    pub(super) async fn get(
        &self,
        whose: Whose,
        fetch: impl Future<Output = Result<Issued, TokenError>>,
    ) -> Result<HeaderValue, TokenError> {
        let place = self.place(whose);
        if let Some(value) = place.value() {
            return Ok(value);
        }
        let mut failed = place.failed.lock().await;
        // Another caller may have fetched it, or failed to; a queue of attempts must not build up.
        if let Some(value) = place.value() {
            return Ok(value);
        }
        if let Some((_, why)) = failed.as_ref().filter(|(at, _)| at.elapsed() < RETRY) {
            return Err(why.clone());
        }
        let fetched = fetch.await;
        *failed = fetched.as_ref().err().map(|why| (Instant::now(), why.clone()));
        let Issued { value, lifetime } = fetched?;
        let until = Instant::now() + lifetime.saturating_sub(MARGIN.min(lifetime / 5));
        *lock(&place.token) = Some(Token { value: value.clone(), until });
        Ok(value)
    }

    /// Drops a token if it is still the current one.
    pub(super) fn forget(&self, whose: &Whose, value: &HeaderValue) {
        let Some(place) = lock(&self.table).get(whose).cloned() else { return };
        lock(&place.token).take_if(|token| token.value == *value);
    }

    fn place(&self, whose: Whose) -> Arc<Place> {
        let mut table = lock(&self.table);
        if let Some(place) = table.get(&whose) {
            *lock(&place.used) = Instant::now();
            return Arc::clone(place);
        }
        table.retain(|_, place| place.is_of_use());
        if table.len() >= self.limit {
            let oldest = table.iter().min_by_key(|(_, place)| *lock(&place.used));
            let oldest = oldest.map(|(whose, _)| whose.clone());
            oldest.and_then(|whose| table.remove(&whose));
        }
        let place = Arc::new(Place {
            token: Mutex::default(),
            failed: AsyncMutex::default(),
            used: Mutex::new(Instant::now()),
        });
        table.insert(whose, Arc::clone(&place));
        place
    }
}

impl Place {
    fn value(&self) -> Option<HeaderValue> {
        let token = lock(&self.token);
        token.as_ref().filter(|token| token.until > Instant::now()).map(|token| token.value.clone())
    }

    /// Whether the entry has a token, a waiting caller, or a recent failure.
    fn is_of_use(self: &Arc<Self>) -> bool {
        Arc::strong_count(self) > 1 || self.value().is_some() || lock(&self.used).elapsed() < RETRY
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    fn caller(name: &str) -> Whose {
        Whose::Caller { principal: name.into(), token: Digest::compute(name.as_bytes()) }
    }

    fn issued(value: &'static str, lifetime: Duration) -> Issued {
        Issued { value: HeaderValue::from_static(value), lifetime }
    }

    async fn get(tokens: &Tokens, whose: Whose, value: &'static str, seconds: u64) -> HeaderValue {
        let fetch = async { Ok(issued(value, Duration::from_secs(seconds))) };
        tokens.get(whose, fetch).await.unwrap()
    }

    #[tokio::test]
    async fn token_is_cached_per_caller_until_expiry() {
        let tokens = Tokens::new(10);
        assert_eq!(get(&tokens, caller("a"), "1", 60).await, "1");
        assert_eq!(get(&tokens, caller("a"), "2", 60).await, "1");
        assert_eq!(
            get(&tokens, caller("b"), "3", 60).await,
            "3",
            "the token belongs to another caller"
        );
        let other = Whose::Caller { principal: "a".into(), token: Digest::compute(b"renewed") };
        assert_eq!(get(&tokens, other, "4", 60).await, "4", "another token was exchanged");
        tokens.forget(&caller("a"), &HeaderValue::from_static("0"));
        assert_eq!(
            get(&tokens, caller("a"), "5", 60).await,
            "1",
            "the dropped token was replaced before"
        );
        tokens.forget(&caller("a"), &HeaderValue::from_static("1"));
        assert_eq!(get(&tokens, caller("a"), "6", 0).await, "6");
        assert_eq!(get(&tokens, caller("a"), "7", 60).await, "7", "the token expired immediately");
    }

    #[tokio::test]
    async fn concurrent_callers_share_one_fetch_and_its_failure() {
        let tokens = Tokens::new(10);
        let fetched = AtomicU64::new(0);
        let fetch = |answer: Result<Issued, TokenError>| {
            let (tokens, fetched) = (&tokens, &fetched);
            async move {
                let fetch = async {
                    fetched.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    answer
                };
                tokens.get(Whose::Gateway, fetch).await
            }
        };
        let failure = || Err(TokenError::Late { after_ms: 1 });
        let all = futures_util::future::join_all((0..20).map(|_| fetch(failure()))).await;
        assert!(all.iter().all(Result::is_err));
        assert_eq!(fetched.load(Ordering::Relaxed), 1);
        assert!(fetch(Ok(issued("t", RETRY))).await.is_err(), "the fetch failed just now");
        tokio::time::sleep(RETRY).await;
        let good = || fetch(Ok(issued("t", Duration::from_mins(1))));
        let all = futures_util::future::join_all((0..20).map(|_| good())).await;
        assert!(all.iter().all(Result::is_ok));
        assert_eq!(fetched.load(Ordering::Relaxed), 2);
    }

    #[tokio::test]
    async fn oldest_tokens_are_evicted_beyond_the_limit() {
        let tokens = Tokens::new(2);
        for name in ["a", "b", "c"] {
            get(&tokens, caller(name), "1", 60).await;
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        assert_eq!(lock(&tokens.table).len(), 2);
        assert_eq!(get(&tokens, caller("b"), "2", 60).await, "1");
        assert_eq!(get(&tokens, caller("a"), "2", 60).await, "2", "the token was evicted");
    }
}

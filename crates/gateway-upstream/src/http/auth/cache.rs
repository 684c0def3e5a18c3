//! Tokens, each until shortly before it is over; one is fetched once, whoever waits for it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use http::HeaderValue;
use registry_core::Digest;
use tokio::sync::Mutex as AsyncMutex;

use super::issued::Issued;
use crate::error::NoToken;

/// How long before its end a token is not used any more, at most: what it is sent with takes time.
const MARGIN: Duration = Duration::from_secs(30);
/// How long a failure is told to whoever asks for the same token.
const RETRY: Duration = Duration::from_secs(1);

/// In whose name a token speaks.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Whose {
    /// The gateway's.
    Gateway,
    /// A caller's, and for which token of the caller it was exchanged.
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
    /// Held by who fetches; when that last failed, and why.
    failed: AsyncMutex<Option<(Instant, NoToken)>>,
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

    /// The token that is there; else what comes of `fetch`, which is done by one at a time.
    pub(super) async fn get(
        &self,
        whose: Whose,
        fetch: impl Future<Output = Result<Issued, NoToken>>,
    ) -> Result<HeaderValue, NoToken> {
        let place = self.place(whose);
        if let Some(value) = place.value() {
            return Ok(value);
        }
        let mut failed = place.failed.lock().await;
        // Somebody may have just fetched it, or tried to; a queue of attempts would help nobody.
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

    /// Drops a token, if it is still the one that is there.
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

    /// Whether it has a token, somebody waits for one, or it failed just now.
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
    async fn a_token_is_kept_for_one_caller_until_it_is_over_or_forgotten() {
        let tokens = Tokens::new(10);
        assert_eq!(get(&tokens, caller("a"), "1", 60).await, "1");
        assert_eq!(get(&tokens, caller("a"), "2", 60).await, "1");
        assert_eq!(get(&tokens, caller("b"), "3", 60).await, "3", "it is another's");
        let other = Whose::Caller { principal: "a".into(), token: Digest::compute(b"renewed") };
        assert_eq!(get(&tokens, other, "4", 60).await, "4", "it was given for another token");
        tokens.forget(&caller("a"), &HeaderValue::from_static("0"));
        assert_eq!(get(&tokens, caller("a"), "5", 60).await, "1", "that one was replaced before");
        tokens.forget(&caller("a"), &HeaderValue::from_static("1"));
        assert_eq!(get(&tokens, caller("a"), "6", 0).await, "6");
        assert_eq!(get(&tokens, caller("a"), "7", 60).await, "7", "it was over at once");
    }

    #[tokio::test]
    async fn one_fetches_for_all_who_wait_and_a_failure_is_told_to_all() {
        let tokens = Tokens::new(10);
        let fetched = AtomicU64::new(0);
        let fetch = |answer: Result<Issued, NoToken>| {
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
        let failure = || Err(NoToken::Late { after_ms: 1 });
        let all = futures_util::future::join_all((0..20).map(|_| fetch(failure()))).await;
        assert!(all.iter().all(Result::is_err));
        assert_eq!(fetched.load(Ordering::Relaxed), 1);
        assert!(fetch(Ok(issued("t", RETRY))).await.is_err(), "it failed just now");
        tokio::time::sleep(RETRY).await;
        let good = || fetch(Ok(issued("t", Duration::from_mins(1))));
        let all = futures_util::future::join_all((0..20).map(|_| good())).await;
        assert!(all.iter().all(Result::is_ok));
        assert_eq!(fetched.load(Ordering::Relaxed), 2);
    }

    #[tokio::test]
    async fn no_more_are_kept_than_may_be_and_the_oldest_go() {
        let tokens = Tokens::new(2);
        for name in ["a", "b", "c"] {
            get(&tokens, caller(name), "1", 60).await;
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        assert_eq!(lock(&tokens.table).len(), 2);
        assert_eq!(get(&tokens, caller("b"), "2", 60).await, "1");
        assert_eq!(get(&tokens, caller("a"), "2", 60).await, "2", "it gave way");
    }
}

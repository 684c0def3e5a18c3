//! `cache`: results of successful operations, cached for each caller.
//!
//! The cache is in memory and bounded: the entry that expires first is evicted first. Concurrent
//! misses are not coalesced: each of them runs the composition.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use registry_core::{
    Digest,
    document::exact_bytes,
    spec::{Cache, Path, eval},
};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    Failure,
    run::Run,
    shelf::{MOST_BYTES, Shelf},
};

/// The cached results by the digest of their key.
#[derive(Debug, Default)]
pub(super) struct Results(Mutex<Shelf<Kept>>);

#[derive(Debug)]
struct Kept {
    value: Arc<Value>,
    fresh_until: Instant,
    is_renewed: bool,
}

/// A cached result.
enum Known {
    /// The result is fresh.
    Fresh(Arc<Value>),
    /// The result is stale but usable. The first reader refreshes it.
    Stale(Arc<Value>, bool),
}

impl Results {
    fn find(&self, key: &Digest, now: Instant) -> Option<Known> {
        let mut results = self.lock();
        let kept = results.get_mut(key, now)?;
        let value = Arc::clone(&kept.value);
        if kept.fresh_until > now {
            return Some(Known::Fresh(value));
        }
        Some(Known::Stale(value, !std::mem::replace(&mut kept.is_renewed, true)))
    }

    fn keep(&self, key: Digest, value: &Value, (fresh, stale): (Duration, Duration)) {
        let bytes = value.to_string().len();
        if bytes > MOST_BYTES {
            return;
        }
        let now = Instant::now();
        let (fresh_until, until) = (now + fresh, now + fresh + stale);
        let kept = Kept { value: Arc::new(value.clone()), fresh_until, is_renewed: false };
        let mut results = self.lock();
        results.take(&key);
        while !results.has_room(bytes) && results.forget_first() {}
        results.put(key, kept, bytes, Some(until));
    }

    /// Reports a failed refresh, so that the next reader tries again.
    fn leave(&self, key: &Digest) {
        if let Some(kept) = self.lock().get_mut(key, Instant::now()) {
            kept.is_renewed = false;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Shelf<Kept>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Run {
    /// Returns the cached result, or runs the operation and caches its result.
    pub(super) async fn cache(
        self: &Arc<Self>,
        cache: &Arc<Cache>,
        at: &str,
        input: &Value,
    ) -> Result<Value, Failure> {
        // One agent can act for several people, and each has separate results.
        let owner = json!([
            self.key.to_string(),
            cache.pointer,
            self.owner.claim.apart(),
            self.owner.claim
        ]);
        let (key, _) = self.key_of((&owner, &cache.key_paths), at, input)?;
        // Without an exact key, a cached result could be another input's.
        let Some(key) = key else { return self.operate(&cache.inner, at, input).await };
        let results = &self.memory().results;
        match results.find(&key, Instant::now()) {
            Some(Known::Fresh(value)) => Ok((*value).clone()),
            Some(Known::Stale(value, is_first)) => {
                if is_first {
                    self.renew(cache, (key, at), input);
                }
                Ok((*value).clone())
            }
            None => self.remembered(cache, (key, at), input).await,
        }
    }

    async fn remembered(
        self: &Arc<Self>,
        cache: &Cache,
        (key, at): (Digest, &str),
        input: &Value,
    ) -> Result<Value, Failure> {
        let value = self.operate(&cache.inner, at, input).await?;
        let is_kept = match &cache.cache_if {
            Some(condition) => condition.is_met(&value, &mut self.budget()).map_err(|error| {
                Failure::evaluation(at, "cacheIf", error).beside(self.plan.done(&cache.inner))
            })?,
            None => true,
        };
        if is_kept {
            let stale = cache.stale_while_revalidate_seconds.unwrap_or_default();
            let times = (Duration::from_secs(cache.ttl_seconds), Duration::from_secs(stale));
            self.memory().results.keep(key, &value, times);
        }
        Ok(value)
    }

    /// Refreshes a stale result in the background.
    fn renew(self: &Arc<Self>, cache: &Arc<Cache>, (key, at): (Digest, &str), input: &Value) {
        let (run, cache, at, input) =
            (self.detached(), cache.clone(), at.to_owned(), input.clone());
        self.memory().spawn(async move {
            if run.remembered(&cache, (key, &at), &input).await.is_err() {
                run.memory().results.leave(&key);
            }
        });
    }

    /// Returns the digest of the owner and the values at the paths, and the first path without a
    /// value. The digest is `None` if a value has a number that cannot be compared exactly.
    pub(super) fn key_of<'p>(
        &self,
        (owner, paths): (&Value, &'p [Path]),
        at: &str,
        input: &Value,
    ) -> Result<(Option<Digest>, Option<&'p Path>), Failure> {
        let keys = eval::keys(paths, input, &mut self.budget())
            .map_err(|error| Failure::evaluation(at, "keyPaths", error))?;
        let mut each = paths.iter().zip(&keys);
        let missing = each.find(|(_, key)| key.iter().all(Value::is_null)).map(|(path, _)| path);
        let exact = exact_bytes(&json!([owner, keys]));
        Ok((exact.map(|bytes| Digest::of(&bytes)), missing))
    }
}

#[cfg(test)]
mod tests {
    use super::{super::shelf::MOST, *};

    const TIMES: (Duration, Duration) = (Duration::from_mins(1), Duration::ZERO);

    fn key(number: usize) -> Digest {
        Digest::of(&number.to_le_bytes())
    }

    #[test]
    fn cache_evicts_first_expiring_entry() {
        let results = Results::default();
        results.keep(key(0), &json!(0), (Duration::from_secs(30), Duration::ZERO));
        for number in 1..=MOST {
            results.keep(key(number), &json!(number), TIMES);
        }
        let now = Instant::now();
        assert!(results.find(&key(0), now).is_none());
        assert!(results.find(&key(1), now).is_some());
        assert_eq!(results.lock().size().0, MOST);
        let large = Value::String("x".repeat(64 * 1_048_576 - 2));
        results.keep(key(7), &large, TIMES);
        assert_eq!(results.lock().size(), (1, MOST_BYTES), "all other entries were evicted");
        results.keep(key(8), &Value::String("x".repeat(MOST_BYTES)), TIMES);
        assert!(results.find(&key(8), now).is_none(), "the value never fits");
    }

    #[test]
    fn stale_result_is_refreshed_once() {
        let results = Results::default();
        results.keep(key(1), &json!(1), (Duration::ZERO, Duration::from_mins(1)));
        let look = || match results.find(&key(1), Instant::now()) {
            Some(Known::Stale(_, is_first)) => is_first,
            _ => panic!("the result is stale"),
        };
        assert!(look());
        assert!(!look());
        results.leave(&key(1));
        assert!(look());
        let later = Instant::now() + Duration::from_mins(2);
        assert!(results.find(&key(1), later).is_none());
        results.keep(key(2), &json!(2), (Duration::from_mins(1), Duration::from_mins(1)));
        let fresh_until = results.lock().get_mut(&key(2), Instant::now()).unwrap().fresh_until;
        assert!(matches!(results.find(&key(2), fresh_until), Some(Known::Stale(..))));
    }
}

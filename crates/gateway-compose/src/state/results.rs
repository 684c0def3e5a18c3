//! The cached results of compositions.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use registry_core::Digest;
use serde_json::Value;
use tokio::time::Instant;

use super::ttl_map::{MAX_BYTES, TtlMap};

/// The cached results by the digest of their key.
#[derive(Debug, Default)]
pub(crate) struct ResultCache(Mutex<TtlMap<CachedResult>>);

#[derive(Debug)]
struct CachedResult {
    value: Arc<Value>,
    fresh_until: Instant,
    is_refreshing: bool,
}

/// A cached result.
pub(crate) enum CacheHit {
    /// The result is fresh.
    Fresh(Arc<Value>),
    /// The result is stale but usable. The first reader refreshes it.
    Stale { value: Arc<Value>, is_first: bool },
}

impl ResultCache {
    pub(crate) fn find(&self, key: &Digest, now: Instant) -> Option<CacheHit> {
        let mut results = self.lock();
        let entry = results.get_mut(key, now)?;
        let value = Arc::clone(&entry.value);
        if entry.fresh_until > now {
            return Some(CacheHit::Fresh(value));
        }
        let is_first = !std::mem::replace(&mut entry.is_refreshing, true);
        Some(CacheHit::Stale { value, is_first })
    }

    pub(crate) fn insert(&self, key: Digest, value: &Value, (fresh, stale): (Duration, Duration)) {
        let bytes = value.to_string().len();
        if bytes > MAX_BYTES {
            return;
        }
        let now = Instant::now();
        let (fresh_until, until) = (now + fresh, now + fresh + stale);
        let entry =
            CachedResult { value: Arc::new(value.clone()), fresh_until, is_refreshing: false };
        let mut results = self.lock();
        results.remove(&key);
        while !results.has_room(bytes) && results.evict_first() {}
        results.insert(key, entry, bytes, Some(until));
    }

    /// Reports a failed refresh, so that the next reader tries again.
    pub(crate) fn refresh_failed(&self, key: &Digest) {
        if let Some(entry) = self.lock().get_mut(key, Instant::now()) {
            entry.is_refreshing = false;
        }
    }

    fn lock(&self) -> MutexGuard<'_, TtlMap<CachedResult>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::ttl_map::MAX_ENTRIES, *};

    const TIMES: (Duration, Duration) = (Duration::from_mins(1), Duration::ZERO);

    fn key(number: usize) -> Digest {
        Digest::compute(&number.to_le_bytes())
    }

    #[test]
    fn cache_evicts_first_expiring_entry() {
        let results = ResultCache::default();
        results.insert(key(0), &json!(0), (Duration::from_secs(30), Duration::ZERO));
        for number in 1..=MAX_ENTRIES {
            results.insert(key(number), &json!(number), TIMES);
        }
        let now = Instant::now();
        assert!(results.find(&key(0), now).is_none());
        assert!(results.find(&key(1), now).is_some());
        assert_eq!(results.lock().size().0, MAX_ENTRIES);
        let large = Value::String("x".repeat(64 * 1_048_576 - 2));
        results.insert(key(7), &large, TIMES);
        assert_eq!(results.lock().size(), (1, MAX_BYTES), "all other entries were evicted");
        results.insert(key(8), &Value::String("x".repeat(MAX_BYTES)), TIMES);
        assert!(results.find(&key(8), now).is_none(), "the value never fits");
    }

    #[test]
    fn stale_result_is_refreshed_once() {
        let results = ResultCache::default();
        results.insert(key(1), &json!(1), (Duration::ZERO, Duration::from_mins(1)));
        let look = || match results.find(&key(1), Instant::now()) {
            Some(CacheHit::Stale { is_first, .. }) => is_first,
            _ => panic!("the result is stale"),
        };
        assert!(look());
        assert!(!look());
        results.refresh_failed(&key(1));
        assert!(look());
        let later = Instant::now() + Duration::from_mins(2);
        assert!(results.find(&key(1), later).is_none());
        results.insert(key(2), &json!(2), (Duration::from_mins(1), Duration::from_mins(1)));
        let fresh_until = results.lock().get_mut(&key(2), Instant::now()).unwrap().fresh_until;
        assert!(matches!(results.find(&key(2), fresh_until), Some(CacheHit::Stale { .. })));
    }
}

//! The cached results of compositions.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use registry_core::{Digest, Revision};
use serde_json::Value;
use tokio::time::Instant;

use super::ttl_map::{MAX_BYTES, TtlMap};

/// The cached results by the digest of their key.
#[derive(Debug, Default)]
pub(crate) struct ResultCache(Mutex<TtlMap<CachedResult>>);

#[derive(Debug)]
struct CachedResult {
    value: Arc<Value>,
    revision: Revision,
    fresh_until: Instant,
    is_refreshing: bool,
}

/// A cached result.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CacheHit {
    pub(crate) value: Arc<Value>,
    /// The revision of the catalog at the call that produced it.
    pub(crate) revision: Revision,
    /// Whether it is stale, and this reader is the first to see it.
    pub(crate) needs_refresh: bool,
}

impl ResultCache {
    pub(crate) fn find(&self, key: &Digest, now: Instant) -> Option<CacheHit> {
        let mut results = self.lock();
        let entry = results.get_mut(key, now)?;
        let (value, revision) = (Arc::clone(&entry.value), entry.revision);
        let is_stale = entry.fresh_until <= now;
        let needs_refresh = is_stale && !std::mem::replace(&mut entry.is_refreshing, true);
        Some(CacheHit { value, revision, needs_refresh })
    }

    /// `revision` is that of the catalog at the call that produced the value.
    pub(crate) fn insert(
        &self,
        key: Digest,
        (value, revision): (&Value, Revision),
        (fresh, stale): (Duration, Duration),
    ) {
        let bytes = value.to_string().len();
        if bytes > MAX_BYTES {
            return;
        }
        let now = Instant::now();
        let (fresh_until, until) = (now + fresh, now + fresh + stale);
        let value = Arc::new(value.clone());
        let entry = CachedResult { value, revision, fresh_until, is_refreshing: false };
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

    fn insert(results: &ResultCache, number: usize, value: &Value, times: (Duration, Duration)) {
        results.insert(key(number), (value, Revision(1)), times);
    }

    #[test]
    fn cache_evicts_first_expiring_entry() {
        let results = ResultCache::default();
        insert(&results, 0, &json!(0), (Duration::from_secs(30), Duration::ZERO));
        for number in 1..=MAX_ENTRIES {
            insert(&results, number, &json!(number), TIMES);
        }
        let now = Instant::now();
        assert!(results.find(&key(0), now).is_none());
        assert!(results.find(&key(1), now).is_some());
        assert_eq!(results.lock().size().0, MAX_ENTRIES);
        let large = Value::String("x".repeat(64 * 1_048_576 - 2));
        insert(&results, 7, &large, TIMES);
        assert_eq!(results.lock().size(), (1, MAX_BYTES), "all other entries were evicted");
        insert(&results, 8, &Value::String("x".repeat(MAX_BYTES)), TIMES);
        assert!(results.find(&key(8), now).is_none(), "the value never fits");
    }

    #[test]
    fn stale_result_is_refreshed_once() {
        let results = ResultCache::default();
        insert(&results, 1, &json!(1), (Duration::ZERO, Duration::from_mins(1)));
        let look = || results.find(&key(1), Instant::now()).unwrap().needs_refresh;
        assert!(look());
        assert!(!look());
        results.refresh_failed(&key(1));
        assert!(look());
        let later = Instant::now() + Duration::from_mins(2);
        assert!(results.find(&key(1), later).is_none());
        insert(&results, 2, &json!(2), (Duration::from_mins(1), Duration::from_mins(1)));
        let fresh_until = results.lock().get_mut(&key(2), Instant::now()).unwrap().fresh_until;
        assert!(results.find(&key(2), fresh_until).unwrap().needs_refresh);
    }
}

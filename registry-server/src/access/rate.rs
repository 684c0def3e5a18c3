//! Rate limit of each caller (GCRA): a steady rate with a burst, per server.
//!
//! The state of a caller is one time: when its bucket is full again. Limits across servers and limits of
//! open streams are not supported.

use std::{
    collections::HashMap,
    hash::Hash,
    num::NonZeroU32,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// Maximum callers in memory. Above it, callers with a full bucket are removed; if more than half remain,
/// all are removed. Many distinct callers therefore cannot block others.
const CALLERS: usize = 10_000;

/// Rate limit with a bucket for each key `K`.
#[derive(Debug)]
pub struct RateLimit<K> {
    /// Time that one request adds.
    interval: Duration,
    /// Maximum time that a bucket may be ahead of the steady rate.
    tolerance: Duration,
    full_at: Mutex<HashMap<K, Instant>>,
}

impl<K: Clone + Eq + Hash> RateLimit<K> {
    /// Creates a limit of `per_second` requests with bursts of `burst` requests.
    pub fn new(per_second: NonZeroU32, burst: NonZeroU32) -> Self {
        let interval = Duration::from_secs(1) / per_second.get();
        let tolerance = interval * (burst.get() - 1);
        Self { interval, tolerance, full_at: Mutex::default() }
    }

    /// Takes one request from the bucket, or returns the time until the next one is accepted.
    pub fn take(&self, caller: &K, now: Instant) -> Result<(), Duration> {
        let mut full_at = self.lock();
        if full_at.len() >= CALLERS && !full_at.contains_key(caller) {
            full_at.retain(|_, full| *full > now);
            if full_at.len() > CALLERS / 2 {
                full_at.clear();
            }
        }
        let full = full_at.entry(caller.clone()).or_insert(now);
        let wait = self.wait(*full, now);
        if !wait.is_zero() {
            return Err(wait);
        }
        *full = now.max(*full) + self.interval;
        Ok(())
    }

    /// Whether the bucket has room for a request.
    pub fn has_room(&self, caller: &K, now: Instant) -> bool {
        self.lock().get(caller).is_none_or(|full| self.wait(*full, now).is_zero())
    }

    fn wait(&self, full: Instant, now: Instant) -> Duration {
        full.saturating_duration_since(now).saturating_sub(self.tolerance)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<K, Instant>> {
        // The map is consistent even if another thread panicked.
        self.full_at.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit<K: Clone + Eq + Hash>(per_second: u32, burst: u32) -> RateLimit<K> {
        let number = |n| NonZeroU32::new(n).unwrap();
        RateLimit::new(number(per_second), number(burst))
    }

    #[test]
    fn burst_passes_then_steady_rate_applies() {
        let limit = limit(10, 3);
        let (ann, bob) = ("ann", "bob");
        let start = Instant::now();
        for _ in 0..3 {
            assert!(limit.has_room(&ann, start));
            assert_eq!(limit.take(&ann, start), Ok(()));
        }
        assert!(!limit.has_room(&ann, start));
        let wait = limit.take(&ann, start).unwrap_err();
        assert_eq!(wait, Duration::from_millis(100));
        assert_eq!(limit.take(&bob, start), Ok(()));
        assert!(limit.take(&ann, start + wait / 2).is_err());
        assert_eq!(limit.take(&ann, start + wait), Ok(()));
        assert!(limit.take(&ann, start + wait).is_err());
    }

    #[test]
    fn memory_is_bounded_without_blocking_callers() {
        let limit = limit(1, 1);
        let start = Instant::now();
        for caller in 0..5 * CALLERS {
            assert_eq!(limit.take(&caller, start), Ok(()), "{caller}");
            assert!(limit.lock().len() <= CALLERS);
        }
    }

    #[test]
    fn full_buckets_are_removed_first() {
        let limit = limit(1, 1);
        let start = Instant::now();
        for caller in 1..CALLERS {
            assert_eq!(limit.take(&caller, start), Ok(()));
        }
        let later = start + Duration::from_secs(2);
        assert_eq!(limit.take(&0, later), Ok(()));
        assert_eq!(limit.take(&CALLERS, later), Ok(()));
        assert_eq!(limit.lock().len(), 2);
        assert!(limit.take(&0, later).is_err(), "it is remembered");
    }
}

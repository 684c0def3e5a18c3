//! How much one principal may ask: a steady rate with a burst on top (GCRA), per server.
//!
//! For each principal one moment is kept: when its bucket will be full again. Deliberately absent:
//! limits across several servers, and limits on streams that are open already.

use std::{
    collections::HashMap,
    num::NonZeroU32,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Most principals that are remembered; past that, those are forgotten whose bucket is full.
const PRINCIPALS: usize = 10_000;

/// A rate for each principal.
#[derive(Debug)]
pub struct RateLimit {
    /// What one request takes.
    interval: Duration,
    /// How far ahead of the steady rate a principal may be.
    tolerance: Duration,
    full_at: Mutex<HashMap<Arc<str>, Instant>>,
}

impl RateLimit {
    /// So many requests a second, and so many at once.
    pub fn new(per_second: NonZeroU32, burst: NonZeroU32) -> Self {
        let interval = Duration::from_secs(1) / per_second.get();
        let tolerance = interval * (burst.get() - 1);
        Self { interval, tolerance, full_at: Mutex::default() }
    }

    /// Takes one request, or says when to come again.
    pub fn take(&self, principal: &Arc<str>, now: Instant) -> Result<(), Duration> {
        // The map is whole even if somebody panicked beside it.
        let mut full_at = self.full_at.lock().unwrap_or_else(PoisonError::into_inner);
        if full_at.len() >= PRINCIPALS && !full_at.contains_key(principal) {
            full_at.retain(|_, full| *full > now);
            if full_at.len() >= PRINCIPALS {
                return Err(self.interval);
            }
        }
        let full = full_at.entry(principal.clone()).or_insert(now);
        let ahead = full.saturating_duration_since(now);
        let wait = ahead.saturating_sub(self.tolerance);
        if !wait.is_zero() {
            return Err(wait);
        }
        *full = now.max(*full) + self.interval;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(per_second: u32, burst: u32) -> RateLimit {
        let number = |n| NonZeroU32::new(n).unwrap();
        RateLimit::new(number(per_second), number(burst))
    }

    #[test]
    fn a_burst_passes_then_the_steady_rate_and_nobody_pays_for_another() {
        let limit = limit(10, 3);
        let (ann, bob): (Arc<str>, Arc<str>) = ("ann".into(), "bob".into());
        let start = Instant::now();
        for _ in 0..3 {
            assert_eq!(limit.take(&ann, start), Ok(()));
        }
        let wait = limit.take(&ann, start).unwrap_err();
        assert_eq!(wait, Duration::from_millis(100));
        assert_eq!(limit.take(&bob, start), Ok(()));
        assert!(limit.take(&ann, start + wait / 2).is_err());
        assert_eq!(limit.take(&ann, start + wait), Ok(()));
        assert!(limit.take(&ann, start + wait).is_err());
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let limit = limit(1, 1);
        let start = Instant::now();
        for i in 0..PRINCIPALS {
            assert_eq!(limit.take(&i.to_string().into(), start), Ok(()));
        }
        let late: Arc<str> = "late".into();
        assert!(limit.take(&late, start).is_err());
        assert_eq!(limit.take(&late, start + Duration::from_secs(2)), Ok(()));
        assert_eq!(limit.full_at.lock().unwrap().len(), 1);
    }
}

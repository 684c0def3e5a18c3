//! How long to wait before the next attempt: doubling, capped, with jitter.
//!
//! Deliberately absent: the waiting.

use std::{
    hash::{BuildHasher, RandomState},
    time::Duration,
};

/// The waits between attempts that fail.
#[derive(Debug)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Backoff {
    /// Waits that begin with one and are never longer than the other.
    pub fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, next: first }
    }

    /// The next wait.
    pub fn wait(&mut self) -> Duration {
        let wait = self.next;
        self.next = (wait * 2).min(self.longest);
        jittered(wait)
    }

    /// It went well; the next failure is a first one.
    pub fn reset(&mut self) {
        self.next = self.first;
    }
}

/// A duration between 80 % and 120 % of this one, so that many of them do not fall together.
pub fn jittered(around: Duration) -> Duration {
    // Each `RandomState` has its own keys; that is random enough for spreading load.
    let percent = 80 + RandomState::new().hash_one(0_u8) % 41;
    around * u32::try_from(percent).unwrap_or(100) / 100
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_cap_and_start_over() {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_millis(350));
        for expected_ms in [100, 200, 350, 350] {
            let wait = backoff.wait().as_millis();
            assert!((expected_ms * 8 / 10..=expected_ms * 12 / 10).contains(&wait), "{wait}");
        }
        backoff.reset();
        assert!(backoff.wait() <= Duration::from_millis(120));
    }
}

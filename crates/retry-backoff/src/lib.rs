//! Delays between retries: exponential backoff with a cap, and jitter.

use std::{
    hash::{BuildHasher, RandomState},
    time::Duration,
};

/// Exponential backoff: each delay is twice as long as the one before, up to a maximum.
#[derive(Debug)]
pub struct Backoff {
    initial: Duration,
    max: Duration,
    next: Duration,
}

impl Backoff {
    /// Creates a backoff that starts at `initial` and doubles up to `max`.
    pub fn new(initial: Duration, max: Duration) -> Self {
        Self { initial, max, next: initial }
    }

    /// Returns 80 % to 120 % of the next delay.
    pub fn next_delay(&mut self) -> Duration {
        jittered(self.advance())
    }

    /// Returns a random part of twice the next delay, at most `max`. It spreads the reconnects of
    /// many clients that lost one server at the same moment.
    pub fn next_spread_delay(&mut self) -> Duration {
        full_jitter((self.advance() * 2).min(self.max))
    }

    fn advance(&mut self) -> Duration {
        let delay = self.next;
        self.next = (delay * 2).min(self.max);
        delay
    }

    /// Starts over after a success.
    pub fn reset(&mut self) {
        self.next = self.initial;
    }
}

/// Returns 80 % to 120 % of a duration, so that clients do not retry at the same moment.
pub fn jittered(duration: Duration) -> Duration {
    jittered_by(duration, 0.2)
}

/// Returns a duration that is up to `fraction` (0 to 1) shorter or longer.
pub fn jittered_by(duration: Duration, fraction: f64) -> Duration {
    duration.mul_f64(1.0 + fraction * (2.0 * random() - 1.0))
}

/// Returns a random duration from zero to `max`.
pub fn full_jitter(max: Duration) -> Duration {
    max.mul_f64(random())
}

/// A random number from 0 to 1. It is not suitable for secrets.
fn random() -> f64 {
    // Each `RandomState` has its own keys, which seed the hash.
    let random = RandomState::new().hash_one(0_u8);
    f64::from(u32::try_from(random >> 32).unwrap_or_default()) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_maximum() {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_millis(350));
        for expected_ms in [100, 200, 350, 350] {
            let delay = backoff.next_delay().as_millis();
            assert!((expected_ms * 8 / 10..=expected_ms * 12 / 10).contains(&delay), "{delay}");
        }
        backoff.reset();
        assert!(backoff.next_delay() <= Duration::from_millis(120));
    }

    #[test]
    fn spread_delays_cover_the_whole_range() {
        let delays: Vec<_> = (0..1_000)
            .map(|_| {
                Backoff::new(Duration::from_millis(100), Duration::from_secs(1)).next_spread_delay()
            })
            .collect();
        for tenth in 0..10 {
            let (from, to) = (tenth * 20, tenth * 20 + 20);
            let within = delays.iter().filter(|delay| (from..to).contains(&delay.as_millis()));
            let count = within.count();
            assert!((50..200).contains(&count), "{count} of 1,000 between {from} and {to} ms");
        }
    }

    #[test]
    fn spread_delays_respect_the_maximum() {
        let max = Duration::from_millis(350);
        let mut backoff = Backoff::new(Duration::from_millis(100), max);
        let longest = (0..1_000).map(|_| backoff.next_spread_delay()).max().unwrap_or_default();
        assert!(longest <= max && longest > max * 9 / 10, "{longest:?}");
    }
}

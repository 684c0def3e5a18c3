//! Delays between the attempts of a failing operation: doubling, capped, with jitter.

use std::{
    hash::{BuildHasher, RandomState},
    time::Duration,
};

/// The delays between failing attempts.
#[derive(Debug)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Backoff {
    /// Creates delays that start at `first` and double up to `longest`.
    pub fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, next: first }
    }

    /// Returns the next delay.
    pub fn wait(&mut self) -> Duration {
        jittered(self.advance())
    }

    /// Returns the next delay of one of many clients that fail at the same moment: up to twice the
    /// usual delay.
    pub fn wait_spread(&mut self) -> Duration {
        up_to((self.advance() * 2).min(self.longest))
    }

    fn advance(&mut self) -> Duration {
        let wait = self.next;
        self.next = (wait * 2).min(self.longest);
        wait
    }

    /// Starts over after a success.
    pub fn reset(&mut self) {
        self.next = self.first;
    }
}

/// Returns 80 % to 120 % of a duration, so that clients do not retry at the same moment.
pub fn jittered(around: Duration) -> Duration {
    around * (80 + random(41)) / 100
}

/// Varies a duration by up to a fraction of it, from 0 to 1.
pub fn varied(around: Duration, by: f64) -> Duration {
    around.mul_f64(1.0 + by * (f64::from(random(2_001)) / 1_000.0 - 1.0))
}

/// Returns up to twice a duration, to spread the reconnects of all clients of one server.
pub fn spread(around: Duration) -> Duration {
    up_to(around * 2)
}

fn up_to(longest: Duration) -> Duration {
    longest * random(1_001) / 1_000
}

/// A random number below this one.
fn random(below: u32) -> u32 {
    // Each `RandomState` has its own keys; that is random enough for spreading load.
    u32::try_from(RandomState::new().hash_one(0_u8) % u64::from(below)).unwrap_or_default()
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

    #[test]
    fn those_who_lost_one_server_come_back_all_over_the_time() {
        let waits: Vec<_> = (0..1_000)
            .map(|_| Backoff::new(Duration::from_millis(100), Duration::from_secs(1)).wait_spread())
            .collect();
        for tenth in 0..10 {
            let (from, to) = (tenth * 20, tenth * 20 + 20);
            let within = waits.iter().filter(|wait| (from..to).contains(&wait.as_millis()));
            let count = within.count();
            assert!((50..200).contains(&count), "{count} of 1,000 between {from} and {to} ms");
        }
    }

    #[test]
    fn the_cap_holds_for_waits_that_are_spread() {
        let cap = Duration::from_millis(350);
        let mut backoff = Backoff::new(Duration::from_millis(100), cap);
        let longest = (0..1_000).map(|_| backoff.wait_spread()).max().unwrap_or_default();
        assert!(longest <= cap && longest > cap * 9 / 10, "{longest:?}");
    }
}

//! Which servers live: those that have said so not long before this one last did, twice.
//!
//! Not before now: when the database was away, nobody could say anything, and whoever says it first
//! again must not take the others for dead.

use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::Duration,
};

use registry_core::Timestamp;

/// How much older the sign of life of a server that lives may be than this one's last but one.
const PATIENCE: Duration = Duration::from_secs(30);

/// This server's signs of life.
#[derive(Debug)]
pub(super) struct Pulse {
    last: AtomicI64,
    last_but_one: AtomicI64,
    patience: Duration,
}

impl Pulse {
    /// Where several servers may live.
    pub(super) fn shared(now: Timestamp) -> Self {
        let (last, last_but_one) = (now.as_millis().into(), now.as_millis().into());
        Self { last, last_but_one, patience: PATIENCE }
    }

    /// Where all others are former ones.
    pub(super) fn alone(now: Timestamp) -> Self {
        Self { patience: Duration::ZERO, ..Self::shared(now) }
    }

    /// This server has said that it lives.
    pub(super) fn beat(&self, now: Timestamp) {
        let last = self.last.swap(now.as_millis(), Ordering::Relaxed);
        if !self.patience.is_zero() {
            self.last_but_one.store(last, Ordering::Relaxed);
        }
    }

    /// Since when a server must have been heard of to count as alive.
    pub(super) fn alive_since(&self) -> Timestamp {
        let since = Timestamp::from_millis(self.last_but_one.load(Ordering::Relaxed));
        before(since, self.patience)
    }
}

/// So long before a time.
pub(super) fn before(at: Timestamp, time: Duration) -> Timestamp {
    let millis = i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
    Timestamp::from_millis(at.as_millis().saturating_sub(millis))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(at: i64) -> Timestamp {
        Timestamp::from_millis(at * 1_000)
    }

    #[test]
    fn a_server_that_says_nothing_lives_for_less_than_a_minute() {
        let pulse = Pulse::shared(seconds(100));
        assert_eq!(pulse.alive_since(), seconds(70));
        let since = [115, 130, 145].map(|at| {
            pulse.beat(seconds(at));
            pulse.alive_since()
        });
        assert_eq!(since, [70, 85, 100].map(seconds));
    }

    #[test]
    fn after_a_time_without_a_database_nobody_is_dead_at_once() {
        let pulse = Pulse::shared(seconds(100));
        pulse.beat(seconds(115));
        pulse.beat(seconds(1_000));
        assert_eq!(pulse.alive_since(), seconds(85), "the others may say it in a moment");
        pulse.beat(seconds(1_015));
        assert_eq!(pulse.alive_since(), seconds(970));
    }

    #[test]
    fn a_server_that_is_alone_has_only_former_ones_beside_it() {
        let pulse = Pulse::alone(seconds(100));
        pulse.beat(seconds(115));
        pulse.beat(seconds(130));
        assert_eq!(pulse.alive_since(), seconds(100));
    }
}

//! The clock of the registry, derived from its signatures and from the ages that servers report.
//!
//! Relays between a registry and its follower can lag, so a new message can be old. Clocks of
//! different machines are not compared: the age of a signature is its distance to the latest one.

use std::time::{Duration, Instant};

use registry_core::Timestamp;
use registry_proto::convert::LONGEST_DURATION;

/// The age of a heartbeat, by its staleness. The registry itself sends none. A relay before its first contact
/// with the registry sends the longest duration, and the age is unknown.
pub fn parse_age(staleness: Option<Duration>) -> Option<Duration> {
    Some(staleness.unwrap_or_default()).filter(|age| *age < LONGEST_DURATION)
}

/// The clock of the registry, as the follower knows it.
#[derive(Debug, Clone, Copy, Default)]
pub struct RegistryClock(Option<(Instant, Timestamp)>);

impl RegistryClock {
    /// Records that the state signed at this time was the latest one `age` ago. An age out of range
    /// is ignored.
    pub fn record(&mut self, signed_at: Timestamp, age: Duration) {
        let age_ms = i64::try_from(age.as_millis()).ok();
        let Some(now) = age_ms.and_then(|age_ms| signed_at.as_millis().checked_add(age_ms)) else {
            return;
        };
        let now = Timestamp::from_millis(now);
        // A server with an older state does not set the clock back.
        if self.now().is_none_or(|known| now > known) {
            self.0 = Some((Instant::now(), now));
        }
    }

    /// The age of a signature. `None`: no server has reported an age yet.
    pub fn age_of(&self, signed_at: Timestamp) -> Option<Duration> {
        self.now().map(|now| now.since(signed_at))
    }

    fn now(&self) -> Option<Timestamp> {
        let (at, then) = self.0?;
        let passed = i64::try_from(at.elapsed().as_millis()).unwrap_or(i64::MAX);
        Some(Timestamp::from_millis(then.as_millis().saturating_add(passed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_mins(1);

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000)
    }

    #[test]
    fn age_includes_the_delay_of_relays() {
        let mut clock = RegistryClock::default();
        assert_eq!(clock.age_of(at(0)), None);
        // A relay has had no contact with the registry for a minute.
        clock.record(at(1_000), MINUTE);
        let age = |clock: &RegistryClock, seconds| clock.age_of(at(seconds)).unwrap().as_secs();
        assert_eq!(age(&clock, 1_000), 60);
        // The relay reconnects and forwards a signature made meanwhile.
        assert_eq!(age(&clock, 1_030), 30);
        assert_eq!(age(&clock, 1_070), 0, "never in the future");
        clock.record(at(1_070), Duration::ZERO);
        assert_eq!(age(&clock, 1_030), 40);
        clock.record(at(900), MINUTE);
        assert_eq!(age(&clock, 1_030), 40, "another server has an older state");
    }

    #[test]
    fn clock_is_unknown_before_first_age() {
        assert_eq!(parse_age(Some(LONGEST_DURATION)), None);
        assert_eq!(parse_age(Some(MINUTE)), Some(MINUTE));
        assert_eq!(parse_age(None), Some(Duration::ZERO));
        let mut clock = RegistryClock::default();
        for boundless in [Duration::from_millis(u64::MAX), Duration::MAX] {
            clock.record(at(1_000), boundless);
            assert_eq!(clock.age_of(at(1_000)), None);
        }
        clock.record(at(1_000), MINUTE);
        clock.record(at(1_000), Duration::MAX);
        assert_eq!(clock.age_of(at(1_060)).unwrap().as_secs(), 0);
    }
}

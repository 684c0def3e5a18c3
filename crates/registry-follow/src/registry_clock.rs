//! What time it is by the registry's clock, as its signatures and the ages that servers tell show it.
//!
//! Between a registry and its follower may be relays that lag, so what has just come may be old. Clocks
//! of different machines are not compared: a signature is as old as the latest one is later.

use std::time::{Duration, Instant};

use registry_core::Timestamp;

/// The age of news as servers tell it, in milliseconds; `None`: who tells it does not know, as a relay that
/// has yet to hear of the registry.
pub fn told_age(age_ms: u64) -> Option<Duration> {
    // No registry is older than this counts.
    i64::try_from(age_ms).ok().map(|_| Duration::from_millis(age_ms))
}

/// The registry's clock, seen from afar.
#[derive(Debug, Clone, Copy, Default)]
pub struct RegistryClock(Option<(Instant, Timestamp)>);

impl RegistryClock {
    /// What was signed at this time was the registry's latest state so long ago. An age beyond all bounds
    /// says nothing of the time.
    pub fn told(&mut self, signed_at: Timestamp, age: Duration) {
        let age_ms = i64::try_from(age.as_millis()).ok();
        let Some(now) = age_ms.and_then(|age_ms| signed_at.as_millis().checked_add(age_ms)) else {
            return;
        };
        let now = Timestamp::from_millis(now);
        // Who knows less of the registry makes it no earlier.
        if self.now().is_none_or(|known| now > known) {
            self.0 = Some((Instant::now(), now));
        }
    }

    /// How long ago something was signed; `None`: nobody has told an age yet.
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
    fn what_comes_late_is_old() {
        let mut clock = RegistryClock::default();
        assert_eq!(clock.age_of(at(0)), None);
        // A relay has not heard of the registry for a minute.
        clock.told(at(1_000), MINUTE);
        let age = |clock: &RegistryClock, seconds| clock.age_of(at(seconds)).unwrap().as_secs();
        assert_eq!(age(&clock, 1_000), 60);
        // It hears again, and passes on what was signed meanwhile.
        assert_eq!(age(&clock, 1_030), 30);
        assert_eq!(age(&clock, 1_070), 0, "never in the future");
        clock.told(at(1_070), Duration::ZERO);
        assert_eq!(age(&clock, 1_030), 40);
        clock.told(at(900), MINUTE);
        assert_eq!(age(&clock, 1_030), 40, "another server knows less");
    }

    #[test]
    fn who_has_heard_nothing_yet_says_nothing_of_the_time() {
        assert_eq!(told_age(u64::MAX), None);
        assert_eq!(told_age(60_000), Some(MINUTE));
        let mut clock = RegistryClock::default();
        for boundless in [Duration::from_millis(u64::MAX), Duration::MAX] {
            clock.told(at(1_000), boundless);
            assert_eq!(clock.age_of(at(1_000)), None);
        }
        clock.told(at(1_000), MINUTE);
        clock.told(at(1_000), Duration::MAX);
        assert_eq!(clock.age_of(at(1_060)).unwrap().as_secs(), 0);
    }
}

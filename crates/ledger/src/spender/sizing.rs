//! The size of prefetches: how many rights a gateway holds in advance.

use std::time::Duration;

use registry_core::Amount;

use crate::message::BudgetState;

/// The time constant of the moving average.
const MEMORY: Duration = Duration::from_secs(10);

/// The time of a gateway that does not depend on the wall clock and includes suspension, such as
/// `CLOCK_BOOTTIME` on Linux.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct BootTime(Duration);

impl BootTime {
    /// The time since an arbitrary start.
    pub fn new(since_start: Duration) -> Self {
        Self(since_start)
    }

    /// The duration since an earlier time; zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// A later time.
    pub fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration))
    }

    /// Milliseconds since the start.
    pub(crate) fn as_millis(self) -> u64 {
        u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX)
    }
}

/// The mean spending per second, as an exponentially weighted moving average.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SpendingRate {
    per_second: Amount,
    total: Amount,
    at: BootTime,
}

impl SpendingRate {
    /// The rate of an account without spending, which is expected to spend like another one.
    pub(crate) fn new(per_second: Amount, at: BootTime) -> Self {
        Self { per_second, total: Amount::ZERO, at }
    }

    /// The mean spending per second.
    pub(crate) fn per_second(&self) -> Amount {
        self.per_second
    }

    /// Ignores the time until now.
    pub(crate) fn skip(&mut self, now: BootTime) {
        self.at = now;
    }

    /// Records the spending since the last update. `total` includes reservations.
    pub(crate) fn update(&mut self, total: Amount, now: BootTime) {
        let elapsed = millis(now.since(self.at));
        if elapsed == 0 {
            return;
        }
        let spent = micros(total.saturating_sub(self.total).max(Amount::ZERO));
        let mean = micros(self.per_second);
        let sample = spent * 1_000 / elapsed;
        let mean = mean + (sample - mean) * elapsed / (elapsed + millis(MEMORY));
        *self = Self { per_second: amount(mean), total, at: now };
    }
}

/// The rights that a gateway wants to hold in advance: a minute of spending, 15 seconds once half of
/// the limit is taken, and a share of the rest below a tenth. `useful_for`: the time after which rights
/// expire.
pub(crate) fn prefetch(per_second: Amount, state: &BudgetState, useful_for: Duration) -> Amount {
    let available = micros(state.available().max(Amount::ZERO));
    let limit = micros(state.limit);
    let seconds = if available > limit / 2 { 60 } else { 15 };
    let wanted = micros(per_second) * millis(useful_for).clamp(1_000, seconds * 1_000) / 1_000;
    let gateways = i128::from(state.active_gateways.max(1));
    let share = if available < limit / 10 { available / (2 * gateways) } else { available };
    amount(wanted.min(share))
}

fn micros(amount: Amount) -> i128 {
    i128::from(amount.as_micros())
}

fn amount(micros: i128) -> Amount {
    Amount::from_micros(i64::try_from(micros).unwrap_or(i64::MAX))
}

fn millis(duration: Duration) -> i128 {
    i128::try_from(duration.as_millis()).unwrap_or(i128::from(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units(units: i64) -> Amount {
        Amount::from_micros(units * 1_000_000)
    }

    fn state(limit: i64, exposed: i64) -> BudgetState {
        let (limit, exposed) = (units(limit), units(exposed));
        BudgetState { limit, exposed, active_gateways: 4, ..BudgetState::default() }
    }

    #[test]
    fn prefetch_shrinks_near_the_limit() {
        let one = units(1);
        assert_eq!(prefetch(one, &state(1_000, 0), Duration::MAX), units(60));
        assert_eq!(prefetch(one, &state(1_000, 500), Duration::MAX), units(15));
        assert_eq!(prefetch(one, &state(1_000, 920), Duration::MAX), units(10));
        assert_eq!(prefetch(one, &state(1_000, 1_000), Duration::MAX), Amount::ZERO);
        assert_eq!(prefetch(one, &state(1_000, 2_000), Duration::MAX), Amount::ZERO);
        assert_eq!(prefetch(one, &state(20, 0), Duration::MAX), units(20));
        assert_eq!(prefetch(Amount::MAX, &state(1_000, 0), Duration::MAX), units(1_000));
    }

    #[test]
    fn prefetch_covers_time_until_rights_expire() {
        let ends_in = |millis| prefetch(units(1), &state(1_000, 0), Duration::from_millis(millis));
        assert_eq!(
            [ends_in(60_000), ends_in(2_500)].map(Amount::as_micros),
            [60_000_000, 2_500_000]
        );
        assert_eq!(ends_in(0), units(1), "calls at the end do not wait either");
    }

    #[test]
    fn rate_follows_spending_and_decays() {
        let at = |seconds| BootTime::new(Duration::from_secs(seconds));
        let mut rate = SpendingRate::new(Amount::ZERO, at(0));
        for second in 1..=60 {
            rate.update(units(2 * i64::try_from(second).unwrap()), at(second));
        }
        let steady = rate.per_second();
        assert!(units(1) < steady && steady <= units(2), "{steady}");
        rate.update(units(120), at(180));
        assert!(rate.per_second() < Amount::from_micros(200_000), "{}", rate.per_second());
        rate.update(units(100), at(180));
        rate.update(Amount::MAX, at(181));
        assert!(!rate.per_second().is_negative());
    }
}

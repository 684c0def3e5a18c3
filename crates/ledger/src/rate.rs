//! Fleet rates, as budgets of calls in short windows. Rights expire with their window, by the clock
//! of the ledger. They have no crash marks: a gateway that crashes can exceed the rate by the rights
//! that it held.

use std::time::Duration;

use registry_core::{Amount, Timestamp};

use crate::window::WindowRule;

/// One call, in the amounts of a fleet rate.
pub const CALL: Amount = Amount::from_micros(1);

/// The budget of a fleet rate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetRate {
    /// The windows. Each allows one burst.
    pub windows: WindowRule,
    /// The calls in one window.
    pub limit: Amount,
}

impl FleetRate {
    /// The budget of at most `limit` calls per `period` with bursts of `burst` calls. `None`: a burst
    /// has `limit` calls. Across the end of a window, two bursts can follow each other.
    pub fn new(limit: u32, period: Duration, burst: Option<u32>) -> Self {
        let burst = burst.unwrap_or(limit);
        let never = limit == 0 || burst == 0;
        let millis = period.as_millis() * u128::from(burst);
        let millis = if never { period.as_millis() } else { millis.div_ceil(u128::from(limit)) };
        let length = Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX).max(1));
        let calls = if never { 0 } else { i64::from(burst) };
        Self {
            windows: WindowRule::Fixed { length, anchor: Timestamp::EPOCH },
            limit: Amount::from_micros(calls * CALL.as_micros()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fleet_rate_spreads_bursts_over_period() {
        let rate = |limit, burst| {
            let FleetRate { windows, limit } = FleetRate::new(limit, Duration::from_mins(1), burst);
            let WindowRule::Fixed { length, .. } = windows else { panic!("{windows:?}") };
            (length.as_millis(), limit.as_micros())
        };
        assert_eq!(rate(100, Some(20)), (12_000, 20));
        assert_eq!(rate(100, None), (60_000, 100));
        assert_eq!(rate(7, Some(1)), (8_572, 1), "rounded up, so that no call is added");
        assert_eq!([rate(0, Some(5)), rate(5, Some(0))], [(60_000, 0); 2]);
        assert_eq!(rate(u32::MAX, Some(1)).0, 1);
    }
}

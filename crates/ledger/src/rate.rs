//! Fleet rates, as budgets of calls in windows of a fixed length.
//!
//! Rights expire with their window, by the clock of the ledger. They have no crash marks: a gateway
//! that crashes can exceed the rate by the rights that it held.

use std::sync::Arc;

use registry_core::{Amount, Timestamp, duration::format_iso_duration, entity::policy::Rate};

use crate::{key::BudgetKey, window::WindowRule};

/// One call, in the amounts of a fleet rate. Spending rates below one call per second need the
/// decimals.
pub const CALL: Amount = Amount::from_micros(1_000_000);

/// The start of the names of rates. Names of budgets have no colon.
const PREFIX: &str = "rate:";

/// The budget of a fleet rate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetRate {
    /// The name in its policy, such as `rate:agent,tool:100/PT1M`. Another rate has another name, and
    /// starts at zero.
    pub name: Arc<str>,
    /// The windows.
    pub windows: WindowRule,
    /// The calls in one window.
    pub limit: Amount,
}

impl FleetRate {
    /// The budget of a rate, without its burst, which each gateway counts by itself.
    pub fn new(rate: &Rate) -> Self {
        let per: Vec<_> = rate.per.iter().map(|key| key.as_str()).collect();
        let (per, window) = (per.join(","), format_iso_duration(rate.window));
        let limit = CALL.checked_mul(i64::from(rate.limit)).unwrap_or(Amount::MAX);
        Self {
            name: format!("{PREFIX}{per}:{}/{window}", rate.limit).into(),
            windows: WindowRule::Fixed { length: rate.window, anchor: Timestamp::EPOCH },
            limit,
        }
    }
}

impl BudgetKey {
    /// Whether this is a fleet rate.
    pub fn is_rate(&self) -> bool {
        self.budget.starts_with(PREFIX)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use registry_core::entity::policy::{RateKey, Reach};

    use super::*;

    fn rate(limit: u32, seconds: u64, burst: Option<u32>) -> Rate {
        Rate {
            per: vec![RateKey::Agent, RateKey::Tool],
            limit,
            window: Duration::from_secs(seconds),
            burst,
            reach: Reach::Fleet,
        }
    }

    #[test]
    fn fleet_rate_is_a_budget_of_calls() {
        let FleetRate { name, windows, limit } = FleetRate::new(&rate(100, 60, Some(20)));
        assert_eq!(&*name, "rate:agent,tool:100/PT1M");
        let length = Duration::from_mins(1);
        assert_eq!(windows, WindowRule::Fixed { length, anchor: Timestamp::EPOCH });
        assert_eq!(limit, Amount::from_micros(100_000_000));
        let largest = FleetRate::new(&rate(u32::MAX, 1, None));
        assert_eq!(largest.limit.as_micros(), i64::from(u32::MAX) * CALL.as_micros());
    }

    #[test]
    fn key_tells_rates_from_budgets() {
        let key = |budget: Arc<str>| BudgetKey { policy: "p".into(), budget, subject: "a".into() };
        assert!(key(FleetRate::new(&rate(1, 1, None)).name).is_rate());
        assert!(!key("rate".into()).is_rate());
    }
}

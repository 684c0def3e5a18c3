//! The registry's clock, as its signatures tell it, beside this machine's: a signature from the future
//! makes a catalog look fresh for as long as the clocks differ.
//!
//! A clock ahead of the registry's is not detected: it looks like an old catalog.

use std::time::{Duration, UNIX_EPOCH};

use registry_core::Timestamp;

/// How far clocks may differ before somebody is told.
const TOLERATED: Duration = Duration::from_secs(30);

/// Whether people were told.
#[derive(Debug, Default)]
pub(super) struct Clock {
    is_told: bool,
}

impl Clock {
    /// Looks at the time of a signature that has just come; warns once until the clocks agree again.
    pub(super) fn compare(&mut self, signed_at: Timestamp) {
        if let Some(ahead) = self.newly_ahead(signed_at, UNIX_EPOCH.elapsed().unwrap_or_default()) {
            tracing::warn!(
                "the registry signed what came {} s in this machine's future: while the clocks differ, a \
                 catalog looks younger than it is; keep both clocks right (NTP)",
                ahead.as_secs()
            );
        }
    }

    /// How far the registry's clock is ahead of a time since 1970, where that is new.
    fn newly_ahead(&mut self, signed_at: Timestamp, now: Duration) -> Option<Duration> {
        let ahead = signed_at.since(Timestamp::EPOCH).saturating_sub(now);
        let is_ahead = ahead > TOLERATED;
        let was_told = std::mem::replace(&mut self.is_told, is_ahead);
        (is_ahead && !was_told).then_some(ahead)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_from_the_future_is_told_once() {
        let mut clock = Clock::default();
        let now = Duration::from_secs(1_000);
        let mut at = |seconds: i64| {
            clock.newly_ahead(Timestamp::from_millis(seconds * 1_000), now).map(|d| d.as_secs())
        };
        assert_eq!([at(1_000), at(0), at(1_030)], [None, None, None]);
        assert_eq!([at(1_031), at(1_050), at(1_000)], [Some(31), None, None]);
        assert_eq!(at(5_000), Some(4_000));
    }
}

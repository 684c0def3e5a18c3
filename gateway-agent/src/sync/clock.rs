//! Compares the registry's clock, according to its signatures, with the local clock: a signature
//! from the future makes a catalog look fresh.
//!
//! A local clock that is ahead is not detected: the catalog only looks older.

use std::time::{Duration, UNIX_EPOCH};

use registry_core::Timestamp;

/// Tolerated difference of the clocks.
const TOLERATED: Duration = Duration::from_secs(30);

#[derive(Debug, Default)]
pub(super) struct ClockCheck {
    has_warned: bool,
}

impl ClockCheck {
    /// Checks the time of a new signature. Warns once until the clocks agree again.
    pub(super) fn compare(&mut self, signed_at: Timestamp) {
        if let Some(ahead) =
            self.new_difference(signed_at, UNIX_EPOCH.elapsed().unwrap_or_default())
        {
            tracing::warn!(
                "the registry's clock is {} s ahead of this machine, so the catalog looks fresher than it \
                 is; synchronize both clocks (NTP)",
                ahead.as_secs()
            );
        }
    }

    /// How far the signature is in the future, unless that was already reported.
    fn new_difference(&mut self, signed_at: Timestamp, now: Duration) -> Option<Duration> {
        let ahead = signed_at.since(Timestamp::EPOCH).saturating_sub(now);
        let is_ahead = ahead > TOLERATED;
        let had_warned = std::mem::replace(&mut self.has_warned, is_ahead);
        (is_ahead && !had_warned).then_some(ahead)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn future_signature_warns_once() {
        let mut clock = ClockCheck::default();
        let now = Duration::from_secs(1_000);
        let mut at = |seconds: i64| {
            clock.new_difference(Timestamp::from_millis(seconds * 1_000), now).map(|d| d.as_secs())
        };
        assert_eq!([at(1_000), at(0), at(1_030)], [None, None, None]);
        assert_eq!([at(1_031), at(1_050), at(1_000)], [Some(31), None, None]);
        assert_eq!(at(5_000), Some(4_000));
    }
}

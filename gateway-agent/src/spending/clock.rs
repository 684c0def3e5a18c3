//! The times of budgets.

use std::time::Duration;

use ledger::spender::BootTime;
use registry_core::Timestamp;

use crate::clock;

/// The clocks of the system, or those of a test.
#[derive(Debug, Clone, Copy)]
pub enum SpendingClock {
    /// The clocks of the system.
    System,
    /// The paused clock of Tokio. The wall clock shows the time since the start.
    #[cfg(test)]
    Paused {
        /// The start.
        start: tokio::time::Instant,
    },
}

impl SpendingClock {
    /// The time that includes suspension and ignores changes of the wall clock.
    pub(crate) fn boot(self) -> BootTime {
        match self {
            Self::System => BootTime::new(since_boot()),
            #[cfg(test)]
            Self::Paused { start } => BootTime::new(start.elapsed()),
        }
    }

    /// The wall clock.
    pub(crate) fn wall(self) -> Timestamp {
        match self {
            Self::System => clock::timestamp(),
            #[cfg(test)]
            Self::Paused { start } => {
                let millis = i64::try_from(start.elapsed().as_millis()).unwrap_or(i64::MAX);
                Timestamp::from_millis(millis)
            }
        }
    }
}

#[cfg(target_os = "linux")]
fn since_boot() -> Duration {
    use nix::time::{ClockId, clock_gettime};
    // Every supported kernel has this clock, so reading it cannot fail.
    clock_gettime(ClockId::CLOCK_BOOTTIME).map(Duration::from).unwrap_or_default()
}

#[cfg(not(target_os = "linux"))]
fn since_boot() -> Duration {
    use std::{sync::LazyLock, time::Instant};
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed()
}

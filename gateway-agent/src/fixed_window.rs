//! Counts events in periods of fixed length.

use std::time::Duration;

use tokio::time::Instant;

/// The events of the current period.
#[derive(Debug)]
pub(crate) struct FixedWindow {
    start: Instant,
    events: u32,
}

impl FixedWindow {
    /// Starts a period without events.
    pub(crate) fn new() -> Self {
        Self { start: Instant::now(), events: 0 }
    }

    /// Whether a period of this length is over.
    pub(crate) fn is_over(&self, period: Duration) -> bool {
        self.start.elapsed() >= period
    }

    /// Counts an event, in a new period if the last one is over. Returns whether the period has more
    /// events than `most`.
    pub(crate) fn exceeds(&mut self, most: u32, period: Duration) -> bool {
        if self.is_over(period) {
            *self = Self::new();
        }
        self.events = self.events.saturating_add(1);
        self.events > most
    }
}

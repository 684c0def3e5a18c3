//! Counts events in periods of fixed length.

use std::{collections::HashMap, hash::Hash, time::Duration};

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

    /// Counts an event, in a new period if the last one is over. Returns the events of the period.
    pub(crate) fn count(&mut self, period: Duration) -> u32 {
        if self.start.elapsed() >= period {
            *self = Self::new();
        }
        self.events = self.events.saturating_add(1);
        self.events
    }

    /// Counts an event. Returns whether the period has more events than `most`.
    pub(crate) fn exceeds(&mut self, most: u32, period: Duration) -> bool {
        self.count(period) > most
    }
}

/// The events of each key in the current period, which all keys share.
#[derive(Debug)]
pub(crate) struct FixedWindows<K> {
    start: Instant,
    events: HashMap<K, u32>,
}

impl<K: Clone + Eq + Hash> FixedWindows<K> {
    /// Starts a period without events.
    pub(crate) fn new() -> Self {
        Self { start: Instant::now(), events: HashMap::new() }
    }

    /// Counts an event of a key, like [`FixedWindow::exceeds`].
    pub(crate) fn exceeds(&mut self, key: &K, most: u32, period: Duration) -> bool {
        if self.start.elapsed() >= period {
            *self = Self::new();
        }
        let events = self.events.entry(key.clone()).or_default();
        *events = events.saturating_add(1);
        *events > most
    }
}

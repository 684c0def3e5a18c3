//! The time of the ledger. All servers of one Postgres database use the clock of the database, so that they agree on
//! windows and on the silence of gateways.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use registry_core::Timestamp;

use crate::{
    clock::Clock,
    store::{self, Store},
};

/// Interval between readings of the database's clock.
pub(super) const READING_INTERVAL: Duration = Duration::from_secs(10);
/// Maximum duration of a reading after the first one. The time of a server lags by at most this.
pub(super) const MAX_LAG: Duration = Duration::from_secs(1);

/// The clock of the ledger.
pub(super) struct LedgerClock {
    local: Arc<dyn Clock>,
    /// The last reading of the database's clock. `None` on SQLite, which has one server.
    reading: Mutex<Option<Reading>>,
}

/// A reading of the database's clock. The monotonic clock continues it, because the wall clock can change.
#[derive(Debug, Clone, Copy)]
struct Reading {
    time: Timestamp,
    at: Instant,
}

impl LedgerClock {
    /// Reads the clock of the database for the first time.
    pub(super) async fn open(store: &Store, local: Arc<dyn Clock>) -> Result<Self, store::Error> {
        let time = store.database_time().await?;
        let reading = time.map(|time| Reading { time, at: Instant::now() });
        Ok(Self { local, reading: Mutex::new(reading) })
    }

    /// Reads the clock of the database again. A slow reading has no effect.
    pub(super) async fn synchronize(&self, store: &Store) -> Result<(), store::Error> {
        let began = Instant::now();
        let Some(time) = store.database_time().await? else { return Ok(()) };
        let at = Instant::now();
        if at.duration_since(began) <= MAX_LAG {
            let mut reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
            *reading = Some(Reading { time, at });
        }
        Ok(())
    }

    /// The current time.
    pub(super) fn now(&self) -> Timestamp {
        match *self.reading.lock().unwrap_or_else(PoisonError::into_inner) {
            None => self.local.now(),
            Some(Reading { time, at }) => {
                let millis = i64::try_from(at.elapsed().as_millis()).unwrap_or(i64::MAX);
                Timestamp::from_millis(time.as_millis().saturating_add(millis))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A wall clock in the year 1970.
    struct StoppedClock;

    impl Clock for StoppedClock {
        fn now(&self) -> Timestamp {
            Timestamp::from_millis(1)
        }
    }

    #[test]
    fn database_clock_replaces_wall_clock() {
        let clock =
            |reading| LedgerClock { local: Arc::new(StoppedClock), reading: Mutex::new(reading) };
        assert_eq!(clock(None).now(), Timestamp::from_millis(1));
        let time = Timestamp::from_millis(1_764_000_000_000);
        let read = clock(Some(Reading { time, at: Instant::now() }));
        let (first, second) = (read.now(), read.now());
        assert!(time <= first && first <= second, "{first} {second}");
    }
}

//! Turns at what takes long, so that followers who come all at once do not all do it at once: a few
//! read the log, are sent snapshots or open scopes, the others wait and hold nothing meanwhile.

use std::sync::Arc;

use metrics::Gauge;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::metrics::{Stage, turns};

/// How many streams read the log at the same time.
const LOG_READERS: usize = 4;
/// How many streams are sent a snapshot at the same time.
const SNAPSHOTS: usize = 64;
/// How many scopes are opened at the same time; that keeps a core busy.
const SCOPES: usize = 2;

/// Turns at each kind of work.
pub(super) struct Admission {
    pub(super) log: Turns,
    pub(super) snapshots: Turns,
    pub(super) scopes: Turns,
}

/// Turns at one kind of work.
pub(super) struct Turns {
    places: Arc<Semaphore>,
    work: &'static str,
}

/// A turn, which ends when this is dropped. Work that outlives its follower keeps it.
pub(super) struct Turn {
    _place: Option<OwnedSemaphorePermit>,
    _admitted: Counted,
}

/// One more of a gauge, as long as it lives.
struct Counted(Gauge);

impl Default for Admission {
    fn default() -> Self {
        let turns = |work, at_once| Turns { places: Arc::new(Semaphore::new(at_once)), work };
        Self {
            log: turns("log", LOG_READERS),
            snapshots: turns("snapshot", SNAPSHOTS),
            scopes: turns("scope", SCOPES),
        }
    }
}

impl Turns {
    /// Waits for a turn, after those who came before.
    pub(super) async fn take(&self) -> Turn {
        let waiting = Counted::new(turns(Stage::Waiting, self.work));
        // Nobody closes the semaphore.
        let place = self.places.clone().acquire_owned().await.ok();
        drop(waiting);
        Turn { _place: place, _admitted: Counted::new(turns(Stage::Admitted, self.work)) }
    }
}

impl Counted {
    fn new(gauge: Gauge) -> Self {
        gauge.increment(1.0);
        Self(gauge)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}

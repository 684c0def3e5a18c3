//! Concurrency limits of expensive stages: reading the log, sending snapshots and opening scopes. Waiting
//! streams hold no memory for the stage.

use std::sync::Arc;

use metrics::Gauge;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::metrics::{stage_active, stage_waiting};

/// Streams that read the log concurrently.
const LOG_READERS: usize = 4;
/// Streams that receive a snapshot concurrently.
const SNAPSHOTS: usize = 64;
/// Scopes opened concurrently. Opening is CPU-bound.
const SCOPES: usize = 2;

/// Limits of all stages.
pub(super) struct StageLimits {
    pub(super) log: StageLimit,
    pub(super) snapshots: StageLimit,
    pub(super) scopes: StageLimit,
}

/// Limit of one stage.
pub(super) struct StageLimit {
    permits: Arc<Semaphore>,
    stage: &'static str,
}

/// A permit of a stage. Work that outlives its follower keeps the permit.
pub(super) struct StagePermit {
    _permit: Option<OwnedSemaphorePermit>,
    _active: GaugeGuard,
}

/// Increments a gauge until dropped.
struct GaugeGuard(Gauge);

impl Default for StageLimits {
    fn default() -> Self {
        let limit = |stage, max| StageLimit { permits: Arc::new(Semaphore::new(max)), stage };
        Self {
            log: limit("log", LOG_READERS),
            snapshots: limit("snapshot", SNAPSHOTS),
            scopes: limit("scope", SCOPES),
        }
    }
}

impl StageLimit {
    /// Waits for a permit, in order of arrival.
    pub(super) async fn acquire(&self) -> StagePermit {
        let waiting = GaugeGuard::new(stage_waiting(self.stage));
        // The semaphore is never closed.
        let permit = self.permits.clone().acquire_owned().await.ok();
        drop(waiting);
        StagePermit { _permit: permit, _active: GaugeGuard::new(stage_active(self.stage)) }
    }
}

impl GaugeGuard {
    fn new(gauge: Gauge) -> Self {
        gauge.increment(1.0);
        Self(gauge)
    }
}

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}

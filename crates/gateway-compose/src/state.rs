//! The state that compositions keep between calls.

pub(crate) mod breakers;
pub(crate) mod idempotency;
pub(crate) mod results;
mod ttl_map;

use std::{future::Future, sync::Arc, time::Duration};

use tokio::{runtime::Handle, time::timeout};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::{breakers::Breakers, idempotency::IdempotencyStore, results::ResultCache};
use crate::Sagas;

/// Time limit for detached work when the gateway stops.
const GRACE_PERIOD: Duration = Duration::from_secs(5);

/// The state that compositions keep between calls, and the tasks that run without a caller.
#[derive(Debug, Default)]
pub struct CompositionState {
    pub(crate) breakers: Breakers,
    pub(crate) results: ResultCache,
    pub(crate) idempotency: IdempotencyStore,
    pub(crate) sagas: Arc<Sagas>,
    tasks: TaskTracker,
    stop: CancellationToken,
    /// The runtime for detached work. `None`: the runtime of the caller.
    runtime: Option<Handle>,
}

impl CompositionState {
    /// Creates the state. Detached work runs in the current Tokio runtime.
    pub fn new(sagas: Sagas) -> Self {
        Self { sagas: Arc::new(sagas), runtime: Some(Handle::current()), ..Self::default() }
    }

    /// The sagas.
    pub fn sagas(&self) -> &Arc<Sagas> {
        &self.sagas
    }

    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        let task = async move {
            stop.run_until_cancelled(task).await;
        };
        match &self.runtime {
            Some(runtime) => self.tasks.spawn_on(task, runtime),
            None => self.tasks.spawn(task),
        };
    }

    /// Waits up to 5 s for detached work to end, then cancels it. Interrupted sagas are compensated
    /// at the next start.
    pub async fn shutdown(&self) {
        self.tasks.close();
        let _ = timeout(GRACE_PERIOD, self.tasks.wait()).await;
        self.stop.cancel();
        self.tasks.wait().await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn shutdown_waits_for_detached_work() {
        let (state, has_ended) = (CompositionState::default(), Arc::new(AtomicBool::new(false)));
        let ended = Arc::clone(&has_ended);
        state.spawn(async move {
            tokio::time::sleep(Duration::from_millis(50)).await;
            ended.store(true, Ordering::Relaxed);
        });
        state.shutdown().await;
        assert!(has_ended.load(Ordering::Relaxed));
    }
}

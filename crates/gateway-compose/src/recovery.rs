//! Compensates sagas without a caller: after a crash, and when an operator retries one.
//!
//! The remaining steps are not run; the caller may call again.

use std::{sync::Arc, time::Duration};

use registry_core::Key;
use serde_json::json;
use tokio::{
    sync::{Semaphore, oneshot},
    time::{Instant, sleep},
};

use crate::{
    CompositionCall, CompositionState, ResumedSaga, SagaHost,
    history::Event,
    run::Run,
    saga::SagaExecution,
    sagas::{RetryError, SagaLog},
};

/// Maximum concurrent compensations.
const MAX_CONCURRENT: usize = 16;
/// Maximum wait for the servers of a saga before the first attempt.
const MAX_REACHABILITY_WAIT: Duration = Duration::from_mins(1);
/// The first wait between reachability checks; each following wait is 1.5 times as long.
const FIRST_CHECK_DELAY: Duration = Duration::from_millis(100);
/// The maximum wait between reachability checks.
const MAX_CHECK_DELAY: Duration = Duration::from_secs(2);

/// Compensates all interrupted sagas in the current Tokio runtime.
pub fn recover(state: &Arc<CompositionState>, host: &Arc<dyn SagaHost>) {
    let permits = Arc::new(Semaphore::new(MAX_CONCURRENT));
    for id in state.sagas().interrupted() {
        tracing::warn!(saga = %id, "compensating an interrupted saga");
        let (recovery, permits) = (Recovery::new(state, host), Arc::clone(&permits));
        let log = SagaLog::new(Arc::clone(state.sagas()), id, Vec::new());
        state.spawn(async move { recovery.run(log, &permits).await });
    }
}

/// Retries the failed compensations of a saga.
pub async fn retry(
    state: &Arc<CompositionState>,
    host: &Arc<dyn SagaHost>,
    id: &str,
) -> Result<(), RetryError> {
    let before = state.sagas().claim(id)?;
    let log = SagaLog::new(Arc::clone(state.sagas()), id.into(), Vec::new());
    let (sender, receiver) = oneshot::channel();
    let recovery = Recovery::new(state, host);
    // The operator may disconnect meanwhile.
    state.spawn(async move {
        let written = log.request_retry(before).await;
        let is_recorded = written.is_ok();
        let _ = sender.send(written);
        if is_recorded {
            log.notify();
            recovery.run(log, &Semaphore::new(1)).await;
        }
    });
    let written = receiver.await.unwrap_or_else(|_| Err("the gateway is stopping".to_owned()));
    written.map_err(RetryError::Journal)
}

/// The compensation of one saga.
struct Recovery {
    state: Arc<CompositionState>,
    host: Arc<dyn SagaHost>,
}

impl Recovery {
    fn new(state: &Arc<CompositionState>, host: &Arc<dyn SagaHost>) -> Self {
        Self { state: Arc::clone(state), host: Arc::clone(host) }
    }

    async fn run(self, log: SagaLog, permits: &Semaphore) {
        let history = log.history();
        if !history.has_failed() {
            let error = json!({
                "reason": "gateway-stopped",
                "message": "the gateway stopped while the saga was running",
            });
            let failed = Event::Failed { step: history.running_step(), error, is_unknown: true };
            if let Err(error) = log.write(&failed).await {
                tracing::error!(saga = %log.id(), "cannot write the saga journal: {error}");
            }
        }
        let resumed = self.find(&log).await;
        // Inner sagas need permits too.
        log.await_children().await;
        // Waits before taking a permit, so that other sagas can be compensated meanwhile.
        self.until_reachable(&resumed.servers).await;
        // The semaphore is never closed.
        let _permit = permits.acquire().await;
        let run = Run::new(CompositionCall {
            tool: &history.began().tool,
            plan: &resumed.plan,
            runner: resumed.runner,
            state: &self.state,
            owner: resumed.owner,
            scope: None,
            response_bytes: resumed.response_bytes,
            buffered: None,
        });
        SagaExecution { run: run.within_saga(log.id()), saga: resumed.saga, log, at: "".into() }
            .compensate()
            .await;
    }

    /// Waits until the catalog has the composition and everything that it uses.
    async fn find(&self, log: &SagaLog) -> ResumedSaga {
        let mut catalog = self.host.catalog();
        let history = log.history();
        let began = history.began();
        loop {
            catalog.mark_unchanged();
            if let Some(found) = self.host.find(&began.tool, &began.pointer, &began.identity) {
                return found;
            }
            if self.host.has_catalog() {
                tracing::error!(
                    saga = %log.id(), tool = %began.tool,
                    "the saga waits for its compensation: the catalog lacks its tool or a part of it"
                );
            }
            if catalog.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    /// Waits for the servers, at most for [`MAX_REACHABILITY_WAIT`].
    async fn until_reachable(&self, servers: &[Key]) {
        let (until, mut wait) = (Instant::now() + MAX_REACHABILITY_WAIT, FIRST_CHECK_DELAY);
        while Instant::now() < until {
            if servers.iter().all(|server| self.host.is_reachable(server)) {
                return;
            }
            sleep(wait).await;
            wait = MAX_CHECK_DELAY.min(wait * 3 / 2);
        }
    }
}

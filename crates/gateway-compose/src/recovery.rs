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
    Call, Memory, Resumed, SagaHost,
    history::Event,
    run::Run,
    saga::Course,
    sagas::{Log, NotRetried},
};

/// Maximum concurrent compensations.
const AT_ONCE: usize = 16;
/// Maximum wait for the servers of a saga before the first attempt.
const PATIENCE: Duration = Duration::from_mins(1);
/// The first wait between reachability checks; each following wait is 1.5 times as long.
const FIRST_LOOK: Duration = Duration::from_millis(100);
/// The maximum wait between reachability checks.
const LONGEST_LOOK: Duration = Duration::from_secs(2);

/// Compensates all interrupted sagas in the current Tokio runtime.
pub fn recover(memory: &Arc<Memory>, host: &Arc<dyn SagaHost>) {
    let places = Arc::new(Semaphore::new(AT_ONCE));
    for id in memory.sagas().interrupted() {
        tracing::warn!(saga = %id, "compensating an interrupted saga");
        let (undo, places) = (Undo::new(memory, host), Arc::clone(&places));
        let log = Log::new(Arc::clone(memory.sagas()), id, Vec::new());
        memory.spawn(async move { undo.run(log, &places).await });
    }
}

/// Retries the failed compensations of a saga.
pub async fn retry(
    memory: &Arc<Memory>,
    host: &Arc<dyn SagaHost>,
    id: &str,
) -> Result<(), NotRetried> {
    let before = memory.sagas().claim(id)?;
    let log = Log::new(Arc::clone(memory.sagas()), id.into(), Vec::new());
    let (tell, told) = oneshot::channel();
    let undo = Undo::new(memory, host);
    // The operator may disconnect meanwhile.
    memory.spawn(async move {
        let written = log.again(before).await;
        let goes_on = written.is_ok();
        let _ = tell.send(written);
        if goes_on {
            log.tell();
            undo.run(log, &Semaphore::new(1)).await;
        }
    });
    let told = told.await.unwrap_or_else(|_| Err("the gateway is stopping".to_owned()));
    told.map_err(NotRetried::Journal)
}

/// The compensation of one saga.
struct Undo {
    memory: Arc<Memory>,
    host: Arc<dyn SagaHost>,
}

impl Undo {
    fn new(memory: &Arc<Memory>, host: &Arc<dyn SagaHost>) -> Self {
        Self { memory: Arc::clone(memory), host: Arc::clone(host) }
    }

    async fn run(self, log: Log, places: &Semaphore) {
        let history = log.history();
        if !history.has_failed() {
            let error = json!({
                "reason": "gateway-stopped",
                "message": "the gateway stopped while the saga was running",
            });
            let failed = Event::Failed { step: history.acting(), error, is_unknown: true };
            if let Err(error) = log.write(&failed).await {
                tracing::error!(saga = %log.id(), "cannot write the saga journal: {error}");
            }
        }
        let resumed = self.find(&log).await;
        // Inner sagas need places, too.
        log.inner_ended().await;
        // The wait comes before the place, so that other sagas can be compensated meanwhile.
        self.until_reachable(&resumed.servers).await;
        // The semaphore is never closed.
        let _place = places.acquire().await;
        let run = Run::new(Call {
            tool: &history.began().tool,
            plan: &resumed.plan,
            runner: resumed.runner,
            memory: &self.memory,
            owner: resumed.owner,
            scope: None,
            response_bytes: resumed.response_bytes,
            buffered: None,
        });
        Course { run: run.inside_of(log.id()), saga: resumed.saga, log, at: "".into() }
            .back()
            .await;
    }

    /// Waits until the catalog has the composition and everything that it uses.
    async fn find(&self, log: &Log) -> Resumed {
        let mut catalog = self.host.catalog();
        let history = log.history();
        let began = history.began();
        loop {
            catalog.mark_unchanged();
            if let Some(found) = self.host.find(&began.tool, &began.pointer, &began.claim) {
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

    /// Waits for the servers, at most for [`PATIENCE`].
    async fn until_reachable(&self, servers: &[Key]) {
        let (until, mut wait) = (Instant::now() + PATIENCE, FIRST_LOOK);
        while Instant::now() < until {
            if servers.iter().all(|server| self.host.is_reachable(server)) {
                return;
            }
            sleep(wait).await;
            wait = LONGEST_LOOK.min(wait * 3 / 2);
        }
    }
}

//! Going on with sagas that nobody waits for: after a crash, and when an operator wants one to be
//! tried again. What was under way is undone.
//!
//! Deliberately absent: doing the steps that were left; whoever called may call again.

use std::{sync::Arc, time::Duration};

use registry_core::{Key, spec::Saga};
use serde_json::json;
use tokio::{
    sync::{Semaphore, oneshot},
    time::{Instant, sleep},
};

use super::{Event, Log, Sagas};
use crate::{
    audit::Lineage,
    composition::{Memory, Plan, run::Run, saga::Course},
    pipeline::Gateway,
    upstream::Context,
};

/// How many are gone on with at once.
const AT_ONCE: usize = 16;
/// How long the servers of a saga may take to be reached before its first attempt.
const PATIENCE: Duration = Duration::from_mins(1);
/// Between the first two looks; each wait is half as long again as the one before.
const FIRST_LOOK: Duration = Duration::from_millis(100);
/// The longest such wait.
const LONGEST_LOOK: Duration = Duration::from_secs(2);

/// Why a saga cannot be tried again.
#[derive(Debug, thiserror::Error)]
pub enum NotRetried {
    /// There is none.
    #[error("there is no saga {0}")]
    Unknown(String),
    /// Nothing is left of it to do.
    #[error("the saga {0} has ended and nothing is left to undo")]
    Settled(String),
    /// It is being done.
    #[error("the saga {0} is under way")]
    UnderWay(String),
    /// It would not survive a restart.
    #[error("the journal of sagas cannot be written: {0}")]
    Journal(String),
}

/// Goes on with all that a crash has interrupted. Must be called inside the runtime that goes on.
pub fn recover(gateway: &Arc<Gateway>) {
    let memory = gateway.compositions();
    let places = Arc::new(Semaphore::new(AT_ONCE));
    for id in memory.sagas().interrupted() {
        tracing::warn!(saga = %id, "a saga was interrupted and is undone");
        let (gateway, places) = (Arc::clone(gateway), Arc::clone(&places));
        let log = Log::new(Arc::clone(memory.sagas()), id, Vec::new());
        memory.spawn(async move { undo(&gateway, log, &places).await });
    }
}

impl Sagas {
    /// The sagas that were under way when the journal ended.
    fn interrupted(&self) -> Vec<Box<str>> {
        let table = self.lock();
        let open = table.iter().filter(|(_, known)| known.history.ended().is_none());
        open.map(|(id, _)| id.into()).collect()
    }
}

/// Has what could not be undone tried again.
pub async fn retry(gateway: &Arc<Gateway>, id: &str) -> Result<(), NotRetried> {
    let memory: &Arc<Memory> = gateway.compositions();
    let before = memory.sagas().lock().claim(id)?;
    let log = Log::new(Arc::clone(memory.sagas()), id.into(), Vec::new());
    let (tell, told) = oneshot::channel();
    let gateway = Arc::clone(gateway);
    // Whoever asked for it may go away meanwhile.
    memory.spawn(async move {
        let written = log.again(before).await;
        let goes_on = written.is_ok();
        let _ = tell.send(written);
        if goes_on {
            log.tell();
            undo(&gateway, log, &Semaphore::new(1)).await;
        }
    });
    let told = told.await.unwrap_or_else(|_| Err("the gateway is stopping".to_owned()));
    told.map_err(NotRetried::Journal)
}

/// Undoes what a saga has done.
async fn undo(gateway: &Arc<Gateway>, log: Log, places: &Semaphore) {
    let history = log.history();
    if !history.has_failed() {
        let error = json!({
            "reason": "gateway-stopped",
            "message": "the gateway was stopped in the middle of the saga",
        });
        let failed = Event::Failed { step: history.acting(), error, is_unknown: true };
        if let Err(error) = log.write(&failed).await {
            tracing::error!(saga = %log.id(), "the journal of sagas cannot be written: {error}");
        }
    }
    let (plan, saga) = found(gateway, &log).await;
    // Those need places, too.
    log.inner_ended().await;
    // Before it takes a place: others can be undone meanwhile.
    reached(gateway, &plan).await;
    // It is never closed.
    let _place = places.acquire().await;
    let run = afterwards(gateway, (&history.began().tool, &plan), &log);
    Course { run: run.inside_of(log.id()), saga, log, at: "".into() }.back().await;
}

/// Waits until the catalog has what a saga needs.
async fn found(gateway: &Gateway, log: &Log) -> (Arc<Plan>, Arc<Saga>) {
    let mut catalog = gateway.views().subscribe().0;
    let history = log.history();
    let (tool, pointer) = (&history.began().tool, &history.began().pointer);
    loop {
        catalog.mark_unchanged();
        if let Some(found) = plan_of(gateway, tool, pointer) {
            return found;
        }
        if gateway.views().now().has_catalog() {
            tracing::error!(
                saga = %log.id(), %tool,
                "the saga cannot be undone before the catalog has its tool, and all that it uses"
            );
        }
        if catalog.changed().await.is_err() {
            return std::future::pending().await;
        }
    }
}

/// The composition as it is registered, also when it is retired by now.
fn plan_of(gateway: &Gateway, tool: &Key, pointer: &str) -> Option<(Arc<Plan>, Arc<Saga>)> {
    let offer = gateway.views().registered(&gateway.views().now(), tool)?;
    let plan = offer.plan()?;
    Some((Arc::clone(plan), plan.saga(pointer)?))
}

/// On behalf of whoever began it.
fn afterwards(gateway: &Arc<Gateway>, (tool, plan): (&Key, &Arc<Plan>), log: &Log) -> Run {
    let history = log.history();
    let claim = &history.began().claim;
    let snapshot = gateway.views().now();
    let caller = gateway.identify(&snapshot, claim, None);
    let principal = caller.principal(claim);
    let lineage = Lineage::afterwards(tool, caller, snapshot.catalog.revision());
    let context = Context { caller: claim.apart(), ..Context::default() };
    Run::new((gateway, tool, plan), ((claim, &principal), context), None, lineage)
}

/// Waits for the servers of a composition, for a while.
async fn reached(gateway: &Gateway, plan: &Plan) {
    let (until, mut wait) = (Instant::now() + PATIENCE, FIRST_LOOK);
    while Instant::now() < until {
        let is_up = |server: &Key| gateway.upstreams().is_up(server).unwrap_or(true);
        if plan.servers().iter().all(is_up) {
            return;
        }
        sleep(wait).await;
        wait = LONGEST_LOOK.min(wait * 3 / 2);
    }
}

//! Child processes of single callers: one per identified caller, started at its first call and
//! ended after an idle time. At the limit, the child that was idle longest is ended for a new one.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    Status,
    supervisor::{Plan, Supervisor},
};
use crate::error::ChildLimitReached;

/// The children of one target.
#[derive(Debug)]
pub(super) struct CallerChildren {
    plan: Arc<Plan>,
    table: Arc<Mutex<Table>>,
    /// One permit per child, released when the child and its descendants have ended.
    places: Arc<Semaphore>,
    most: usize,
    tasks: TaskTracker,
    stop: CancellationToken,
}

type Table = HashMap<Arc<str>, Child>;

#[derive(Debug)]
struct Child {
    status: watch::Receiver<Status>,
    /// The number of running requests.
    busy: usize,
    used: Instant,
    stop: CancellationToken,
}

/// A lease of a caller's child. The child stays until the lease is dropped.
#[derive(Debug)]
pub(super) struct Lease {
    table: Arc<Mutex<Table>>,
    caller: Arc<str>,
    pub(super) status: watch::Receiver<Status>,
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(child) = lock(&self.table).get_mut(&self.caller) {
            child.busy -= 1;
            child.used = Instant::now();
        }
    }
}

impl CallerChildren {
    pub(super) fn new(
        plan: Arc<Plan>,
        most: usize,
        (tasks, stop): (TaskTracker, CancellationToken),
    ) -> Self {
        let (table, places) = (Arc::default(), Arc::new(Semaphore::new(most)));
        Self { plan, table, places, most, tasks, stop }
    }

    /// Returns the child of a caller and starts it if necessary.
    pub(super) async fn lease(&self, caller: &Arc<str>) -> Result<Lease, ChildLimitReached> {
        if let Some(lease) = self.take(&mut lock(&self.table), caller) {
            return Ok(lease);
        }
        let place = match Arc::clone(&self.places).try_acquire_owned() {
            Ok(place) => place,
            Err(_) => self.make_room(caller).await?,
        };
        let mut table = lock(&self.table);
        if let Some(lease) = self.take(&mut table, caller) {
            return Ok(lease); // another request of the same caller was faster
        }
        self.start(&mut table, caller, place);
        self.take(&mut table, caller).ok_or(ChildLimitReached { most: self.most })
    }

    fn take(&self, table: &mut Table, caller: &Arc<str>) -> Option<Lease> {
        let child = table.get_mut(caller)?;
        child.busy += 1;
        let (table, status) = (Arc::clone(&self.table), child.status.clone());
        Some(Lease { table, caller: Arc::clone(caller), status })
    }

    /// Ends the child that was idle longest and waits for its permit.
    async fn make_room(
        &self,
        caller: &Arc<str>,
    ) -> Result<OwnedSemaphorePermit, ChildLimitReached> {
        let crowded = ChildLimitReached { most: self.most };
        {
            let mut table = lock(&self.table);
            let idle = table.iter().filter(|(known, child)| child.busy == 0 && *known != caller);
            let oldest = idle.min_by_key(|(_, child)| child.used).map(|(known, _)| known.clone());
            let oldest = oldest.and_then(|oldest| table.remove(&oldest)).ok_or(crowded)?;
            oldest.stop.cancel();
        }
        // The semaphore is never closed.
        Arc::clone(&self.places).acquire_owned().await.map_err(|_| crowded)
    }

    fn start(&self, table: &mut Table, caller: &Arc<str>, place: OwnedSemaphorePermit) {
        let (report, status) = watch::channel(Status::Starting);
        let stop = self.stop.child_token();
        let child = Child { status, busy: 0, used: Instant::now(), stop: stop.clone() };
        table.insert(Arc::clone(caller), child);
        let supervisor = Supervisor::new(Arc::clone(&self.plan), report);
        let (table, caller, idle) =
            (Arc::clone(&self.table), Arc::clone(caller), self.plan.timing.idle);
        self.tasks.spawn(async move {
            let mut life = std::pin::pin!(supervisor.run(stop.clone()));
            tokio::select! {
                biased;
                () = &mut life => {}
                // Another child may have its entry in the table when it has ended.
                () = stop.cancelled() => life.await,
                () = until_idle(&table, &caller, idle) => {
                    stop.cancel();
                    life.await;
                }
            }
            drop(place);
        });
    }
}

/// Resolves when a child was idle for this time and is removed from the table.
async fn until_idle(table: &Mutex<Table>, caller: &str, idle: Duration) {
    let mut wait = idle;
    while !wait.is_zero() {
        tokio::time::sleep(wait).await;
        wait = take_out_idle(table, caller, idle);
    }
}

/// Removes an idle child from the table, or returns how long it may still be idle.
fn take_out_idle(table: &Mutex<Table>, caller: &str, idle: Duration) -> Duration {
    let mut table = lock(table);
    let Some(child) = table.get(caller) else { return Duration::ZERO };
    let unused = if child.busy > 0 { Duration::ZERO } else { child.used.elapsed() };
    let left = idle.saturating_sub(unused);
    if left.is_zero() {
        table.remove(caller);
    }
    left
}

fn lock(table: &Mutex<Table>) -> MutexGuard<'_, Table> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

//! Followers with changes that are not in the database yet.
//!
//! A follower is in the queue at most once, so a stream never waits.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{sync::Notify, time::sleep};

use super::sessions::{FollowerState, lock};

/// Maximum queued followers while the database is unavailable; the next heartbeat stores the rest.
const MAX_QUEUED: usize = 100_000;
/// Delay after a follower connected or left, to batch the writes.
const CONNECT_DELAY: Duration = Duration::from_millis(200);
/// Delay after other changes of a follower.
const REPORT_DELAY: Duration = Duration::from_secs(2);

/// Queue of changed followers.
#[derive(Debug, Default)]
pub(super) struct PendingChanges {
    lists: Mutex<Lists>,
    connections: Notify,
    reports: Notify,
}

#[derive(Debug, Default)]
struct Lists {
    queued: Vec<Arc<FollowerState>>,
    /// Followers that are being written to the database.
    writing: Vec<Arc<FollowerState>>,
}

/// Whether a follower is in the queue.
#[derive(Debug, Default)]
pub(super) struct QueuedFlag(AtomicBool);

impl PendingChanges {
    /// Adds a follower that connected or left.
    pub(super) fn connected_or_left(&self, state: &Arc<FollowerState>) {
        self.add(state);
        self.connections.notify_one();
    }

    /// Adds a follower with a new ACK or NACK.
    pub(super) fn reported(&self, state: &Arc<FollowerState>) {
        self.add(state);
        self.reports.notify_one();
    }

    fn add(&self, state: &Arc<FollowerState>) {
        if state.queued_flag.0.swap(true, Ordering::AcqRel) {
            return;
        }
        let Lists { queued, .. } = &mut *lock(&self.lists);
        if queued.len() < MAX_QUEUED {
            queued.push(state.clone());
        } else {
            state.queued_flag.0.store(false, Ordering::Release);
        }
    }

    /// Waits for a change and for the delay of its batch.
    pub(super) async fn batch_ready(&self) {
        tokio::select! {
            () = self.connections.notified() => {}
            () = self.reports.notified() => tokio::select! {
                () = self.connections.notified() => {}
                () = sleep(REPORT_DELAY) => return,
            },
        }
        sleep(CONNECT_DELAY).await;
    }

    /// Takes all queued followers for a write. A later change adds a follower again.
    pub(super) fn take(&self) -> Vec<Arc<FollowerState>> {
        let mut lists = lock(&self.lists);
        let taken = std::mem::take(&mut lists.queued);
        lists.writing.clone_from(&taken);
        drop(lists);
        for state in &taken {
            state.queued_flag.0.store(false, Ordering::Release);
        }
        taken
    }

    /// Marks the taken followers as written.
    pub(super) fn written(&self) {
        lock(&self.lists).writing.clear();
    }

    /// Followers that match and may not be in the database yet.
    pub(super) fn unwritten(
        &self,
        matches: impl Fn(&FollowerState) -> bool,
    ) -> Vec<Arc<FollowerState>> {
        let Lists { queued, writing } = &*lock(&self.lists);
        queued.iter().chain(writing).filter(|state| matches(state)).cloned().collect()
    }
}

//! The followers whose changes are not in the database yet.
//!
//! A follower is on the list at most once, so a stream never waits.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{sync::Notify, time::sleep};

use super::roster::{State, lock};

/// Most that wait while the database is away; the next sign of life makes up for others.
const WAITING: usize = 100_000;
/// How long somebody who came or left waits for others, so that many are told together.
const GATHER: Duration = Duration::from_millis(200);
/// How long somebody who only said something waits.
const REST: Duration = Duration::from_secs(2);

/// The list.
#[derive(Debug, Default)]
pub(super) struct Changes {
    lists: Mutex<Lists>,
    moved: Notify,
    spoke: Notify,
}

#[derive(Debug, Default)]
struct Lists {
    waiting: Vec<Arc<State>>,
    /// Those of whom the database is being told.
    told: Vec<Arc<State>>,
}

/// Whether a follower is on the list.
#[derive(Debug, Default)]
pub(super) struct Mark(AtomicBool);

impl Changes {
    /// Somebody came or left.
    pub(super) fn came_or_left(&self, state: &Arc<State>) {
        self.add(state);
        self.moved.notify_one();
    }

    /// Somebody said something.
    pub(super) fn said(&self, state: &Arc<State>) {
        self.add(state);
        self.spoke.notify_one();
    }

    fn add(&self, state: &Arc<State>) {
        if state.mark.0.swap(true, Ordering::AcqRel) {
            return;
        }
        let Lists { waiting, .. } = &mut *lock(&self.lists);
        if waiting.len() < WAITING {
            waiting.push(state.clone());
        } else {
            state.mark.0.store(false, Ordering::Release);
        }
    }

    /// Waits until there is something to tell, and a little longer.
    pub(super) async fn gathered(&self) {
        tokio::select! {
            () = self.moved.notified() => {}
            () = self.spoke.notified() => tokio::select! {
                () = self.moved.notified() => {}
                () = sleep(REST) => return,
            },
        }
        sleep(GATHER).await;
    }

    /// Takes everybody off the list, to tell the database. Whoever says something from now on is on
    /// it again.
    pub(super) fn take(&self) -> Vec<Arc<State>> {
        let mut lists = lock(&self.lists);
        let taken = std::mem::take(&mut lists.waiting);
        lists.told.clone_from(&taken);
        drop(lists);
        for state in &taken {
            state.mark.0.store(false, Ordering::Release);
        }
        taken
    }

    /// The database was told, or those who were taken are on the list again.
    pub(super) fn told(&self) {
        lock(&self.lists).told.clear();
    }

    /// Those of whom the database may not know yet that are such.
    pub(super) fn untold(&self, is_such: impl Fn(&State) -> bool) -> Vec<Arc<State>> {
        let Lists { waiting, told } = &*lock(&self.lists);
        waiting.iter().chain(told).filter(|state| is_such(state)).cloned().collect()
    }
}

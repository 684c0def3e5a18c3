//! The prices of tasks whose results have not arrived. Their amounts stay reserved.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use gateway_policy::{QuotaGuard, QuotaKey, QuotaKind, Quotas};
use ledger::spender::{BootTime, Reservation};
use registry_core::{Digest, entity::policy::Price};

use super::lock;

/// Maximum number of tasks, about 5 MB. One caller has at most a quarter.
const MAX_TASKS: usize = 10_000;
/// The time after which a task is charged at its reserved price. The ledger keeps windows that are over for at least 24
/// hours.
const MAX_AGE: Duration = Duration::from_hours(12);

/// A price and its reservations.
#[derive(Debug)]
pub(crate) struct Priced {
    pub(crate) price: Price,
    pub(crate) reservations: Vec<Reservation>,
}

/// The price of a task. Dropping it charges the reserved price.
#[derive(Debug)]
pub(crate) struct OpenTask {
    pub(crate) enforced: Option<Priced>,
    /// For the budgets of policies in audit mode.
    pub(crate) audited: Vec<Priced>,
    /// The trace whose cost contains the price.
    pub(crate) trace: Option<u128>,
}

/// The tasks whose prices can still become lower.
#[derive(Debug)]
pub(super) struct OpenTasks {
    quotas: Arc<Quotas>,
    tasks: Mutex<HashMap<Digest, StoredTask>>,
}

#[derive(Debug)]
struct StoredTask {
    task: OpenTask,
    opened_at: BootTime,
    _quota: QuotaGuard,
}

impl OpenTasks {
    pub(super) fn new() -> Self {
        let quotas = Quotas::new(QuotaKind::Prices, MAX_TASKS);
        Self { quotas, tasks: Mutex::default() }
    }

    /// Stores a task. Without room its reserved price is charged.
    pub(super) fn add(&self, key: Digest, caller: &QuotaKey, task: OpenTask, now: BootTime) {
        let Ok(quota) = self.quotas.acquire(caller) else { return };
        let mut tasks = lock(&self.tasks);
        if tasks.len() < MAX_TASKS || tasks.contains_key(&key) {
            tasks.insert(key, StoredTask { task, opened_at: now, _quota: quota });
        }
    }

    /// Removes a task. `None`: its price is charged.
    pub(super) fn remove(&self, key: &Digest) -> Option<OpenTask> {
        lock(&self.tasks).remove(key).map(|stored| stored.task)
    }

    /// Charges the tasks that are too old.
    pub(super) fn expire(&self, now: BootTime) {
        lock(&self.tasks).retain(|_, stored| now.since(stored.opened_at) < MAX_AGE);
    }

    /// Charges all tasks.
    pub(super) fn clear(&self) {
        lock(&self.tasks).clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: usize) -> Digest {
        Digest::compute(number.to_string().as_bytes())
    }

    fn task() -> OpenTask {
        OpenTask { enforced: None, audited: Vec::new(), trace: None }
    }

    fn at(hours: u64) -> BootTime {
        BootTime::new(Duration::from_hours(hours))
    }

    #[test]
    fn one_caller_keeps_room_for_others() {
        let tasks = OpenTasks::new();
        let (one, other) = (Some(Arc::from("a")), Some(Arc::from("b")));
        for number in 0..MAX_TASKS {
            tasks.add(key(number), &one, task(), at(0));
        }
        let share = MAX_TASKS / 4;
        assert!(tasks.remove(&key(share)).is_none());
        tasks.add(key(share), &other, task(), at(0));
        assert!(tasks.remove(&key(share)).is_some());
        assert!(tasks.remove(&key(0)).is_some() && tasks.remove(&key(0)).is_none());
        tasks.add(key(0), &one, task(), at(0));
        assert!(tasks.remove(&key(0)).is_some(), "a removed task leaves room");
    }

    #[test]
    fn old_task_expires() {
        let tasks = OpenTasks::new();
        tasks.add(key(0), &None, task(), at(0));
        tasks.add(key(1), &None, task(), at(6));
        tasks.expire(at(12));
        assert!(tasks.remove(&key(0)).is_none() && tasks.remove(&key(1)).is_some());
    }
}

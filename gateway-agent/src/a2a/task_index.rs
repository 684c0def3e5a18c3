//! The tasks of each principal, for `ListTasks`.
//!
//! Everything else about a task is in its sealed id: without this index lists are shorter, but each
//! task can still be requested. The index has no contents of tasks. A list reads the unfinished
//! tasks and those on its page from their agents.

mod journal;

use std::{
    collections::{HashMap, HashSet},
    io,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use a2a::TaskState;
use registry_core::Timestamp;
use tokio::sync::Notify;

pub(crate) use self::journal::TaskJournal;
use crate::pipeline::TaskOwner;

/// Maximum tasks of one principal. The oldest ones are dropped.
const MOST_PER_OWNER: usize = 1_000;
/// Maximum tasks of all principals.
const MOST: usize = 50_000;
/// Maximum length of a kept id, in bytes. Tasks with longer ids are not listed.
const ID_BYTES: usize = 2 * 1024;
/// Time between the last change of a task and its removal. Ids are valid longer.
const EXPIRY: Duration = Duration::from_hours(30 * 24);

/// A task, with ids as its caller knows them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ListedTask {
    pub(super) id: Box<str>,
    pub(super) context: Box<str>,
    /// The name of the agent.
    pub(super) agent: Box<str>,
    pub(super) state: TaskState,
    /// The time of the status.
    pub(super) at: Timestamp,
}

impl ListedTask {
    fn weighs_too_much(&self) -> bool {
        self.id.len() + self.context.len() > ID_BYTES
    }
}

/// A task in the index.
#[derive(Debug)]
struct Entry {
    task: ListedTask,
    /// The time of the last change by the clock of the gateway. Clocks of agents can be wrong, so the
    /// time of the status decides only the order of lists.
    recorded: Timestamp,
}

impl Entry {
    fn is_expired(&self, now: Timestamp) -> bool {
        now.since(self.recorded) >= EXPIRY
    }
}

/// The tasks of all principals.
#[derive(Debug, Default)]
pub(crate) struct TaskIndex {
    state: Mutex<State>,
    /// Signals changes to the journal.
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    owners: HashMap<TaskOwner, HashMap<Box<str>, Entry>>,
    count: usize,
    /// The changed tasks. `None` without a journal.
    pending: Option<HashSet<(TaskOwner, Box<str>)>>,
}

impl TaskIndex {
    /// Opens the index beside a cache, and the journal that keeps it on disk. Blocks.
    pub(crate) fn open(cache: &Path, now: Timestamp) -> io::Result<(Arc<Self>, TaskJournal)> {
        let index = Arc::new(Self::default());
        let journal = TaskJournal::open(cache, &index, now)?;
        index.state().pending = Some(HashSet::new());
        Ok((index, journal))
    }

    /// Adds or updates a task. A status that is older than the known one is ignored.
    pub(super) fn record(&self, owner: TaskOwner, task: ListedTask, now: Timestamp) {
        if task.weighs_too_much() {
            return;
        }
        let mut state = self.state();
        let known = state.owners.get(&owner).and_then(|tasks| tasks.get(&task.id));
        let known = known.filter(|entry| !entry.is_expired(now)).map(|entry| &entry.task);
        if known.is_some_and(|known| *known == task || known.at > task.at) {
            return;
        }
        state.insert(owner, Entry { task, recorded: now });
        drop(state);
        self.changed.notify_one();
    }

    /// The known time of a task's status, if it is in this state.
    pub(super) fn time_of(
        &self,
        owner: TaskOwner,
        id: &str,
        state: TaskState,
    ) -> Option<Timestamp> {
        let tasks = self.state();
        let known = &tasks.owners.get(&owner)?.get(id)?.task;
        (known.state == state).then_some(known.at)
    }

    /// Removes a task that its agent no longer has.
    pub(super) fn remove(&self, owner: TaskOwner, id: &str) {
        self.state().remove(owner, id);
        self.changed.notify_one();
    }

    /// The tasks of a principal, the latest status first.
    pub(super) fn tasks(&self, owner: TaskOwner, now: Timestamp) -> Vec<ListedTask> {
        let state = self.state();
        let entries = state.owners.get(&owner).into_iter().flat_map(HashMap::values);
        let entries = entries.filter(|entry| !entry.is_expired(now));
        let mut tasks: Vec<_> = entries.map(|entry| entry.task.clone()).collect();
        drop(state);
        tasks.sort_unstable_by(|a, b| (b.at, &b.id).cmp(&(a.at, &a.id)));
        tasks
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn insert(&mut self, owner: TaskOwner, entry: Entry) {
        let id = entry.task.id.clone();
        let tasks = self.owners.entry(owner).or_default();
        let is_new = tasks.insert(id.clone(), entry).is_none();
        let is_full = tasks.len() > MOST_PER_OWNER;
        self.mark(owner, id);
        self.count += usize::from(is_new);
        if is_full {
            self.remove_oldest(owner);
        } else if self.count > MOST {
            let largest = self.owners.iter().max_by_key(|(_, tasks)| tasks.len());
            if let Some(owner) = largest.map(|(owner, _)| *owner) {
                self.remove_oldest(owner);
            }
        }
    }

    fn remove_oldest(&mut self, owner: TaskOwner) {
        let tasks = self.owners.get(&owner);
        let oldest = tasks
            .and_then(|tasks| tasks.values().min_by_key(|entry| (entry.recorded, entry.task.at)));
        if let Some(id) = oldest.map(|entry| entry.task.id.clone()) {
            self.remove(owner, &id);
        }
    }

    fn remove(&mut self, owner: TaskOwner, id: &str) {
        let Some(tasks) = self.owners.get_mut(&owner) else { return };
        let Some((id, _)) = tasks.remove_entry(id) else { return };
        if tasks.is_empty() {
            self.owners.remove(&owner);
        }
        self.count -= 1;
        self.mark(owner, id);
    }

    fn remove_expired(&mut self, now: Timestamp) {
        for tasks in self.owners.values_mut() {
            tasks.retain(|_, entry| !entry.is_expired(now));
        }
        self.owners.retain(|_, tasks| !tasks.is_empty());
        self.count = self.owners.values().map(HashMap::len).sum();
    }

    fn mark(&mut self, owner: TaskOwner, id: Box<str>) {
        if let Some(pending) = &mut self.pending {
            pending.insert((owner, id));
        }
    }
}

#[cfg(test)]
mod tests {
    use gateway_policy::Principal;

    use super::*;

    pub(super) fn owner(name: &str) -> TaskOwner {
        Principal::Agent(name).into()
    }

    pub(super) fn task(id: &str, seconds: i64) -> ListedTask {
        let (context, agent, state) = ("c".into(), "helper".into(), TaskState::Working);
        ListedTask { id: id.into(), context, agent, state, at: at(seconds) }
    }

    pub(super) fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(1_000 * seconds)
    }

    fn days_after(days: i64, time: Timestamp) -> Timestamp {
        Timestamp::from_millis(time.as_millis() + days * 24 * 3_600_000)
    }

    fn ids(index: &TaskIndex, owner: TaskOwner, now: Timestamp) -> Vec<String> {
        index.tasks(owner, now).into_iter().map(|task| task.id.to_string()).collect()
    }

    #[test]
    fn tasks_are_listed_by_owner_latest_first() {
        let (index, now) = (TaskIndex::default(), at(100));
        index.record(owner("a"), task("old", 1), now);
        index.record(owner("a"), task("new", 3), now);
        index.record(owner("b"), task("foreign", 2), now);
        assert_eq!(ids(&index, owner("a"), now), ["new", "old"]);
        index.record(owner("a"), task("old", 5), now);
        index.record(owner("a"), task("old", 2), now);
        assert_eq!(ids(&index, owner("a"), now), ["old", "new"], "an older status is ignored");
        index.remove(owner("a"), "old");
        assert_eq!(ids(&index, owner("a"), now), ["new"]);
    }

    #[test]
    fn index_is_bounded_per_owner_and_in_time() {
        let (index, now) = (TaskIndex::default(), at(2_000));
        for second in 0..=1_000 {
            index.record(owner("a"), task(&second.to_string(), second), now);
        }
        let listed = ids(&index, owner("a"), now);
        assert_eq!((listed.len(), listed.last().unwrap().as_str()), (MOST_PER_OWNER, "1"));
        index.record(owner("a"), task(&"x".repeat(ID_BYTES), 1_999), now);
        assert_eq!(ids(&index, owner("a"), now)[0], "1000", "a long id is not kept");
        assert_eq!(ids(&index, owner("a"), days_after(30, now)), [""; 0]);
    }

    #[test]
    fn wrong_clock_of_agent_changes_no_expiry() {
        let (index, now) = (TaskIndex::default(), days_after(100, at(0)));
        index.record(owner("a"), task("slow", 1), now);
        let fast = ListedTask { at: days_after(1_000, now), ..task("fast", 0) };
        index.record(owner("a"), fast, now);
        assert_eq!(ids(&index, owner("a"), days_after(29, now)), ["fast", "slow"]);
        let later = days_after(30, now);
        assert_eq!(ids(&index, owner("a"), later), [""; 0]);
        index.record(owner("a"), task("slow", 1), later);
        assert_eq!(ids(&index, owner("a"), later), ["slow"], "a read task is listed again");
    }

    #[test]
    fn eviction_ignores_the_clock_of_the_agent() {
        let (index, now) = (TaskIndex::default(), at(2_000));
        for second in 1..=1_000 {
            index.record(owner("a"), task(&second.to_string(), second), now);
        }
        index.record(owner("a"), task("late", 0), at(2_001));
        let listed = ids(&index, owner("a"), at(2_001));
        assert_eq!((listed.len(), listed.last().unwrap().as_str()), (MOST_PER_OWNER, "late"));
    }
}

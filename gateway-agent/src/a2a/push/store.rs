//! The configurations of all callers, and the notifications that wait for their receivers.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use registry_core::{Secret, Timestamp};
use serde_json::Value;
use tokio::sync::Notify;

use super::{super::task_index::Owner, config::Registration};

/// Maximum configurations of one caller.
const MOST_PER_OWNER: usize = 100;
/// Maximum configurations of all callers.
const MOST: usize = 5_000;
/// Maximum waiting notifications of one caller.
const QUEUED_PER_OWNER: usize = 100;
/// Maximum size of the waiting notifications of one caller, in bytes.
const QUEUED_BYTES_PER_OWNER: usize = 8 * 1024 * 1024;
/// Maximum size of all waiting notifications, in bytes.
const QUEUED_BYTES: usize = 64 * 1024 * 1024;
/// Age after which a configuration is dropped.
const EXPIRY: Duration = Duration::from_hours(7 * 24);

/// A notification for its receiver.
#[derive(Debug, Clone)]
pub(super) struct Notification {
    /// Equal in each attempt, so that receivers detect repetitions.
    pub(super) id: Box<str>,
    pub(super) body: Bytes,
}

/// All configurations.
#[derive(Debug, Default)]
pub(crate) struct PushConfigs {
    state: Mutex<State>,
    /// Signals changes to the file.
    pub(super) changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    entries: HashMap<Box<str>, Entry>,
    has_changed: bool,
}

#[derive(Debug)]
struct Entry {
    owner: Owner,
    registration: Arc<Registration>,
    queue: VecDeque<Notification>,
    /// Whether a task sends the queue.
    is_sending: bool,
}

impl Entry {
    fn is_for(&self, owner: Owner, task: &str) -> bool {
        self.owner == owner && self.registration.task.as_deref() == Some(task)
    }

    fn is_idle(&self) -> bool {
        self.registration.has_ended && self.queue.is_empty()
    }

    fn queued_bytes(&self) -> usize {
        self.queue.iter().map(|notification| notification.body.len()).sum()
    }
}

/// A limit of configurations or of waiting notifications is reached.
#[derive(Debug)]
pub(super) struct Full;

/// A configuration whose operation is not answered yet. Dropping it removes the configuration,
/// unless the operation has succeeded.
#[derive(Debug)]
pub(in super::super) struct PendingConfig {
    configs: Arc<PushConfigs>,
    pub(super) id: Box<str>,
    pub(super) token: Secret,
    is_kept: AtomicBool,
}

impl PendingConfig {
    /// The caller's id of the task is known.
    pub(in super::super) fn started(&self, task: &str) {
        self.is_kept.store(true, Ordering::Relaxed);
        self.configs.bind(&self.id, task);
    }

    /// The agent has accepted the configuration. Returns it for its caller.
    pub(in super::super) fn created(&self) -> Value {
        self.is_kept.store(true, Ordering::Relaxed);
        let registration = self.configs.find(&self.id);
        let shown = registration.map(|r| r.client.shown(r.task.as_deref().unwrap_or_default()));
        shown.unwrap_or_default()
    }
}

impl Drop for PendingConfig {
    fn drop(&mut self) {
        if !*self.is_kept.get_mut() {
            self.configs.remove(&self.id);
        }
    }
}

impl PushConfigs {
    /// Adds the configurations of a file.
    pub(super) fn restore(&self, registrations: Vec<Registration>, now: Timestamp) {
        let mut state = self.state();
        for registration in registrations {
            let Some(owner) = Owner::of(&registration.caller) else { continue };
            state.add(owner, registration);
        }
        state.remove_expired(now);
    }

    /// The changed configurations for the file. `None`: nothing has changed. Those without a task
    /// are not kept: the answer that their caller waits for is lost in a restart.
    pub(super) fn take_changes(&self) -> Option<Vec<Arc<Registration>>> {
        let mut state = self.state();
        if !std::mem::take(&mut state.has_changed) {
            return None;
        }
        let all = state.entries.values().map(|entry| Arc::clone(&entry.registration));
        Some(all.filter(|registration| registration.task.is_some()).collect())
    }

    /// Marks the file as outdated.
    pub(super) fn write_again(&self) {
        self.state().has_changed = true;
    }

    /// Adds a configuration. One with the same task and id is replaced, and keeps its address and
    /// token at the agent.
    pub(super) fn insert(
        self: &Arc<Self>,
        mut registration: Registration,
        now: Timestamp,
    ) -> Result<PendingConfig, Full> {
        let owner = Owner::of(&registration.caller).ok_or(Full)?;
        let mut state = self.state();
        state.remove_expired(now);
        let task = registration.task.clone();
        let known = state.entries.values().find(|entry| {
            task.as_deref().is_some_and(|task| entry.is_for(owner, task))
                && entry.registration.client.id == registration.client.id
        });
        let is_kept = known.is_some();
        if let Some(known) = known {
            registration.id.clone_from(&known.registration.id);
            registration.token.clone_from(&known.registration.token);
        } else {
            state.make_room(owner)?;
        }
        let (id, token) = (registration.id.clone(), registration.token.clone());
        state.add(owner, registration);
        drop(state);
        self.changed.notify_one();
        Ok(PendingConfig {
            configs: Arc::clone(self),
            id,
            token,
            is_kept: AtomicBool::new(is_kept),
        })
    }

    pub(super) fn find(&self, id: &str) -> Option<Arc<Registration>> {
        self.state().entries.get(id).map(|entry| Arc::clone(&entry.registration))
    }

    /// The configurations of a task, in the order of their creation.
    pub(super) fn of_task(&self, owner: Owner, task: &str) -> Vec<Arc<Registration>> {
        let state = self.state();
        let found = state.entries.values().filter(|entry| entry.is_for(owner, task));
        let mut found: Vec<_> = found.map(|entry| Arc::clone(&entry.registration)).collect();
        drop(state);
        found.sort_by(|a, b| (a.created, &a.id).cmp(&(b.created, &b.id)));
        found
    }

    /// Sets the task of a configuration, unless it is known.
    pub(super) fn bind(&self, id: &str, task: &str) {
        self.change(id, |registration| {
            let is_new = registration.task.is_none();
            if is_new {
                registration.task = Some(task.into());
            }
            is_new
        });
    }

    /// The task of a configuration has ended.
    pub(super) fn ended(&self, id: &str) {
        self.change(id, |registration| !std::mem::replace(&mut registration.has_ended, true));
    }

    fn change(&self, id: &str, change: impl FnOnce(&mut Registration) -> bool) {
        let mut state = self.state();
        let Some(entry) = state.entries.get_mut(id) else { return };
        if change(Arc::make_mut(&mut entry.registration)) {
            state.has_changed = true;
            drop(state);
            self.changed.notify_one();
        }
    }

    pub(super) fn remove(&self, id: &str) {
        let mut state = self.state();
        let removed = state.entries.remove(id);
        state.has_changed |= removed.is_some();
        state.measure();
        drop(state);
        self.changed.notify_one();
    }

    /// Appends a notification. Returns whether its sender must be started.
    pub(super) fn push(&self, id: &str, notification: Notification) -> Result<bool, Full> {
        let mut state = self.state();
        let bytes = notification.body.len();
        let owner = state.entries.get(id).ok_or(Full)?.owner;
        let (mut count, mut own, mut all) = (0, bytes, bytes);
        for entry in state.entries.values().filter(|entry| !entry.queue.is_empty()) {
            let queued = entry.queued_bytes();
            all += queued;
            if entry.owner == owner {
                count += entry.queue.len();
                own += queued;
            }
        }
        if count >= QUEUED_PER_OWNER || own > QUEUED_BYTES_PER_OWNER || all > QUEUED_BYTES {
            return Err(Full);
        }
        let entry = state.entries.get_mut(id).ok_or(Full)?;
        entry.queue.push_back(notification);
        let must_start = !std::mem::replace(&mut entry.is_sending, true);
        state.measure();
        Ok(must_start)
    }

    /// The first waiting notification. `None`: the sender ends.
    pub(super) fn first(&self, id: &str) -> Option<(Arc<Registration>, Notification)> {
        let mut state = self.state();
        let entry = state.entries.get_mut(id)?;
        let first = entry.queue.front().cloned();
        entry.is_sending = first.is_some();
        first.map(|first| (Arc::clone(&entry.registration), first))
    }

    /// Removes the first waiting notification.
    pub(super) fn sent(&self, id: &str) {
        let mut state = self.state();
        if let Some(entry) = state.entries.get_mut(id) {
            entry.queue.pop_front();
        }
        state.measure();
    }

    /// The number of waiting notifications.
    #[cfg(test)]
    pub(in super::super) fn waiting(&self) -> usize {
        self.state().entries.values().map(|entry| entry.queue.len()).sum()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn add(&mut self, owner: Owner, registration: Registration) {
        self.has_changed = true;
        let registration = Arc::new(registration);
        let id = registration.id.clone();
        if let Some(known) = self.entries.get_mut(&id) {
            known.registration = registration;
            return;
        }
        let (queue, is_sending) = (VecDeque::new(), false);
        self.entries.insert(id, Entry { owner, registration, queue, is_sending });
    }

    /// Removes the oldest configuration of an ended task if a limit is reached.
    fn make_room(&mut self, owner: Owner) -> Result<(), Full> {
        let own = self.entries.values().filter(|entry| entry.owner == owner).count();
        let is_own_full = own >= MOST_PER_OWNER;
        if !is_own_full && self.entries.len() < MOST {
            return Ok(());
        }
        let ended = self.entries.values().filter(|entry| entry.is_idle());
        let ended = ended.filter(|entry| !is_own_full || entry.owner == owner);
        let oldest = ended.min_by_key(|entry| entry.registration.created).ok_or(Full)?;
        let id = oldest.registration.id.clone();
        self.entries.remove(&id);
        Ok(())
    }

    fn remove_expired(&mut self, now: Timestamp) {
        self.entries.retain(|_, entry| now.since(entry.registration.created) < EXPIRY);
    }

    fn measure(&self) {
        let waiting: usize = self.entries.values().map(|entry| entry.queue.len()).sum();
        let waiting = u32::try_from(waiting).unwrap_or(u32::MAX);
        metrics::gauge!("gateway_push_notifications_waiting").set(waiting);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use a2a::Version;
    use gateway_policy::CallerIdentity;
    use gateway_upstream::Addresses;
    use serde_json::json;

    use super::{super::config::ClientConfig, *};
    use crate::pipeline::PushSettings;

    pub(in super::super) fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(1_000 * seconds)
    }

    pub(in super::super) fn registration(owner: &str, id: &str, task: &str) -> Registration {
        let settings = PushSettings { addresses: Addresses::Public, allow_http: false };
        let config = json!({ "url": "https://client.example/hook", "token": "t" });
        let config = (config.as_object().unwrap(), "");
        Registration {
            id: id.into(),
            caller: CallerIdentity::Asserted { name: owner.into(), version: None },
            agent: "helper".into(),
            task: Some(task.into()),
            token: "token".to_owned().into(),
            client: ClientConfig::read(config, Version::V1, id, settings).unwrap(),
            created: at(1),
            has_ended: false,
        }
    }

    fn notification(bytes: usize) -> Notification {
        Notification { id: "n".into(), body: vec![b' '; bytes].into() }
    }

    #[test]
    fn unanswered_configuration_is_removed() {
        let configs = Arc::<PushConfigs>::default();
        drop(configs.insert(registration("a", "1", "t"), at(1)).unwrap());
        assert!(configs.find("1").is_none());
        let pending = configs.insert(registration("a", "2", "t"), at(1)).unwrap();
        pending.started("other");
        drop(pending);
        assert_eq!(configs.find("2").unwrap().task.as_deref(), Some("t"), "the task is known");
        let mut same = registration("a", "3", "t");
        same.client.id = "2".into();
        let pending = configs.insert(same, at(1)).unwrap();
        assert_eq!(&*pending.id, "2", "it keeps its address");
        drop(pending);
        assert!(configs.find("2").is_some());
    }

    #[test]
    fn configurations_are_bounded_per_caller_and_in_time() {
        let configs = Arc::<PushConfigs>::default();
        for number in 0..MOST_PER_OWNER {
            let id = number.to_string();
            configs.insert(registration("a", &id, &id), at(1)).unwrap().created();
        }
        assert!(configs.insert(registration("a", "new", "t"), at(1)).is_err());
        configs.insert(registration("b", "foreign", "t"), at(1)).unwrap().created();
        configs.ended("7");
        configs.insert(registration("a", "new", "t"), at(1)).unwrap().created();
        assert!(configs.find("7").is_none() && configs.find("8").is_some());
        let later = Timestamp::from_millis(at(1).as_millis() + 7 * 24 * 3_600_000);
        configs.insert(registration("a", "late", "t"), later).unwrap().created();
        assert!(configs.find("8").is_none(), "expired");
    }

    #[test]
    fn waiting_notifications_are_bounded_and_ordered() {
        let configs = Arc::<PushConfigs>::default();
        configs.insert(registration("a", "1", "t"), at(1)).unwrap().created();
        configs.insert(registration("a", "2", "t"), at(1)).unwrap().created();
        assert!(configs.push("1", notification(1)).unwrap(), "its sender starts");
        assert!(!configs.push("1", notification(2)).unwrap());
        assert!(configs.push("2", notification(QUEUED_BYTES_PER_OWNER)).is_err());
        for _ in 2..QUEUED_PER_OWNER {
            configs.push("2", notification(1)).unwrap();
        }
        assert!(configs.push("2", notification(1)).is_err());
        for bytes in [1, 2] {
            assert_eq!(configs.first("1").unwrap().1.body.len(), bytes);
            configs.sent("1");
        }
        assert!(configs.first("1").is_none());
        assert!(configs.push("1", notification(1)).unwrap(), "its sender starts again");
        assert!(configs.push("unknown", notification(1)).is_err());
    }
}

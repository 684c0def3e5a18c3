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

use super::config::Registration;
use crate::pipeline::TaskOwner;

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
    registration: Arc<Registration>,
    queue: VecDeque<Notification>,
    /// Whether a task sends the queue.
    is_sending: bool,
}

impl Entry {
    fn owner(&self) -> TaskOwner {
        self.registration.owner
    }

    fn is_expired(&self, now: Timestamp) -> bool {
        now.since(self.registration.created) >= EXPIRY
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

/// A configuration whose operation is not answered yet. Dropping it removes a new configuration,
/// and leaves an existing one unchanged, unless the operation has succeeded.
#[derive(Debug)]
pub(in super::super) struct PendingConfig {
    configs: Arc<PushConfigs>,
    pub(super) id: Box<str>,
    pub(super) token: Secret,
    /// Replaces the existing configuration with the same task and id. `None`: it is a new one.
    replacement: Option<Registration>,
    has_succeeded: AtomicBool,
}

impl PendingConfig {
    /// The caller's id of the task is known.
    pub(in super::super) fn started(&self, task: &str) {
        self.succeed();
        self.configs.bind(&self.id, task);
    }

    /// The agent has accepted the configuration. Returns it for its caller.
    pub(in super::super) fn created(&self) -> Value {
        self.succeed();
        let state = self.configs.state();
        let registration = state.entries.get(&self.id).map(|entry| &entry.registration);
        let shown = registration.map(|r| r.client.shown(r.task.as_deref().unwrap_or_default()));
        shown.unwrap_or_default()
    }

    fn succeed(&self) {
        if self.has_succeeded.swap(true, Ordering::Relaxed) {
            return;
        }
        if let Some(replacement) = &self.replacement {
            self.configs.state().add(replacement.clone());
            self.configs.changed.notify_one();
        }
    }
}

impl Drop for PendingConfig {
    fn drop(&mut self) {
        if !*self.has_succeeded.get_mut() && self.replacement.is_none() {
            self.configs.remove(&self.id);
        }
    }
}

impl PushConfigs {
    /// Adds the configurations of a file.
    pub(super) fn restore(&self, registrations: Vec<Registration>, now: Timestamp) {
        let mut state = self.state();
        for registration in registrations {
            state.add(registration);
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

    /// Adds a configuration. One with the same id for the task that `is_task` recognizes is replaced
    /// when the operation succeeds, and keeps its address and token at the agent.
    pub(super) fn insert(
        self: &Arc<Self>,
        mut registration: Registration,
        is_task: impl Fn(&str) -> bool,
        now: Timestamp,
    ) -> Result<PendingConfig, Full> {
        let owner = registration.owner;
        let mut state = self.state();
        state.remove_expired(now);
        let known = state.entries.values().find(|entry| {
            entry.owner() == owner
                && entry.registration.client.id == registration.client.id
                && entry.registration.task.as_deref().is_some_and(&is_task)
        });
        let is_known = known.is_some();
        if let Some(known) = known {
            registration.id.clone_from(&known.registration.id);
            registration.token.clone_from(&known.registration.token);
        } else {
            state.make_room(owner)?;
        }
        let (id, token) = (registration.id.clone(), registration.token.clone());
        let replacement = if is_known {
            Some(registration)
        } else {
            state.add(registration);
            None
        };
        drop(state);
        self.changed.notify_one();
        let has_succeeded = AtomicBool::new(false);
        Ok(PendingConfig { configs: Arc::clone(self), id, token, replacement, has_succeeded })
    }

    /// Finds a configuration that is not expired.
    pub(super) fn find(&self, id: &str, now: Timestamp) -> Option<Arc<Registration>> {
        let state = self.state();
        let found = state.entries.get(id).filter(|entry| !entry.is_expired(now));
        found.map(|entry| Arc::clone(&entry.registration))
    }

    /// The configurations of a principal's tasks, in the order of their creation.
    pub(super) fn of_owner(&self, owner: TaskOwner, now: Timestamp) -> Vec<Arc<Registration>> {
        let state = self.state();
        let found = state.entries.values();
        let found = found.filter(|entry| entry.owner() == owner && !entry.is_expired(now));
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

    /// Removes a configuration with its waiting notifications. Returns whether it existed.
    pub(super) fn remove(&self, id: &str) -> bool {
        let mut state = self.state();
        let removed = state.entries.remove(id);
        state.has_changed |= removed.is_some();
        state.measure();
        drop(state);
        self.changed.notify_one();
        removed.is_some()
    }

    /// Appends a notification. Returns whether its sender must be started.
    pub(super) fn push(&self, id: &str, notification: Notification) -> Result<bool, Full> {
        let mut state = self.state();
        let bytes = notification.body.len();
        let owner = state.entries.get(id).ok_or(Full)?.owner();
        let (mut count, mut own, mut all) = (0, bytes, bytes);
        for entry in state.entries.values().filter(|entry| !entry.queue.is_empty()) {
            let queued = entry.queued_bytes();
            all += queued;
            if entry.owner() == owner {
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
    fn add(&mut self, registration: Registration) {
        self.has_changed = true;
        let registration = Arc::new(registration);
        let id = registration.id.clone();
        if let Some(known) = self.entries.get_mut(&id) {
            known.registration = registration;
            return;
        }
        let (queue, is_sending) = (VecDeque::new(), false);
        self.entries.insert(id, Entry { registration, queue, is_sending });
    }

    /// Removes the oldest configuration of an ended task if a limit is reached.
    fn make_room(&mut self, owner: TaskOwner) -> Result<(), Full> {
        let own = self.entries.values().filter(|entry| entry.owner() == owner).count();
        let is_own_full = own >= MOST_PER_OWNER;
        if !is_own_full && self.entries.len() < MOST {
            return Ok(());
        }
        let ended = self.entries.values().filter(|entry| entry.is_idle());
        let ended = ended.filter(|entry| !is_own_full || entry.owner() == owner);
        let oldest = ended.min_by_key(|entry| entry.registration.created).ok_or(Full)?;
        let id = oldest.registration.id.clone();
        self.entries.remove(&id);
        Ok(())
    }

    fn remove_expired(&mut self, now: Timestamp) {
        self.entries.retain(|_, entry| !entry.is_expired(now));
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
    use gateway_policy::{CallerIdentity, Principal};
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
            owner: Principal::Agent(owner).into(),
            caller: CallerIdentity::Asserted { name: owner.into(), version: None },
            agent: "helper".into(),
            task: Some(task.into()),
            token: "token".to_owned().into(),
            client: ClientConfig::read(config, Version::V1, id, settings).unwrap(),
            created: at(1),
            has_ended: false,
        }
    }

    /// Adds a configuration for the task `t`.
    pub(in super::super) fn insert(
        configs: &Arc<PushConfigs>,
        registration: Registration,
        now: Timestamp,
    ) -> Result<PendingConfig, Full> {
        configs.insert(registration, |task| task == "t", now)
    }

    fn notification(bytes: usize) -> Notification {
        Notification { id: "n".into(), body: vec![b' '; bytes].into() }
    }

    #[test]
    fn unanswered_configuration_is_removed() {
        let configs = Arc::<PushConfigs>::default();
        drop(insert(&configs, registration("a", "1", "t"), at(1)).unwrap());
        assert!(configs.find("1", at(1)).is_none());
        let pending = insert(&configs, registration("a", "2", "t"), at(1)).unwrap();
        pending.started("other");
        drop(pending);
        let kept = configs.find("2", at(1)).unwrap();
        assert_eq!(kept.task.as_deref(), Some("t"), "the task is known");
    }

    #[test]
    fn configuration_is_replaced_on_success_only() {
        let configs = Arc::<PushConfigs>::default();
        insert(&configs, registration("a", "1", "t"), at(1)).unwrap().created();
        let moved = |task: &str| {
            let mut moved = registration("a", "2", task);
            let config = json!({ "id": "1", "url": "https://moved.example/hook" });
            let settings = PushSettings { addresses: Addresses::Public, allow_http: false };
            moved.client =
                ClientConfig::read((config.as_object().unwrap(), ""), Version::V1, "2", settings)
                    .unwrap();
            moved
        };
        let url = || configs.find("1", at(1)).unwrap().client.url.expose().to_owned();
        let pending = insert(&configs, moved("t"), at(1)).unwrap();
        assert_eq!(&*pending.id, "1", "it keeps its address");
        drop(pending);
        assert_eq!(url(), "https://client.example/hook");
        insert(&configs, moved("t"), at(1)).unwrap().created();
        assert_eq!(url(), "https://moved.example/hook");
        assert_eq!(configs.of_owner(Principal::Agent("a").into(), at(1)).len(), 1);
    }

    #[test]
    fn configurations_are_bounded_per_caller_and_in_time() {
        let configs = Arc::<PushConfigs>::default();
        for number in 0..MOST_PER_OWNER {
            let id = number.to_string();
            insert(&configs, registration("a", &id, &id), at(1)).unwrap().created();
        }
        assert!(insert(&configs, registration("a", "new", "t"), at(1)).is_err());
        insert(&configs, registration("b", "foreign", "t"), at(1)).unwrap().created();
        configs.ended("7");
        insert(&configs, registration("a", "new", "t"), at(1)).unwrap().created();
        assert!(configs.find("7", at(1)).is_none() && configs.find("8", at(1)).is_some());
        let later = Timestamp::from_millis(at(1).as_millis() + 7 * 24 * 3_600_000);
        assert!(configs.find("8", later).is_none(), "expired");
        assert!(configs.of_owner(Principal::Agent("a").into(), later).is_empty());
        insert(&configs, registration("a", "late", "t"), later).unwrap().created();
        assert!(configs.find("8", at(1)).is_none(), "an insertion removes expired ones");
    }

    #[test]
    fn waiting_notifications_are_bounded_and_ordered() {
        let configs = Arc::<PushConfigs>::default();
        insert(&configs, registration("a", "1", "t"), at(1)).unwrap().created();
        insert(&configs, registration("a", "2", "t"), at(1)).unwrap().created();
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

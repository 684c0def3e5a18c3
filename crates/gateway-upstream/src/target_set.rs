//! The set of targets and their states, as configured and as set by operators.
//!
//! A change replaces the whole set, so that requests look up targets without a lock. A removed
//! target gets no new requests and finishes the running ones. An operator's stop does not survive a
//! restart: the gateway starts every target.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use arc_swap::ArcSwap;
use foldhash::HashMap;
use registry_core::{Key, Kind, Name};
use tokio::{runtime::Handle, sync::watch};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    Error, TargetHealth, TargetState,
    concurrency::Load,
    data_agent::{self, DataAgents, RegisteredAgents},
    definitions::Definitions,
    events::EventBus,
    http::Client,
    routing::{Route, Routing, TargetId},
    start::Start,
    subscriptions::Subscriptions,
    target::Target,
    timing::Timing,
};
use crate::{TargetConfig, UpstreamLimits};

/// All targets.
#[derive(Debug)]
pub(super) struct TargetSet {
    entries: ArcSwap<Entries>,
    routing: ArcSwap<Routing>,
    /// Serializes changes.
    changing: Mutex<()>,
    /// The wanted targets.
    wanted: Mutex<WantedTargets>,
    pub(super) agents: Arc<DataAgents>,
    pub(super) event_bus: EventBus,
    publish: Arc<watch::Sender<Arc<Definitions>>>,
    watched: Mutex<HashMap<TargetId, Weak<Subscriptions>>>,
    timing: Timing,
    tasks: TaskTracker,
    stop: CancellationToken,
    /// The runtime of the targets.
    runtime: Handle,
}

/// The configured targets and the registered data agents.
#[derive(Debug, Default)]
struct WantedTargets {
    configured: Vec<TargetConfig>,
    limits: UpstreamLimits,
    data_agents: RegisteredAgents,
}

type Entries = HashMap<TargetId, Entry>;

/// One configured target.
#[derive(Debug, Clone)]
struct Entry {
    config: Arc<TargetConfig>,
    limits: UpstreamLimits,
    /// The subscriptions outlive a restarted target.
    subscriptions: Arc<Subscriptions>,
    state: TargetMode,
}

/// The state of a target.
#[derive(Debug, Clone)]
enum TargetMode {
    Running(Arc<Target>),
    /// The target starts at its first call.
    Idle,
    /// An operator stopped the target.
    Stopped,
}

impl TargetSet {
    /// Creates an empty set. Must be called inside the Tokio runtime of the targets.
    pub(super) fn new(timing: Timing, tasks: TaskTracker, stop: CancellationToken) -> Self {
        Self {
            entries: ArcSwap::default(),
            routing: ArcSwap::default(),
            changing: Mutex::new(()),
            wanted: Mutex::default(),
            agents: Arc::default(),
            event_bus: EventBus::new(),
            publish: Arc::default(),
            watched: Mutex::default(),
            timing,
            tasks,
            stop,
            runtime: Handle::current(),
        }
    }

    /// The target of a registered server.
    pub(super) fn find(&self, server: &Key) -> Result<Arc<Target>, Error> {
        let unknown = || Error::NotConfigured { server: server.clone() };
        let stopped = || Error::Stopped { server: server.clone() };
        let state = |entry: &Entry| entry.state.clone();
        let found = match self.read_entry(server, state).ok_or_else(unknown)? {
            TargetMode::Idle => {
                let idle = self.route(server).ok_or_else(unknown)?.target;
                self.wake(&idle);
                self.read_entry(server, state).ok_or_else(unknown)?
            }
            found => found,
        };
        match found {
            TargetMode::Running(target) => Ok(target),
            TargetMode::Idle | TargetMode::Stopped => Err(stopped()),
        }
    }

    /// Whether the target of a registered server is up. `None`: the server has no target, or none
    /// that was started.
    pub(super) fn is_up(&self, server: &Key) -> Option<bool> {
        self.read_entry(server, |entry| match &entry.state {
            TargetMode::Running(target) => Some(target.is_up()),
            TargetMode::Idle => None,
            TargetMode::Stopped => Some(false),
        })?
    }

    /// Starts an idle target.
    fn wake(&self, server: &TargetId) {
        self.change_one(server, |entry| match entry.state {
            TargetMode::Idle => self.started(entry),
            TargetMode::Running(_) | TargetMode::Stopped => entry.clone(),
        });
    }

    /// Leaves a target without `autoStart` idle until its first call.
    pub(super) fn leave_idle(&self, server: &TargetId) {
        self.change_one(server, |entry| match entry.state {
            TargetMode::Running(_) if !entry.config.auto_start => {
                Entry { state: TargetMode::Idle, ..entry.clone() }
            }
            _ => entry.clone(),
        });
    }

    /// Requests a check of a target. `Some(false)`: the target is stopped. `None`: there is no such
    /// target.
    pub(super) fn check(&self, target: &TargetId) -> Option<bool> {
        let entries = self.entries.load();
        let running = entries.get(target)?.running();
        Some(running.inspect(|target| target.check()).is_some())
    }

    /// The health of a target after a probe within this time. A target that is not running is not
    /// probed. `None`: there is no such target.
    pub(super) async fn probe(&self, target: &TargetId, within: Duration) -> Option<TargetHealth> {
        let entry = self.entries.load().get(target).cloned()?;
        match entry.running() {
            Some(running) => Some(running.probe(within).await),
            None => Some(entry.health()),
        }
    }

    /// The configuration of a server's target, in any state.
    pub(super) fn config(&self, server: &Key) -> Option<Arc<TargetConfig>> {
        self.read_entry(server, |entry| Arc::clone(&entry.config))
    }

    /// The target of a registered server or agent version.
    pub(super) fn route(&self, server: &Key) -> Option<Route> {
        self.routing.load().resolve(server)
    }

    /// Reads the entry of a registered server.
    fn read_entry<T>(&self, server: &Key, read: impl FnOnce(&Entry) -> T) -> Option<T> {
        let route = self.route(server)?;
        self.entries.load().get(&route.target).map(read)
    }

    /// All running targets.
    pub(super) fn running(&self) -> impl Iterator<Item = Arc<Target>> + use<> {
        let running: Vec<_> =
            self.entries.load().values().filter_map(|entry| entry.running().cloned()).collect();
        running.into_iter()
    }

    /// The definitions of all targets.
    pub(super) fn definitions(&self) -> watch::Receiver<Arc<Definitions>> {
        self.publish.subscribe()
    }

    /// The health of each target in the order of the keys.
    pub(super) fn health(&self) -> Vec<TargetHealth> {
        let mut health: Vec<_> = self.entries.load().values().map(Entry::health).collect();
        health.sort_by(|a, b| a.server.cmp(&b.server));
        health
    }

    /// Replaces the configured targets. Unchanged ones keep running.
    pub(super) fn configure(&self, targets: &[TargetConfig], limits: UpstreamLimits) {
        let mut wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        targets.clone_into(&mut wanted.configured);
        wanted.limits = limits;
        self.start_wanted(&wanted);
    }

    /// The kind of a configured target with this name, in any version.
    pub(super) fn configured_kind(&self, name: &Name) -> Option<Kind> {
        let wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        let mut servers = wanted.configured.iter().map(|target| &target.server);
        servers.find(|server| server.name == *name).map(|server| server.kind)
    }

    /// Replaces the data agents.
    pub(super) fn set_data_agents(&self, agents: RegisteredAgents) {
        let mut wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        if wanted.data_agents != agents {
            self.agents.keep_registered(&agents);
            wanted.data_agents = agents;
            self.start_wanted(&wanted);
        }
    }

    fn start_wanted(&self, wanted: &WantedTargets) {
        let limits = wanted.limits;
        let targets = &data_agent::with_agents(&wanted.configured, &wanted.data_agents)[..];
        let client = Client::new(targets, limits, self.tasks.clone());
        let entries = self.entries.load();
        let is_moved = |target: &&TargetConfig| {
            let known = entries.get(&target.server);
            known.is_some_and(|known| known.config.transport != target.transport)
        };
        let moved: Vec<_> =
            targets.iter().filter(is_moved).map(|target| target.server.clone()).collect();
        // Data agents change their own targets, and must not start those that an operator stopped.
        let stays_stopped = |known: &Entry, config: &TargetConfig| {
            known.is_stopped() && wanted.data_agents.contains_key(&config.server.name)
        };
        self.change(|entries| {
            let entry = |config: &TargetConfig| {
                let known = entries.get(&config.server);
                let entry = match known {
                    Some(known) if known.is_as(config, limits) || stays_stopped(known, config) => {
                        Entry { config: Arc::new(config.clone()), limits, ..known.clone() }
                    }
                    known => self.entry(config, limits, known, &client),
                };
                (config.server.clone(), entry)
            };
            targets.iter().map(entry).collect()
        });
        let routing: Routing = targets.iter().map(|target| target.server.clone()).collect();
        self.routing.store(Arc::new(routing.clone()));
        self.publish.send_if_modified(|all| {
            let all = Arc::make_mut(all);
            let has_forgotten = all.forget(&moved);
            all.configure(routing) || has_forgotten
        });
    }

    /// Stops a target and rejects its calls until it is started. Returns whether the target exists.
    pub(super) fn stop(&self, server: &TargetId) -> bool {
        self.change_one(server, |entry| Entry { state: TargetMode::Stopped, ..entry.clone() })
    }

    /// Starts a stopped target. Returns whether the target exists.
    pub(super) fn start(&self, server: &TargetId) -> bool {
        self.change_one(server, |entry| {
            if entry.running().is_some_and(|target| !target.is_broken()) {
                return entry.clone();
            }
            self.started(entry)
        })
    }

    /// The entry with its target started.
    fn started(&self, entry: &Entry) -> Entry {
        let config = std::slice::from_ref(&*entry.config);
        let client = Client::new(config, entry.limits, self.tasks.clone());
        let state = self.begin(&entry.config, entry.limits, &entry.subscriptions, &client);
        Entry { state, ..entry.clone() }
    }

    /// Creates the entry of a configured target, from the existing one if there is one.
    fn entry(
        &self,
        config: &TargetConfig,
        limits: UpstreamLimits,
        known: Option<&Entry>,
        client: &Client,
    ) -> Entry {
        let subscriptions = match known {
            Some(known) => Arc::clone(&known.subscriptions),
            None => self.subscriptions_of(&config.server),
        };
        let state = if config.auto_start {
            self.begin(config, limits, &subscriptions, client)
        } else {
            TargetMode::Idle
        };
        Entry { config: Arc::new(config.clone()), limits, subscriptions, state }
    }

    /// Creates and starts a target.
    fn begin(
        &self,
        config: &TargetConfig,
        limits: UpstreamLimits,
        subscriptions: &Arc<Subscriptions>,
        client: &Client,
    ) -> TargetMode {
        let start = Start {
            config,
            limits: config.limits(limits),
            timing: self.timing,
            stop: &self.stop,
            publish: &self.publish,
            event_bus: &self.event_bus,
            subscriptions,
            agents: &self.agents,
        };
        let _runtime = self.runtime.enter();
        TargetMode::Running(Target::start(&start, client, &self.tasks))
    }

    /// The subscriptions to a server outlive its target as long as there are watchers.
    fn subscriptions_of(&self, server: &TargetId) -> Arc<Subscriptions> {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        watched.retain(|_, subscriptions| subscriptions.strong_count() > 0);
        let known = watched.get(server).and_then(Weak::upgrade);
        let subscriptions = known.unwrap_or_default();
        watched.insert(server.clone(), Arc::downgrade(&subscriptions));
        subscriptions
    }

    fn change_one(&self, server: &TargetId, change: impl FnOnce(&Entry) -> Entry) -> bool {
        let mut is_known = false;
        self.change(|entries| {
            let mut entries = entries.clone();
            if let Some(entry) = entries.get_mut(server) {
                is_known = true;
                *entry = change(entry);
            }
            entries
        });
        is_known
    }

    /// Replaces the set. Targets that are no longer running in it are retired, and the stopped ones
    /// are published.
    fn change(&self, change: impl FnOnce(&Entries) -> Entries) {
        let _one_at_a_time = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.entries.load_full();
        let after = Arc::new(change(&before));
        self.entries.store(Arc::clone(&after));
        for (server, target) in before.iter().filter_map(|(key, e)| Some((key, e.running()?))) {
            let now = after.get(server).and_then(Entry::running);
            if !now.is_some_and(|now| Arc::ptr_eq(now, target)) {
                self.tasks.spawn_on(Arc::clone(target).retire(), &self.runtime);
            }
        }
        let stopped = after.values().filter(|entry| entry.is_stopped());
        let stopped = stopped.map(|entry| entry.config.server.clone());
        let stopped: BTreeSet<_> = stopped.collect();
        self.publish.send_if_modified(|all| {
            let is_changed = !all.has_stopped(&stopped);
            if is_changed {
                Arc::make_mut(all).set_stopped(stopped);
            }
            is_changed
        });
    }
}

impl Entry {
    fn running(&self) -> Option<&Arc<Target>> {
        match &self.state {
            TargetMode::Running(target) => Some(target),
            TargetMode::Idle | TargetMode::Stopped => None,
        }
    }

    fn is_stopped(&self) -> bool {
        matches!(self.state, TargetMode::Stopped)
    }

    /// Whether the target already has this configuration and needs no restart.
    fn is_as(&self, config: &TargetConfig, limits: UpstreamLimits) -> bool {
        let is_broken = self.running().is_some_and(|target| target.is_broken());
        // The exposure does not affect the target itself.
        let shown = TargetConfig { exposes: config.exposes.clone(), ..(*self.config).clone() };
        shown == *config && self.limits == limits && !is_broken
    }

    fn health(&self) -> TargetHealth {
        let state = match &self.state {
            TargetMode::Running(target) => return target.health(),
            TargetMode::Idle => TargetState::Idle,
            TargetMode::Stopped => TargetState::Stopped,
        };
        TargetHealth {
            server: self.config.server.clone(),
            prefix: self.config.prefix.as_str().to_owned(),
            is_circuit_open: false,
            load: Load::default(),
            state,
        }
    }
}

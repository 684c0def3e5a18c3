//! Waits for changes that one caller can see: of its lists, or of its resources.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    future::pending,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
    time::Duration,
};

use gateway_protocol::naming::Interfaces;
use gateway_upstream::{Definitions, TargetId, UpstreamChange, UpstreamEvent};
use registry_core::{Catalog, Key, entity::Exposure};
use serde_json::value::RawValue;
use tokio::sync::{broadcast, watch};

use super::super::{Endpoint, Rejection, requester::Requester, tasks::StatusMessage};
use crate::{
    freshness::StalenessLevel,
    ingress::IngressError,
    pipeline::{self, EventStreamPlace},
    view::visible_servers::VisibleServers,
};

/// Changes within this time are combined.
const QUIET: Duration = Duration::from_millis(100);

/// A change for one caller.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Change {
    Tools,
    Prompts,
    Resources,
    /// A resource, under the caller's URI.
    Updated(Box<str>),
    /// The state of a task of 2025-11-25, under the server's id.
    Task {
        /// The registered versions of the server that announced it.
        servers: Vec<Key>,
        id: Arc<str>,
        params: Arc<str>,
    },
    /// The parameters of `notifications/tasks/status`, under the client's id.
    TaskStatus(Arc<str>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fingerprints {
    tools: u64,
    prompts: u64,
    resources: u64,
}

pub(super) struct ChangeWatcher {
    endpoint: Arc<Endpoint>,
    requester: Requester,
    seen: Fingerprints,
    catalog: watch::Receiver<Arc<Catalog>>,
    definitions: watch::Receiver<Arc<Definitions>>,
    announcements: broadcast::Receiver<UpstreamEvent>,
    /// Received announcements that are not processed.
    announced: Vec<UpstreamEvent>,
    changes: VecDeque<Change>,
    _place: EventStreamPlace,
}

/// The caller's lists in one snapshot.
struct CallerState {
    fingerprints: Fingerprints,
    level: StalenessLevel,
    visible_servers: VisibleServers,
    interfaces: Arc<Interfaces>,
    /// The registered servers of the caller's tools, by target.
    targets: BTreeMap<TargetId, BTreeSet<Key>>,
}

impl ChangeWatcher {
    /// Starts watching. The number of watchers is limited, in total and per caller.
    pub(super) fn new(endpoint: &Arc<Endpoint>, requester: &Requester) -> Result<Self, Rejection> {
        let place = endpoint.gateway.streams().open(&requester.caller.payer);
        let place = place.map_err(IngressError::TooManyStreams)?;
        let (catalog, definitions) = endpoint.gateway.views().subscribe();
        let mut watcher = Self {
            endpoint: endpoint.clone(),
            // The stream must not keep its session alive.
            requester: Requester { session: None, ..requester.clone() },
            seen: Fingerprints { tools: 0, prompts: 0, resources: 0 },
            catalog,
            definitions,
            announcements: endpoint.gateway.upstreams().subscribe_events(),
            announced: Vec::new(),
            changes: VecDeque::new(),
            _place: place,
        };
        watcher.mark_seen();
        watcher.seen = watcher.state().fingerprints;
        Ok(watcher)
    }

    /// Whether the policies still admit updates of a resource.
    pub(super) fn admits_updates(&self, uri: &str) -> bool {
        pipeline::admits_updates(&self.endpoint.gateway, &self.requester.caller, uri)
    }

    /// Whether notifications about tasks have messages. No request is there to inspect them for.
    pub(super) fn task_messages(&self) -> StatusMessage {
        let snapshot = self.endpoint.gateway.views().now();
        let inspects = snapshot.governance.as_ref().is_some_and(|governance| governance.inspects());
        if inspects { StatusMessage::Omitted } else { StatusMessage::Kept }
    }

    pub(super) fn endpoint(&self) -> &Arc<Endpoint> {
        &self.endpoint
    }

    /// Continues with the next configuration, if it accepts the caller.
    pub(super) fn follow_reload(&mut self) -> Option<()> {
        self.endpoint = self.endpoint.successor()?;
        (self.catalog, self.definitions) = self.endpoint.gateway.views().subscribe();
        Some(())
    }

    /// Compares with tools that the caller listed earlier.
    pub(super) fn compare_with(&mut self, tools: Option<u64>) {
        self.seen.tools = tools.unwrap_or(self.seen.tools);
    }

    fn mark_seen(&mut self) {
        self.catalog.mark_unchanged();
        self.definitions.mark_unchanged();
    }

    fn state(&self) -> CallerState {
        let gateway = &self.endpoint.gateway;
        let level = gateway.staleness().check().level;
        let snapshot = gateway.views().now();
        let caller = gateway.identify(
            &snapshot,
            &self.requester.caller.claim,
            self.requester.caller.client.clone(),
        );
        let view = gateway.view(&snapshot, &caller);
        let visible_servers = gateway.visible_servers(&snapshot, &view, &caller);
        let mut targets = BTreeMap::<_, BTreeSet<Key>>::new();
        for served in view.served_tools() {
            if let (Some(server), Some(route)) = (served.server(), served.route()) {
                targets.entry(route.target.clone()).or_default().insert(server.clone());
            }
        }
        let fingerprints = Fingerprints {
            tools: view.at(level).fingerprint(),
            prompts: fingerprint(&visible_servers, Exposure::Prompts),
            resources: fingerprint(&visible_servers, Exposure::Resources),
        };
        let interfaces = snapshot.definitions.interfaces().clone();
        CallerState { fingerprints, level, visible_servers, interfaces, targets }
    }

    /// Waits for a change. Cancel-safe.
    pub(super) async fn changed(&mut self) -> Change {
        loop {
            if let Some(change) = self.changes.pop_front() {
                return change;
            }
            if self.announced.is_empty() {
                let state = self.state();
                let found = self.compare(&state.fingerprints);
                if !found.is_empty() {
                    self.changes.extend(found);
                    continue;
                }
                self.wait_for_change(state.level).await;
            }
            tokio::time::sleep(QUIET).await;
            // Marked before the next comparison, so that later changes are not lost.
            self.mark_seen();
            self.collect_changes();
        }
    }

    /// Waits until something may have changed.
    async fn wait_for_change(&mut self, level: StalenessLevel) {
        let staleness = self.endpoint.gateway.staleness();
        tokio::select! {
            Ok(()) = self.catalog.changed() => {}
            Ok(()) = self.definitions.changed() => {}
            announced = self.announcements.recv() => self.announced.extend(announced),
            () = staleness.changed_from(level) => {}
            // All sources are closed.
            else => pending().await,
        }
    }

    /// Collects all announced and detected changes, each once.
    fn collect_changes(&mut self) {
        while let Ok(next) = self.announcements.try_recv() {
            self.announced.push(next);
        }
        let state = self.state();
        let mut changes = self.compare(&state.fingerprints);
        let concerning = self.announced.drain(..).filter_map(|news| state.change_for(&news));
        let is_task = |change: &Change| matches!(change, Change::Task { .. });
        let (tasks, others): (Vec<_>, Vec<_>) = concerning.partition(is_task);
        changes.extend(others);
        self.changes.extend(changes);
        // States of tasks keep their order.
        self.changes.extend(tasks);
    }

    fn compare(&mut self, now: &Fingerprints) -> BTreeSet<Change> {
        let before = std::mem::replace(&mut self.seen, *now);
        [
            (before.tools != now.tools, Change::Tools),
            (before.prompts != now.prompts, Change::Prompts),
            (before.resources != now.resources, Change::Resources),
        ]
        .into_iter()
        .filter_map(|(is_other, change)| is_other.then_some(change))
        .collect()
    }
}

impl Change {
    /// Whether a list changed.
    pub(super) fn is_list(&self) -> bool {
        matches!(self, Self::Tools | Self::Prompts | Self::Resources)
    }
}

impl CallerState {
    /// The change that an announcement means for this caller, if any.
    fn change_for(&self, UpstreamEvent { server, change }: &UpstreamEvent) -> Option<Change> {
        let visible = |what| {
            self.visible_servers
                .iter()
                .find(|visible| visible.target == *server && visible.exposes(what))
        };
        match change {
            UpstreamChange::Tools => self.targets.contains_key(server).then_some(Change::Tools),
            UpstreamChange::Prompts => visible(Exposure::Prompts).map(|_| Change::Prompts),
            UpstreamChange::Resources => visible(Exposure::Resources).map(|_| Change::Resources),
            UpstreamChange::Task { id, params } => {
                let servers = self.targets.get(server)?.iter().cloned().collect();
                Some(Change::Task { servers, id: id.clone(), params: params.clone() })
            }
            UpstreamChange::Updated(uri) => {
                let prefix = &visible(Exposure::Resources)?.prefix;
                let known = self.interfaces.known(prefix, uri)?.into_owned();
                Some(Change::Updated(known.into()))
            }
        }
    }
}

fn fingerprint(visible_servers: &VisibleServers, what: Exposure) -> u64 {
    let mut hasher = DefaultHasher::new();
    for visible in visible_servers.iter().filter(|visible| visible.exposes(what)) {
        let mut hash = |(name, definition): (&str, &RawValue)| {
            (name, definition.get()).hash(&mut hasher);
        };
        match what {
            Exposure::Prompts => visible.prompts().for_each(&mut hash),
            Exposure::Resources => {
                visible.resources().chain(visible.templates()).for_each(&mut hash);
            }
        }
    }
    hasher.finish()
}

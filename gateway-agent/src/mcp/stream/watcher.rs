//! Waits for changes that one caller can see: of its lists, or of its resources.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    future::pending,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
    time::Duration,
};

use gateway_policy::{Exhausted, Scarce, Share};
use gateway_protocol::naming::Interfaces;
use gateway_upstream::{Announcement, Definitions, Entries, News, TargetId};
use registry_core::{Catalog, Key, entity::Exposure};
use tokio::sync::{OwnedSemaphorePermit, broadcast, watch};

use super::super::{Endpoint, Rejection, manner::Who};
use crate::{
    audit::{Gauge, Held},
    freshness::Verdict,
    view::shown::Showcase,
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

pub(super) struct Watcher {
    endpoint: Arc<Endpoint>,
    who: Who,
    seen: Fingerprints,
    catalog: watch::Receiver<Arc<Catalog>>,
    definitions: watch::Receiver<Arc<Definitions>>,
    announcements: broadcast::Receiver<Announcement>,
    /// Received announcements that are not processed.
    announced: Vec<Announcement>,
    changes: VecDeque<Change>,
    _permit: OwnedSemaphorePermit,
    _share: Share,
    _held: Held,
}

/// The caller's lists in one snapshot.
struct Sight {
    fingerprints: Fingerprints,
    verdict: Verdict,
    showcase: Showcase,
    interfaces: Arc<Interfaces>,
    /// The registered servers of the caller's tools, by target.
    targets: BTreeMap<TargetId, BTreeSet<Key>>,
}

impl Watcher {
    /// Starts watching. The number of watchers is limited, in total and per caller.
    pub(super) fn new(
        endpoint: &Arc<Endpoint>,
        who: &Who,
    ) -> Result<Self, Rejection> {
        let share = endpoint.state.stream_shares.take(&who.caller.payer).map_err(Rejection::TooManyStreams)?;
        let permit = endpoint.state.streams.clone().try_acquire_owned();
        let full = Exhausted::All { what: Scarce::Streams, most: endpoint.state.most_streams };
        let permit = permit.map_err(|_| Rejection::TooManyStreams(full))?;
        let (catalog, definitions) = endpoint.gateway.views().subscribe();
        let mut watcher = Self {
            endpoint: endpoint.clone(),
            // The stream must not keep its session alive.
            who: Who { session: None, ..who.clone() },
            seen: Fingerprints { tools: 0, prompts: 0, resources: 0 },
            catalog,
            definitions,
            announcements: endpoint.gateway.upstreams().announcements(),
            announced: Vec::new(),
            changes: VecDeque::new(),
            _permit: permit,
            _share: share,
            _held: Gauge::Streams.hold(),
        };
        watcher.mark_seen();
        watcher.seen = watcher.look().fingerprints;
        Ok(watcher)
    }

    pub(super) fn endpoint(&self) -> &Arc<Endpoint> {
        &self.endpoint
    }

    /// Continues with the next configuration, if it accepts the caller.
    pub(super) fn move_on(&mut self) -> Option<()> {
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

    fn look(&self) -> Sight {
        let gateway = &self.endpoint.gateway;
        let verdict = gateway.watchman().look().verdict;
        let snapshot = gateway.views().now();
        let caller = gateway.identify(&snapshot, &self.who.caller.claim, self.who.caller.client.clone());
        let view = gateway.view(&snapshot, &caller);
        let showcase = gateway.showcase(&snapshot, &view);
        let mut targets = BTreeMap::<_, BTreeSet<Key>>::new();
        for offer in view.offers() {
            if let (Some(server), Some(route)) = (offer.server(), offer.route()) {
                targets.entry(route.target.clone()).or_default().insert(server.clone());
            }
        }
        let fingerprints = Fingerprints {
            tools: view.at(verdict).fingerprint(),
            prompts: fingerprint(&showcase, Exposure::Prompts),
            resources: fingerprint(&showcase, Exposure::Resources),
        };
        let interfaces = snapshot.definitions.interfaces().clone();
        Sight { fingerprints, verdict, showcase, interfaces, targets }
    }

    /// Waits for a change. Cancel-safe.
    pub(super) async fn changed(&mut self) -> Change {
        loop {
            if let Some(change) = self.changes.pop_front() {
                return change;
            }
            if self.announced.is_empty() {
                let sight = self.look();
                let found = self.compare(&sight.fingerprints);
                if !found.is_empty() {
                    self.changes.extend(found);
                    continue;
                }
                self.stir(sight.verdict).await;
            }
            tokio::time::sleep(QUIET).await;
            // Marked before the next comparison, so that later changes are not lost.
            self.mark_seen();
            self.gather();
        }
    }

    /// Waits until something may have changed.
    async fn stir(&mut self, verdict: Verdict) {
        let watchman = self.endpoint.gateway.watchman();
        tokio::select! {
            Ok(()) = self.catalog.changed() => {}
            Ok(()) = self.definitions.changed() => {}
            announced = self.announcements.recv() => self.announced.extend(announced),
            () = watchman.other_than(verdict) => {}
            // No source can change any more.
            else => pending().await,
        }
    }

    /// Collects all announced and detected changes, each once.
    fn gather(&mut self) {
        while let Ok(next) = self.announcements.try_recv() {
            self.announced.push(next);
        }
        let sight = self.look();
        let mut changes = self.compare(&sight.fingerprints);
        let concerning = self.announced.drain(..).filter_map(|news| sight.concerns(&news));
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

impl Sight {
    /// The change that an announcement means for this caller, if any.
    fn concerns(&self, Announcement { server, news }: &Announcement) -> Option<Change> {
        let shown = |what| {
            self.showcase.iter().find(|shown| shown.target == *server && shown.exposes(what))
        };
        match news {
            News::Tools => self.targets.contains_key(server).then_some(Change::Tools),
            News::Prompts => shown(Exposure::Prompts).map(|_| Change::Prompts),
            News::Resources => shown(Exposure::Resources).map(|_| Change::Resources),
            News::Task { id, params } => {
                let servers = self.targets.get(server)?.iter().cloned().collect();
                Some(Change::Task { servers, id: id.clone(), params: params.clone() })
            }
            News::Updated(uri) => {
                let prefix = &shown(Exposure::Resources)?.prefix;
                let known = self.interfaces.known(prefix, uri)?.into_owned();
                Some(Change::Updated(known.into()))
            }
        }
    }
}

fn fingerprint(showcase: &Showcase, what: Exposure) -> u64 {
    let mut hasher = DefaultHasher::new();
    for shown in showcase.iter().filter(|shown| shown.exposes(what)) {
        let features = &shown.features;
        let lists: &[&Entries] = match what {
            Exposure::Prompts => &[features.prompts()],
            Exposure::Resources => &[features.resources(), features.templates()],
        };
        for (name, definition) in lists.iter().flat_map(|list| list.iter()) {
            (name, definition.get()).hash(&mut hasher);
        }
    }
    hasher.finish()
}

//! Events that upstreams send to all clients: changed lists and resources, and the resources that
//! they watch.
//!
//! A changed list is fetched before the event is published, so that clients get the new list.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU8, Ordering},
    },
};

use gateway_protocol::jsonrpc;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::{Notify, broadcast, watch};

use super::{
    routing::TargetId,
    subscriptions::{Subscriptions, Wanted},
};

/// Maximum queued events per subscriber. A subscriber that lags compares its state instead.
const QUEUE: usize = 256;

/// A change at an upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamEvent {
    /// The registered server.
    pub server: TargetId,
    /// The change.
    pub change: UpstreamChange,
}

/// What changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UpstreamChange {
    /// The list of tools.
    Tools,
    /// The list of prompts.
    Prompts,
    /// The list of resources, or that of their templates.
    Resources,
    /// A watched resource, by the upstream's own URI.
    Updated(Arc<str>),
    /// The status of a task of 2025-11-25, under the upstream's own id.
    Task {
        /// The id.
        id: Arc<str>,
        /// The parameters of the notification.
        params: Arc<str>,
    },
}

/// The lists that can change, as bits.
const LISTS: [(u8, &str, UpstreamChange); 3] = [
    (1, "notifications/tools/list_changed", UpstreamChange::Tools),
    (2, "notifications/prompts/list_changed", UpstreamChange::Prompts),
    (4, "notifications/resources/list_changed", UpstreamChange::Resources),
];

/// The channel of the events of all upstreams.
#[derive(Debug, Clone)]
pub(super) struct EventBus(broadcast::Sender<UpstreamEvent>);

impl EventBus {
    pub(super) fn new() -> Self {
        Self(broadcast::channel(QUEUE).0)
    }

    pub(super) fn subscribe(&self) -> broadcast::Receiver<UpstreamEvent> {
        self.0.subscribe()
    }
}

/// Publishes the events of one upstream.
#[derive(Debug)]
pub(super) struct EventPublisher {
    server: TargetId,
    event_bus: EventBus,
    refresh: Notify,
    /// The changed lists that were not fetched yet.
    changed: AtomicU8,
    subscriptions: Arc<Subscriptions>,
    /// The id of the latest `subscriptions/listen` and the resources in it.
    listening: Mutex<Option<(u64, Wanted)>>,
    /// The id of the latest acknowledged one.
    acknowledged: watch::Sender<Option<u64>>,
}

impl EventPublisher {
    pub(super) fn new(
        server: TargetId,
        event_bus: EventBus,
        subscriptions: Arc<Subscriptions>,
    ) -> Self {
        let (refresh, changed, listening, acknowledged) = Default::default();
        Self { server, event_bus, refresh, changed, subscriptions, listening, acknowledged }
    }

    /// Records a `subscriptions/listen` request.
    pub(super) fn listening(&self, id: u64, wanted: &Wanted) {
        let mut listening = self.listening.lock().unwrap_or_else(PoisonError::into_inner);
        *listening = Some((id, wanted.clone()));
    }

    /// Handles the acknowledgement of the watched resources. Acknowledgements of earlier requests
    /// are ignored.
    fn acknowledged(&self, Acknowledged { meta, notifications }: &Acknowledged) {
        let listening = self.listening.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((id, wanted)) = &*listening
            && *id == meta.id
        {
            self.subscriptions.acknowledged(wanted, &notifications.resource_subscriptions);
            self.acknowledged.send_replace(Some(*id));
        }
    }

    /// Resolves when the upstream acknowledges the `subscriptions/listen` with this id.
    pub(super) async fn is_acknowledged(&self, id: u64) {
        // The sender is owned by `self`.
        let _ = self.acknowledged.subscribe().wait_for(|known| *known == Some(id)).await;
    }

    /// Handles a notification. Returns whether it is meant for all clients.
    pub(super) fn hear(&self, method: &str, params: Option<&RawValue>) -> bool {
        if let Some((bit, ..)) = LISTS.iter().find(|(_, name, _)| *name == method) {
            self.changed.fetch_or(*bit, Ordering::SeqCst);
            self.refresh.notify_one();
            return true;
        }
        if method == "notifications/subscriptions/acknowledged" {
            if let Some(acknowledged) = params.and_then(jsonrpc::read_object) {
                self.acknowledged(&acknowledged);
            }
            return true;
        }
        if method == "notifications/tasks/status" {
            if let Some((raw, Status { id })) =
                params.and_then(|raw| Some((raw, jsonrpc::read_object(raw)?)))
            {
                self.announce(UpstreamChange::Task { id: id.into(), params: raw.get().into() });
            }
            return true;
        }
        if method != "notifications/resources/updated" {
            return false;
        }
        if let Some(Updated { uri }) = params.and_then(jsonrpc::read_object) {
            self.announce(UpstreamChange::Updated(uri.into()));
        }
        true
    }

    /// Requests a fetch of the lists.
    pub(super) fn refresh(&self) {
        self.refresh.notify_one();
    }

    /// Resolves when a fetch was requested.
    pub(super) async fn refreshed(&self) {
        self.refresh.notified().await;
    }

    /// The lists that have changed so far, as bits.
    pub(super) fn pending(&self) -> u8 {
        self.changed.swap(0, Ordering::SeqCst)
    }

    /// Publishes the changes after a fetch. After a failed fetch they stay pending.
    pub(super) fn settle(&self, pending: u8, is_fetched: bool) {
        if !is_fetched {
            self.changed.fetch_or(pending, Ordering::SeqCst);
            return;
        }
        for (bit, _, change) in LISTS {
            if pending & bit != 0 {
                self.announce(change);
            }
        }
    }

    fn announce(&self, change: UpstreamChange) {
        // There may be no subscriber.
        let _ = self.event_bus.0.send(UpstreamEvent { server: self.server.clone(), change });
    }
}

#[derive(Deserialize)]
struct Updated {
    uri: String,
}

#[derive(Deserialize)]
struct Status {
    #[serde(rename = "taskId")]
    id: String,
}

#[derive(Deserialize)]
struct Acknowledged {
    #[serde(rename = "_meta")]
    meta: Subscription,
    notifications: Honoured,
}

#[derive(Deserialize)]
struct Subscription {
    #[serde(rename = "io.modelcontextprotocol/subscriptionId")]
    id: u64,
}

#[derive(Deserialize)]
struct Honoured {
    #[serde(rename = "resourceSubscriptions", default)]
    resource_subscriptions: BTreeSet<String>,
}

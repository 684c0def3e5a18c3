//! What upstreams say to everybody: that a list or a resource changed, and of which resources they will
//! say so.
//!
//! A changed list is fetched before anybody is told, so that who asks at once gets the new one.

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

/// Most announcements that wait for one listener; who is further behind compares what it knows.
const QUEUE: usize = 256;

/// Something that changed at an upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Announcement {
    /// The registered server.
    pub server: TargetId,
    /// What changed.
    pub news: News,
}

/// What changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// The list of tools.
    Tools,
    /// The list of prompts.
    Prompts,
    /// The list of resources, or that of their templates.
    Resources,
    /// A resource that somebody subscribed to; the upstream's own URI.
    Updated(Arc<str>),
    /// The status of a task of 2025-11-25, under the upstream's own id.
    Task {
        /// The id.
        id: Arc<str>,
        /// The parameters of the notification.
        params: Arc<str>,
    },
}

/// The lists that may change, as bits.
const LISTS: [(u8, &str, News); 3] = [
    (1, "notifications/tools/list_changed", News::Tools),
    (2, "notifications/prompts/list_changed", News::Prompts),
    (4, "notifications/resources/list_changed", News::Resources),
];

/// Where announcements come together.
#[derive(Debug, Clone)]
pub(super) struct Board(broadcast::Sender<Announcement>);

impl Board {
    pub(super) fn new() -> Self {
        Self(broadcast::channel(QUEUE).0)
    }

    pub(super) fn subscribe(&self) -> broadcast::Receiver<Announcement> {
        self.0.subscribe()
    }
}

/// Announces for one upstream.
#[derive(Debug)]
pub(super) struct Announcer {
    server: TargetId,
    board: Board,
    refresh: Notify,
    /// Lists that were said to have changed and were not fetched since.
    changed: AtomicU8,
    subscriptions: Arc<Subscriptions>,
    /// The latest `subscriptions/listen`: its id, and what it asks for.
    listening: Mutex<Option<(u64, Wanted)>>,
    /// The latest that was acknowledged.
    acknowledged: watch::Sender<Option<u64>>,
}

impl Announcer {
    pub(super) fn new(server: TargetId, board: Board, subscriptions: Arc<Subscriptions>) -> Self {
        let (refresh, changed, listening, acknowledged) = Default::default();
        Self { server, board, refresh, changed, subscriptions, listening, acknowledged }
    }

    /// Notes what is asked for by the `subscriptions/listen` of this id.
    pub(super) fn listening(&self, id: u64, wanted: &Wanted) {
        let mut listening = self.listening.lock().unwrap_or_else(PoisonError::into_inner);
        *listening = Some((id, wanted.clone()));
    }

    /// The upstream says of which resources it will tell. What is said to an earlier request is void.
    fn acknowledged(&self, Acknowledged { meta, notifications }: &Acknowledged) {
        let listening = self.listening.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((id, wanted)) = &*listening
            && *id == meta.id
        {
            self.subscriptions.acknowledged(wanted, &notifications.resource_subscriptions);
            self.acknowledged.send_replace(Some(*id));
        }
    }

    /// Resolves when the upstream has acknowledged the `subscriptions/listen` of this id.
    pub(super) async fn is_acknowledged(&self, id: u64) {
        // The sender lives as long as this does.
        let _ = self.acknowledged.subscribe().wait_for(|known| *known == Some(id)).await;
    }

    /// Takes a notification, and says whether it is one for everybody.
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
                self.announce(News::Task { id: id.into(), params: raw.get().into() });
            }
            return true;
        }
        if method != "notifications/resources/updated" {
            return false;
        }
        if let Some(Updated { uri }) = params.and_then(jsonrpc::read_object) {
            self.announce(News::Updated(uri.into()));
        }
        true
    }

    /// Asks for a fetch of the lists.
    pub(super) fn refresh(&self) {
        self.refresh.notify_one();
    }

    /// Resolves when the lists are to be fetched.
    pub(super) async fn refreshed(&self) {
        self.refresh.notified().await;
    }

    /// What was said to have changed up to now.
    pub(super) fn pending(&self) -> u8 {
        self.changed.swap(0, Ordering::SeqCst)
    }

    /// Tells everybody, once the lists were fetched; after a failure they are to be fetched again.
    pub(super) fn settle(&self, pending: u8, is_fetched: bool) {
        if !is_fetched {
            self.changed.fetch_or(pending, Ordering::SeqCst);
            return;
        }
        for (bit, _, news) in LISTS {
            if pending & bit != 0 {
                self.announce(news);
            }
        }
    }

    fn announce(&self, news: News) {
        // Nobody may be listening.
        let _ = self.board.0.send(Announcement { server: self.server.clone(), news });
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

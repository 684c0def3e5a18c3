//! The watched resources of one upstream, with their watchers and the upstream's responses.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use gateway_policy::{QuotaExceeded, QuotaGuard, QuotaKey, QuotaKind, Quotas};
use gateway_protocol::{jsonrpc, mcp::RpcError};
use tokio::sync::watch;

use super::{error::Error, reply::Reply};

/// Maximum number of watched resources of one upstream.
const MAX_WATCHED: usize = 1_000;
/// How long a watcher waits for the upstream's response. An unreachable upstream gets the
/// subscription later.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

/// The watched resources and their watchers.
#[derive(Debug)]
pub(super) struct Subscriptions {
    watched: Mutex<Watched>,
    quotas: Arc<Quotas>,
    wanted: watch::Sender<Wanted>,
}

type Watched = BTreeMap<Arc<str>, Resource>;

/// A watched resource.
#[derive(Debug, Default)]
struct Resource {
    watchers: HashMap<QuotaKey, Watching>,
    answer: watch::Sender<Option<SubscriptionResult>>,
}

/// The upstream's response to a subscription.
type SubscriptionResult = Result<(), RpcError>;

/// The subscriptions of one caller to one resource; together they take one quota unit.
#[derive(Debug)]
struct Watching {
    count: usize,
    _quota: QuotaGuard,
}

/// A snapshot of the watched resources.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    /// Increments with each change, so that a resource that was rejected and watched again counts
    /// as changed.
    version: u64,
    uris: Arc<[Arc<str>]>,
}

impl Default for Subscriptions {
    fn default() -> Self {
        let (quotas, wanted) =
            (Quotas::new(QuotaKind::Watches, MAX_WATCHED), watch::Sender::default());
        Self { watched: Mutex::default(), quotas, wanted }
    }
}

impl Subscriptions {
    /// Adds a watcher of a resource until the guard is dropped.
    pub(super) fn watch(
        self: &Arc<Self>,
        uri: Arc<str>,
        quota_key: &QuotaKey,
    ) -> Result<Subscription, QuotaExceeded> {
        let mut watched = self.watched();
        let known = watched.get_mut(&uri);
        let is_new = known.is_none();
        if let Some(resource) = known
            && let Some(watching) = resource.watchers.get_mut(quota_key)
        {
            watching.count += 1;
            return Ok(self.subscribed(uri, quota_key, resource));
        }
        if is_new && watched.len() >= MAX_WATCHED {
            return Err(QuotaExceeded::Total { kind: QuotaKind::Watches, limit: MAX_WATCHED });
        }
        let watching = Watching { count: 1, _quota: self.quotas.acquire(quota_key)? };
        let resource = watched.entry(Arc::clone(&uri)).or_default();
        resource.watchers.insert(quota_key.clone(), watching);
        let subscribed = self.subscribed(uri, quota_key, resource);
        if is_new {
            self.publish(&watched);
        }
        Ok(subscribed)
    }

    fn subscribed(
        self: &Arc<Self>,
        uri: Arc<str>,
        quota_key: &QuotaKey,
        resource: &Resource,
    ) -> Subscription {
        let answer = resource.answer.subscribe();
        Subscription { of: Arc::clone(self), uri, quota_key: quota_key.clone(), answer }
    }

    /// Records the upstream's response to the subscription of a resource.
    pub(super) fn answered(&self, uri: &str, reply: Reply) {
        let answer = match reply {
            Reply::Result(_) => Ok(()),
            Reply::Error(error) => Err(error),
        };
        if let Some(resource) = self.watched().get(uri) {
            resource.answer.send_replace(Some(answer));
        }
    }

    /// Records which of the requested resources the upstream acknowledged.
    pub(super) fn acknowledged(&self, wanted: &Wanted, honoured: &BTreeSet<String>) {
        let watched = self.watched();
        for uri in wanted.uris() {
            let Some(resource) = watched.get(uri) else { continue };
            let answer = if honoured.contains(uri) { Ok(()) } else { Err(unacknowledged()) };
            resource.answer.send_replace(Some(answer));
        }
    }

    fn watched(&self) -> MutexGuard<'_, Watched> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn publish(&self, watched: &Watched) {
        self.wanted.send_modify(|wanted| {
            *wanted =
                Wanted { version: wanted.version + 1, uris: watched.keys().cloned().collect() };
        });
    }

    /// The currently watched resources.
    pub(super) fn wanted(&self) -> Wanted {
        self.wanted.borrow().clone()
    }

    /// Resolves when the watched resources differ from these.
    pub(super) async fn other_than(&self, known: &Wanted) {
        let mut wanted = self.wanted.subscribe();
        // The sender is owned by `self`.
        let _ = wanted.wait_for(|wanted| wanted != known).await;
    }
}

fn unacknowledged() -> RpcError {
    let message = "the server does not support subscriptions to this resource".to_owned();
    RpcError { code: jsonrpc::code::INVALID_PARAMS, message, data: None }
}

impl Wanted {
    fn uris(&self) -> impl Iterator<Item = &str> {
        self.uris.iter().map(AsRef::as_ref)
    }

    /// The filter of `subscriptions/listen`.
    pub(super) fn filter(&self) -> String {
        let mut filter =
            br#"{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true"#
                .to_vec();
        for (index, uri) in self.uris().enumerate() {
            filter.extend_from_slice(if index == 0 {
                br#","resourceSubscriptions":["#
            } else {
                b","
            });
            jsonrpc::write_string(&mut filter, uri);
        }
        filter.extend_from_slice(if self.uris.is_empty() { b"}" } else { b"]}" });
        String::from_utf8(filter).expect("the writer only appends text")
    }
}

/// The subscriptions at an upstream with one subscription per resource.
#[derive(Debug, Clone, Default)]
pub(super) struct SentSubscriptions(BTreeSet<Arc<str>>);

/// The subscriptions to add and to remove.
#[derive(Debug)]
pub(super) struct Changes {
    pub(super) new: Vec<Arc<str>>,
    pub(super) over: Vec<Arc<str>>,
}

impl SentSubscriptions {
    /// Returns the changes for the wanted resources and records them as sent.
    pub(super) fn change(&mut self, wanted: &Wanted) -> Changes {
        let wanted: BTreeSet<_> = wanted.uris.iter().cloned().collect();
        let new = wanted.difference(&self.0).cloned().collect();
        let over = self.0.difference(&wanted).cloned().collect();
        self.0 = wanted;
        Changes { new, over }
    }

    /// Records that a subscription was not sent or was rejected.
    pub(super) fn except(&mut self, uri: &str) {
        self.0.remove(uri);
    }
}

/// A subscription to a resource. Dropping it ends the subscription.
#[derive(Debug)]
pub struct Subscription {
    of: Arc<Subscriptions>,
    uri: Arc<str>,
    quota_key: QuotaKey,
    answer: watch::Receiver<Option<SubscriptionResult>>,
}

impl Subscription {
    /// Waits until the upstream has accepted the subscription, or for 5 s.
    pub async fn agreed(mut self) -> Result<Self, Error> {
        let answer = self.answer.wait_for(Option::is_some);
        let refusal = match tokio::time::timeout(RESPONSE_TIMEOUT, answer).await {
            Ok(Ok(answer)) => answer.as_ref().and_then(|answer| answer.as_ref().err()).cloned(),
            _ => None,
        };
        match refusal {
            Some(refusal) => Err(refusal.into()),
            None => Ok(self),
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut watched = self.of.watched();
        let Some(Resource { watchers, .. }) = watched.get_mut(&self.uri) else { return };
        let Some(watching) = watchers.get_mut(&self.quota_key) else { return };
        watching.count -= 1;
        if watching.count == 0 {
            watchers.remove(&self.quota_key);
        }
        if watchers.is_empty() {
            watched.remove(&self.uri);
            self.of.publish(&watched);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resource_is_watched_until_last_watcher_leaves() {
        let all = Arc::new(Subscriptions::default());
        assert!(!all.wanted().filter().contains("resourceSubscriptions"));
        let watch =
            |uri: &str, who: Option<&str>| all.watch(uri.into(), &who.map(Arc::from)).unwrap();
        let (one, two) = (watch("a:\"1", None), [watch("a:\"1", None), watch("a:\"1", Some("x"))]);
        let other = watch("b:2", None);
        drop(one);
        let filter: serde_json::Value = serde_json::from_str(&all.wanted().filter()).unwrap();
        assert_eq!(filter["resourceSubscriptions"], serde_json::json!(["a:\"1", "b:2"]));
        drop((two, other));
        assert_eq!(all.wanted().uris().count(), 0);
    }

    #[test]
    fn watched_resources_are_limited() {
        let all = Arc::new(Subscriptions::default());
        let watch = |uri: &str, who: usize| all.watch(uri.into(), &Some(who.to_string().into()));
        let own = MAX_WATCHED / 4;
        let many: Vec<_> =
            (0..MAX_WATCHED).map(|i| watch(&format!("a:{i}"), i / own).unwrap()).collect();
        let what = QuotaKind::Watches;
        let all_taken = QuotaExceeded::Total { kind: what, limit: MAX_WATCHED };
        assert_eq!(watch("b:1", 9).unwrap_err(), all_taken);
        assert_eq!(
            watch("a:999", 0).unwrap_err(),
            QuotaExceeded::PerCaller { kind: what, limit: own }
        );
        assert!(
            watch("a:7", 9).is_ok() && watch("a:7", 0).is_ok(),
            "the resource is already watched"
        );
        drop(many);
        assert!(watch("b:1", 9).is_ok());
        assert!(all.quotas.acquire(&None).is_ok() && all.watched().is_empty());
    }
}

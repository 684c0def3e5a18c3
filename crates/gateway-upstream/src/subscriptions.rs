//! Which resources of one upstream are of interest to anybody, counted, and what the upstream said
//! to that.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use gateway_policy::{QuotaExceeded, QuotaKey, QuotaKind, QuotaGuard, Quotas};
use gateway_protocol::{jsonrpc, mcp::RpcError};
use tokio::sync::watch;

use super::{error::Error, reply::Reply};

/// Most resources of one upstream that are watched at once.
const MOST: usize = 1_000;
/// How long a watcher waits for what the upstream says to it. One that is out of reach is told later.
const PATIENCE: Duration = Duration::from_secs(5);

/// The resources that are watched, with by whom.
#[derive(Debug)]
pub(super) struct Subscriptions {
    watched: Mutex<Watched>,
    shares: Arc<Quotas>,
    wanted: watch::Sender<Wanted>,
}

type Watched = BTreeMap<Arc<str>, Resource>;

/// One resource that is watched.
#[derive(Debug, Default)]
struct Resource {
    watchers: HashMap<QuotaKey, Watching>,
    answer: watch::Sender<Option<Answer>>,
}

/// What the upstream said to a subscription.
type Answer = Result<(), RpcError>;

/// What one principal has of one resource: how often it watches counts as once.
#[derive(Debug)]
struct Watching {
    count: usize,
    _share: QuotaGuard,
}

/// The resources that are watched at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    /// Counts changes: who comes back after a refusal is not who was there before.
    version: u64,
    uris: Arc<[Arc<str>]>,
}

impl Default for Subscriptions {
    fn default() -> Self {
        let (shares, wanted) = (Quotas::new(QuotaKind::Watches, MOST), watch::Sender::default());
        Self { watched: Mutex::default(), shares, wanted }
    }
}

impl Subscriptions {
    /// Watches a resource for somebody until the guard is dropped.
    pub(super) fn watch(
        self: &Arc<Self>,
        uri: Arc<str>,
        principal: &QuotaKey,
    ) -> Result<Subscribed, QuotaExceeded> {
        let mut watched = self.watched();
        let known = watched.get_mut(&uri);
        let is_new = known.is_none();
        if let Some(resource) = known
            && let Some(watching) = resource.watchers.get_mut(principal)
        {
            watching.count += 1;
            return Ok(self.subscribed(uri, principal, resource));
        }
        if is_new && watched.len() >= MOST {
            return Err(QuotaExceeded::Total { what: QuotaKind::Watches, most: MOST });
        }
        let watching = Watching { count: 1, _share: self.shares.take(principal)? };
        let resource = watched.entry(Arc::clone(&uri)).or_default();
        resource.watchers.insert(principal.clone(), watching);
        let subscribed = self.subscribed(uri, principal, resource);
        if is_new {
            self.publish(&watched);
        }
        Ok(subscribed)
    }

    fn subscribed(
        self: &Arc<Self>,
        uri: Arc<str>,
        principal: &QuotaKey,
        resource: &Resource,
    ) -> Subscribed {
        let answer = resource.answer.subscribe();
        Subscribed { of: Arc::clone(self), uri, principal: principal.clone(), answer }
    }

    /// Notes what the upstream said to the subscription of a resource.
    pub(super) fn answered(&self, uri: &str, reply: Reply) {
        let answer = match reply {
            Reply::Result(_) => Ok(()),
            Reply::Error(error) => Err(error),
        };
        if let Some(resource) = self.watched().get(uri) {
            resource.answer.send_replace(Some(answer));
        }
    }

    /// Notes which of those that it was asked for the upstream has agreed to.
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

    /// What is watched now.
    pub(super) fn wanted(&self) -> Wanted {
        self.wanted.borrow().clone()
    }

    /// Resolves when something else is watched than this.
    pub(super) async fn other_than(&self, known: &Wanted) {
        let mut wanted = self.wanted.subscribe();
        // The sender lives as long as this does.
        let _ = wanted.wait_for(|wanted| wanted != known).await;
    }
}

fn unacknowledged() -> RpcError {
    let message = "the server does not tell of changes of this resource".to_owned();
    RpcError { code: jsonrpc::code::INVALID_PARAMS, message, data: None }
}

impl Wanted {
    fn uris(&self) -> impl Iterator<Item = &str> {
        self.uris.iter().map(AsRef::as_ref)
    }

    /// As `subscriptions/listen` wants it.
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
        String::from_utf8(filter).expect("only text was put in")
    }
}

/// What an upstream with a subscription for each resource was told.
#[derive(Debug, Clone, Default)]
pub(super) struct Told(BTreeSet<Arc<str>>);

/// What it is to be told besides.
#[derive(Debug)]
pub(super) struct Changes {
    pub(super) new: Vec<Arc<str>>,
    pub(super) over: Vec<Arc<str>>,
}

impl Told {
    /// What has to be said for it to know what is wanted. It counts as said.
    pub(super) fn change(&mut self, wanted: &Wanted) -> Changes {
        let wanted: BTreeSet<_> = wanted.uris.iter().cloned().collect();
        let new = wanted.difference(&self.0).cloned().collect();
        let over = self.0.difference(&wanted).cloned().collect();
        self.0 = wanted;
        Changes { new, over }
    }

    /// It was not said, or refused.
    pub(super) fn except(&mut self, uri: &str) {
        self.0.remove(uri);
    }
}

/// Watches a resource for as long as it lives.
#[derive(Debug)]
pub struct Subscribed {
    of: Arc<Subscriptions>,
    uri: Arc<str>,
    principal: QuotaKey,
    answer: watch::Receiver<Option<Answer>>,
}

impl Subscribed {
    /// The same once the upstream has agreed, or has not said anything for long.
    pub async fn agreed(mut self) -> Result<Self, Error> {
        let answer = self.answer.wait_for(Option::is_some);
        let refusal = match tokio::time::timeout(PATIENCE, answer).await {
            Ok(Ok(answer)) => answer.as_ref().and_then(|answer| answer.as_ref().err()).cloned(),
            _ => None,
        };
        match refusal {
            Some(refusal) => Err(refusal.into()),
            None => Ok(self),
        }
    }
}

impl Drop for Subscribed {
    fn drop(&mut self) {
        let mut watched = self.of.watched();
        let Some(Resource { watchers, .. }) = watched.get_mut(&self.uri) else { return };
        let Some(watching) = watchers.get_mut(&self.principal) else { return };
        watching.count -= 1;
        if watching.count == 0 {
            watchers.remove(&self.principal);
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
    fn a_resource_is_watched_as_long_as_anybody_does() {
        let all = Arc::new(Subscriptions::default());
        assert!(!all.wanted().filter().contains("resourceSubscriptions"));
        let watch = |uri: &str, who: Option<&str>| all.watch(uri.into(), &who.map(Arc::from)).unwrap();
        let (one, two) = (watch("a:\"1", None), [watch("a:\"1", None), watch("a:\"1", Some("x"))]);
        let other = watch("b:2", None);
        drop(one);
        let filter: serde_json::Value = serde_json::from_str(&all.wanted().filter()).unwrap();
        assert_eq!(filter["resourceSubscriptions"], serde_json::json!(["a:\"1", "b:2"]));
        drop((two, other));
        assert_eq!(all.wanted().uris().count(), 0);
    }

    #[test]
    fn nobody_watches_without_end() {
        let all = Arc::new(Subscriptions::default());
        let watch = |uri: &str, who: usize| all.watch(uri.into(), &Some(who.to_string().into()));
        let own = MOST / 4;
        let many: Vec<_> = (0..MOST).map(|i| watch(&format!("a:{i}"), i / own).unwrap()).collect();
        let what = QuotaKind::Watches;
        let all_taken = QuotaExceeded::Total { what, most: MOST };
        assert_eq!(watch("b:1", 9).unwrap_err(), all_taken);
        assert_eq!(watch("a:999", 0).unwrap_err(), QuotaExceeded::PerCaller { what, most: own });
        assert!(watch("a:7", 9).is_ok() && watch("a:7", 0).is_ok(), "it is watched already");
        drop(many);
        assert!(watch("b:1", 9).is_ok());
        assert!(all.shares.take(&None).is_ok() && all.watched().is_empty());
    }
}

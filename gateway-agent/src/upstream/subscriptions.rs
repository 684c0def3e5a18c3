//! Which resources of one upstream are of interest to anybody, counted.
//!
//! Deliberately absent: telling the upstream (its link does), and whom an update concerns.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::watch;

use crate::{
    jsonrpc,
    shares::{Exhausted, Principal, Scarce, Share, Shares},
};

/// Most resources of one upstream that are watched at once.
const MOST: usize = 1_000;

/// The resources that are watched, with by whom.
#[derive(Debug)]
pub(super) struct Subscriptions {
    watched: Mutex<Watched>,
    shares: Arc<Shares>,
    wanted: watch::Sender<Wanted>,
}

type Watched = BTreeMap<Arc<str>, HashMap<Principal, Watching>>;

/// What one principal has of one resource: how often it watches counts as once.
#[derive(Debug)]
struct Watching {
    count: usize,
    _share: Share,
}

/// The resources that are watched at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Wanted(Arc<[Arc<str>]>);

impl Default for Subscriptions {
    fn default() -> Self {
        let (shares, wanted) = (Shares::quarters(Scarce::Watches, MOST), watch::Sender::default());
        Self { watched: Mutex::default(), shares, wanted }
    }
}

impl Subscriptions {
    /// Watches a resource for somebody until the guard is dropped.
    pub(super) fn watch(
        self: &Arc<Self>,
        uri: &str,
        principal: &Principal,
    ) -> Result<Subscribed, Exhausted> {
        let mut watched = self.watched();
        let watchers = watched.get_mut(uri);
        let subscribed =
            |uri| Subscribed { of: Arc::clone(self), uri, principal: principal.clone() };
        let is_new = watchers.is_none();
        if let Some(watching) = watchers.and_then(|watchers| watchers.get_mut(principal)) {
            watching.count += 1;
            return Ok(subscribed(uri.into()));
        }
        if is_new && watched.len() >= MOST {
            return Err(Exhausted::All { what: Scarce::Watches, most: MOST });
        }
        let watching = Watching { count: 1, _share: self.shares.take(principal)? };
        let uri: Arc<str> = uri.into();
        watched.entry(Arc::clone(&uri)).or_default().insert(principal.clone(), watching);
        if is_new {
            self.publish(&watched);
        }
        Ok(subscribed(uri))
    }

    fn watched(&self) -> MutexGuard<'_, Watched> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn publish(&self, watched: &Watched) {
        self.wanted.send_replace(Wanted(watched.keys().cloned().collect()));
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

impl Wanted {
    pub(super) fn uris(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(AsRef::as_ref)
    }

    /// What is watched now and was not.
    pub(super) fn without<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = &'a str> {
        self.uris().filter(|uri| other.uris().all(|known| known != *uri))
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
        filter.extend_from_slice(if self.0.is_empty() { b"}" } else { b"]}" });
        String::from_utf8(filter).expect("only text was put in")
    }
}

/// Watches a resource for as long as it lives.
#[derive(Debug)]
pub struct Subscribed {
    of: Arc<Subscriptions>,
    uri: Arc<str>,
    principal: Principal,
}

impl Drop for Subscribed {
    fn drop(&mut self) {
        let mut watched = self.of.watched();
        let Some(watchers) = watched.get_mut(&self.uri) else { return };
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
        let watch = |uri, who: Option<&str>| all.watch(uri, &who.map(Arc::from)).unwrap();
        let (one, two) = (watch("a:\"1", None), [watch("a:\"1", None), watch("a:\"1", Some("x"))]);
        let other = watch("b:2", None);
        drop(one);
        let filter: serde_json::Value = serde_json::from_str(&all.wanted().filter()).unwrap();
        assert_eq!(filter["resourceSubscriptions"], serde_json::json!(["a:\"1", "b:2"]));
        drop((two, other));
        assert_eq!(all.wanted(), Wanted::default());
    }

    #[test]
    fn nobody_watches_without_end() {
        let all = Arc::new(Subscriptions::default());
        let watch = |uri: &str, who: usize| all.watch(uri, &Some(who.to_string().into()));
        let own = MOST / 4;
        let many: Vec<_> = (0..MOST).map(|i| watch(&format!("a:{i}"), i / own).unwrap()).collect();
        let what = Scarce::Watches;
        let all_taken = Exhausted::All { what, most: MOST };
        assert_eq!(watch("b:1", 9).unwrap_err(), all_taken);
        assert_eq!(watch("a:999", 0).unwrap_err(), Exhausted::Own { what, most: own });
        assert!(watch("a:7", 9).is_ok() && watch("a:7", 0).is_ok(), "it is watched already");
        drop(many);
        assert!(watch("b:1", 9).is_ok());
        assert!(all.shares.take(&None).is_ok() && all.watched().is_empty());
    }
}

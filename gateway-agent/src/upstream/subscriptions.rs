//! Which resources of one upstream are of interest to anybody, counted.
//!
//! Deliberately absent: telling the upstream (its link does), and whom an update concerns.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::watch;

use crate::jsonrpc;

/// Most resources of one upstream that are watched at once.
const MOST: usize = 1_000;

/// The resources that are watched, with how often.
#[derive(Debug)]
pub(super) struct Subscriptions {
    counts: Mutex<BTreeMap<Arc<str>, usize>>,
    wanted: watch::Sender<Wanted>,
}

/// The resources that are watched at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Wanted(Arc<[Arc<str>]>);

impl Default for Subscriptions {
    fn default() -> Self {
        Self { counts: Mutex::default(), wanted: watch::Sender::new(Wanted::default()) }
    }
}

/// More resources of one upstream are watched than are allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{MOST} resources of this server are watched already, no more are allowed")]
pub struct TooMany;

impl Subscriptions {
    /// Watches a resource until the guard is dropped.
    pub(super) fn watch(self: &Arc<Self>, uri: &str) -> Result<Subscribed, TooMany> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.len() >= MOST && !counts.contains_key(uri) {
            return Err(TooMany);
        }
        let uri: Arc<str> = uri.into();
        let count = counts.entry(Arc::clone(&uri)).or_default();
        *count += 1;
        if *count == 1 {
            self.publish(&counts);
        }
        Ok(Subscribed { of: Arc::clone(self), uri })
    }

    fn publish(&self, counts: &BTreeMap<Arc<str>, usize>) {
        self.wanted.send_replace(Wanted(counts.keys().cloned().collect()));
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
}

impl Drop for Subscribed {
    fn drop(&mut self) {
        let mut counts = self.of.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(count) = counts.get_mut(&self.uri) else { return };
        *count -= 1;
        if *count == 0 {
            counts.remove(&self.uri);
            self.of.publish(&counts);
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
        let (one, two) = (all.watch("a:\"1").unwrap(), all.watch("a:\"1").unwrap());
        let other = all.watch("b:2").unwrap();
        drop(one);
        let filter: serde_json::Value = serde_json::from_str(&all.wanted().filter()).unwrap();
        assert_eq!(filter["resourceSubscriptions"], serde_json::json!(["a:\"1", "b:2"]));
        drop((two, other));
        assert_eq!(all.wanted(), Wanted::default());
    }

    #[test]
    fn nobody_watches_without_end() {
        let all = Arc::new(Subscriptions::default());
        let many: Vec<_> = (0..MOST).map(|i| all.watch(&format!("a:{i}")).unwrap()).collect();
        assert_eq!(all.watch("b:1").unwrap_err(), TooMany);
        assert!(all.watch("a:7").is_ok());
        drop(many);
        assert!(all.watch("b:1").is_ok());
    }
}

//! Pages of the log that several followers need at the same time: read once for all of them.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, Weak},
    time::Duration,
};

use registry_core::{ChainHash, Revision};
use tokio::{sync::OnceCell, time::timeout};

use super::{Delta, Feed, Shared, roster::lock};
use crate::store;

/// How many commits are read at once.
const PAGE: usize = 64;
/// How long reading may take before it is given up.
const PATIENCE: Duration = Duration::from_secs(10);

/// The pages that somebody is told, by the place before them.
#[derive(Default)]
pub(super) struct Pages(Mutex<BTreeMap<Revision, Weak<Page>>>);

/// The commits after a place, or why they could not be read.
pub(super) type Page = OnceCell<Commits>;
type Commits = Result<Vec<Arc<Shared<Delta>>>, store::Error>;

impl Pages {
    /// The page after a revision of our history.
    pub(super) fn after(&self, revision: Revision) -> Arc<Page> {
        let mut pages = lock(&self.0);
        if let Some(page) = pages.get(&revision).and_then(Weak::upgrade) {
            return page;
        }
        pages.retain(|_, page| page.strong_count() > 0);
        let page = Arc::new(Page::new());
        pages.insert(revision, Arc::downgrade(&page));
        page
    }
}

/// Reads a page, in turn with others.
pub(super) async fn read(feed: &Feed, place: (Revision, ChainHash)) -> Commits {
    let _turn = feed.admission.log.take().await;
    let read = timeout(PATIENCE, feed.store.commits_after(place, PAGE)).await;
    let commits = read.unwrap_or_else(|_| {
        let database = format!("of registry {}", feed.store.registry());
        let detail = format!("no commits within {} seconds", PATIENCE.as_secs());
        Err(store::Error::Unavailable { database, detail })
    });
    let shared = |commit| Shared::new(Delta { commit, attestation: None });
    match commits {
        Ok(commits) => Ok(commits.into_iter().map(shared).collect()),
        Err(error) => {
            tracing::warn!(%error, "the log cannot be read, so followers get a snapshot");
            Err(error)
        }
    }
}

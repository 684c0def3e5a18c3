//! Pages of the log, read once for all followers that need them.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, Weak},
    time::Duration,
};

use registry_core::{ChainHash, Revision};
use tokio::{sync::OnceCell, time::timeout};

use super::{Delta, Feed, SharedMessage, sessions::lock};
use crate::store;

/// Commits in one page.
const PAGE: usize = 64;
/// Timeout of reading a page.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// Pages in use, by the revision before them.
#[derive(Default)]
pub(super) struct Pages(Mutex<BTreeMap<Revision, Weak<Page>>>);

/// Commits of a page, or the failure to read them.
pub(super) type Page = OnceCell<Commits>;
type Commits = Result<Vec<Arc<SharedMessage<Delta>>>, store::Error>;

impl Pages {
    /// Returns the page after a revision.
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

/// Reads a page, with a permit of the log stage.
pub(super) async fn read(feed: &Feed, position: (Revision, ChainHash)) -> Commits {
    let _permit = feed.stages.log.acquire().await;
    let read = timeout(READ_TIMEOUT, feed.store.commits_after(position, PAGE)).await;
    let commits = read.unwrap_or_else(|_| {
        let database = format!("of registry {}", feed.store.registry());
        let detail = format!("timed out after {} seconds reading commits", READ_TIMEOUT.as_secs());
        Err(store::Error::Unavailable { database, detail })
    });
    let shared = |commit| SharedMessage::new(Delta { commit, attestation: None });
    match commits {
        Ok(commits) => Ok(commits.into_iter().map(shared).collect()),
        Err(error) => {
            tracing::warn!(%error, "cannot read the log; sending snapshots to followers");
            Err(error)
        }
    }
}

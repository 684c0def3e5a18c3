//! Search: an index that follows the catalog, and pages of results.
//!
//! A search finds every commit that was made before the request, because it waits for the index. Further
//! pages are read from the index of the first page, so they neither repeat nor skip results.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use registry_core::{Catalog, PointInTime, Revision};
use registry_search::{Cursor, Hit, Index, Query, Total};
use tokio::{
    sync::{Notify, watch},
    task::{JoinError, spawn_blocking},
    time::{sleep, timeout},
};

use super::{
    Catalogs, ReadError,
    page::{self, PageRequest},
    run_blocking,
};
use crate::{feed::Hub, metrics};

/// The longest wait for the index to reach the revision of the catalog.
const PATIENCE: Duration = Duration::from_secs(5);
/// The delay between a commit and its indexing, unless a search waits or the next large commit is appended. Commits
/// in quick succession are indexed together.
const DELAY: Duration = Duration::from_millis(20);
/// The delay after which a failed build of the index is retried.
const AGAIN: Duration = Duration::from_secs(30);
/// The number of indexes that are cached for further pages.
const KEPT: usize = 16;

/// Searches the current index and those of earlier pages.
pub struct Searcher {
    latest: watch::Receiver<Option<Arc<Index>>>,
    /// Whether the last attempt to build it failed.
    failed: watch::Receiver<bool>,
    /// Ends the delay of indexing.
    wanted: Arc<Notify>,
    /// The indexes of searches with further pages, the most recently used first.
    paged: Mutex<VecDeque<Arc<Index>>>,
}

/// A page of results.
#[derive(Debug)]
pub struct Searched {
    /// The best match first.
    pub hits: Vec<Hit>,
    /// The number of results on all pages.
    pub total: Total,
    /// The token of the next page; empty on the last page.
    pub next_page_token: String,
    /// The index that was searched.
    pub index: Arc<Index>,
}

/// How a query is answered.
#[derive(Debug, Clone)]
pub struct Options {
    /// The point in history; `None` is the present.
    pub at: Option<PointInTime>,
    /// The page.
    pub page: PageRequest,
    /// Includes the canonical documents in addition to the entities.
    pub with_documents: bool,
}

impl Searcher {
    /// Starts to index published commits. Indexing ends when the searcher is dropped.
    pub fn start(hub: Arc<Hub>) -> Self {
        let (sender, latest) = watch::channel(None);
        let (failing, failed) = watch::channel(false);
        let head = hub.watch();
        let work = Work { build: Index::build, advance: Index::advance };
        let wanted = hub.index_delay_end();
        let results = (sender, failing);
        tokio::spawn(follow(move || hub.catalog(), head, work, results, wanted.clone()));
        Self { latest, failed, wanted, paged: Mutex::default() }
    }

    /// Searches the catalog at a point in history.
    pub async fn search(
        &self,
        catalogs: &Catalogs,
        query: Query,
        options: Options,
    ) -> Result<Searched, ReadError> {
        let Options { at, page, with_documents } = options;
        let from = page.cursor(PageToken::read)?;
        let at = from.as_ref().map(|from| PointInTime::Revision(from.revision)).or(at);
        let index = self.index_at(catalogs, at).await?;
        let revision = index.revision();
        let (searched, place) = (index.clone(), from.as_ref().map(|from| from.place));
        let size = page.size;
        let mut found = run_blocking(move || searched.search(&query, place, size)).await?;
        let total = from.map_or(found.total, |from| from.total);
        let room = fitting(&found.hits, with_documents);
        if room < found.hits.len() {
            found.hits.truncate(room);
            found.next = found.hits.last().map(|last| last.place);
        }
        let next = found.next.map(|place| PageToken { revision, total, place });
        if next.is_some() {
            self.keep(&index);
        }
        let next_page_token = next.map(|from| page.token_after(&from.write())).unwrap_or_default();
        Ok(Searched { hits: found.hits, total, next_page_token, index })
    }

    /// The index at a point in history: a cached one, or the latest one without later changes.
    async fn index_at(
        &self,
        catalogs: &Catalogs,
        at: Option<PointInTime>,
    ) -> Result<Arc<Index>, ReadError> {
        if let Some(PointInTime::Revision(revision)) = at
            && let Some(kept) = self.kept(revision)
        {
            return Ok(kept);
        }
        let catalog = catalogs.at(at).await?;
        let latest = self.at_least(catalog.revision()).await?;
        if at.is_none() || latest.revision() <= catalog.revision() {
            return Ok(latest);
        }
        let index = run_blocking(move || Arc::new(latest.rewind_to(&catalog))).await?;
        self.keep(&index);
        Ok(index)
    }

    /// The revision of the current index; `None` while it is built.
    pub fn revision(&self) -> Option<Revision> {
        self.latest.borrow().as_ref().map(|index| index.revision())
    }

    /// The reason why searches use an older revision.
    pub fn problem(&self) -> Option<String> {
        let stays = match self.revision() {
            Some(revision) => format!("stays at revision {revision}"),
            None => "is missing".to_owned(),
        };
        let is_failing = *self.failed.borrow();
        is_failing.then(|| format!("the search index {stays}: building it fails, see the log"))
    }

    /// An index at this revision or a later one. After a timeout, the latest one.
    async fn at_least(&self, revision: Revision) -> Result<Arc<Index>, ReadError> {
        let mut latest = self.latest.clone();
        let is_there = |index: &Option<Arc<Index>>| {
            index.as_ref().is_some_and(|index| index.revision() >= revision)
        };
        if !is_there(&latest.borrow()) {
            self.wanted.notify_one();
        }
        // The response contains the revision of the index.
        let _ = timeout(PATIENCE, latest.wait_for(is_there)).await;
        let index = latest.borrow().clone();
        index.ok_or(ReadError::IndexNotReady)
    }

    fn keep(&self, index: &Arc<Index>) {
        let mut paged = self.paged.lock().unwrap_or_else(PoisonError::into_inner);
        paged.retain(|kept| kept.revision() != index.revision());
        paged.push_front(index.clone());
        paged.truncate(KEPT);
    }

    fn kept(&self, revision: Revision) -> Option<Arc<Index>> {
        let paged = self.paged.lock().unwrap_or_else(PoisonError::into_inner);
        paged.iter().find(|index| index.revision() == revision).cloned()
    }
}

/// The functions that build and update an index.
#[derive(Clone, Copy)]
struct Work {
    build: fn(&Catalog) -> Index,
    advance: fn(&mut Index, &Catalog),
}

impl Work {
    /// The index of a catalog, updated from the last one if there is one. An index that cannot be updated is
    /// rebuilt.
    async fn index(
        self,
        last: Option<Arc<Index>>,
        catalog: Arc<Catalog>,
    ) -> Result<Index, JoinError> {
        if let Some(last) = last {
            let catalog = catalog.clone();
            let advancing = spawn_blocking(move || {
                let mut index = Index::clone(&last);
                (self.advance)(&mut index, &catalog);
                index
            });
            match advancing.await {
                Ok(index) => return Ok(index),
                Err(error) => note(&error, "the search index could not be updated; it is rebuilt"),
            }
        }
        let built = spawn_blocking(move || (self.build)(&catalog)).await;
        built.inspect_err(|error| note(error, "the search index could not be built"))
    }
}

fn note(error: &JoinError, message: &str) {
    metrics::index_failed();
    tracing::error!(%error, "{message}");
}

/// Updates the index outside of the async runtime and without delaying writes. Commits that arrive meanwhile
/// are indexed together.
async fn follow(
    catalog: impl Fn() -> Arc<Catalog>,
    mut head: watch::Receiver<Revision>,
    work: Work,
    (sender, failing): (watch::Sender<Option<Arc<Index>>>, watch::Sender<bool>),
    wanted: Arc<Notify>,
) {
    loop {
        head.mark_unchanged();
        let last = sender.borrow().clone();
        let began = Instant::now();
        let index = work.index(last, catalog()).await;
        failing.send_replace(index.is_err());
        if let Ok(index) = index {
            metrics::indexed(index.revision(), began.elapsed(), index.size());
            sender.send_replace(Some(Arc::new(index)));
        }
        let is_failing = *failing.borrow();
        tokio::select! {
            changed = head.changed() => if changed.is_err() { return },
            () = sleep(AGAIN), if is_failing => {}
            () = sender.closed() => return,
        }
        tokio::select! {
            () = sleep(DELAY) => {}
            () = wanted.notified() => {}
            () = sender.closed() => return,
        }
    }
}

/// The number of hits that fit into a message, at least one.
fn fitting(hits: &[Hit], with_documents: bool) -> usize {
    let mut bytes = 0;
    let fits = |hit: &&Hit| {
        let copies = if with_documents { 2 } else { 1 };
        let shown: usize = hit.highlights.iter().map(|highlight| highlight.text.len()).sum();
        bytes += copies * hit.record.document.bytes().len() + shown;
        bytes <= page::PAGE_BYTES
    };
    hits.iter().take_while(fits).count().max(1)
}

/// The cursor of a further page: its revision, the total of the first page, and the last result.
struct PageToken {
    revision: Revision,
    total: Total,
    place: Cursor,
}

impl PageToken {
    fn write(&self) -> String {
        let Self { revision, total, place: Cursor { score, doc } } = self;
        let (count, more) = match total {
            Total::Exactly(count) => (count, ""),
            Total::AtLeast(count) => (count, "+"),
        };
        format!("{revision} {score} {doc} {count}{more}")
    }

    fn read(text: &str) -> Option<Self> {
        let parts: Vec<_> = text.split(' ').collect();
        let [revision, score, doc, total] = parts.as_slice() else { return None };
        let total = match total.strip_suffix('+') {
            Some(count) => Total::AtLeast(count.parse().ok()?),
            None => Total::Exactly(total.parse().ok()?),
        };
        let place = Cursor { score: score.parse().ok()?, doc: doc.parse().ok()? };
        Some(Self { revision: Revision(revision.parse().ok()?), total, place })
    }
}

#[cfg(test)]
mod tests {
    use registry_core::{Commit, RegistryId, SealedCommit};

    use super::*;
    use crate::feed::testing::hub_of;

    fn after(catalog: &Catalog) -> Catalog {
        let commit = Commit { revision: catalog.revision().next(), ..Commit::default() };
        let sealed = SealedCommit::seal(&catalog.chain(), commit, Vec::new()).unwrap();
        let mut next = catalog.clone();
        next.apply(&sealed).unwrap();
        next
    }

    /// Whether the index has this revision.
    fn at(wanted: Revision) -> impl Fn(&Option<Arc<Index>>) -> bool {
        move |index| index.as_ref().is_some_and(|index| index.revision() == wanted)
    }

    #[tokio::test(start_paused = true)]
    async fn panicking_update_rebuilds_the_search_index() {
        let first = Catalog::empty(RegistryId::new("r"));
        let second = after(&first);
        let (current, catalog) = watch::channel(Arc::new(first));
        let (moved, head) = watch::channel(Revision(0));
        let (sender, mut latest) = watch::channel(None);
        let (failing, failed) = watch::channel(false);
        let work = Work { build: Index::build, advance: |_, _| panic!("a defect") };
        let served = move || catalog.borrow().clone();
        tokio::spawn(follow(served, head, work, (sender, failing), Arc::default()));
        latest.wait_for(at(Revision(0))).await.unwrap();
        current.send_replace(Arc::new(second));
        moved.send_replace(Revision(1));
        let rebuilt = timeout(AGAIN * 10, latest.wait_for(at(Revision(1)))).await;
        assert!(rebuilt.is_ok_and(|index| index.is_ok()), "it stays stale");
        assert!(!*failed.borrow());
    }

    #[tokio::test(start_paused = true)]
    async fn signal_of_hub_ends_delay_of_index() {
        for is_signaled in [true, false] {
            let hub = Arc::new(hub_of(Catalog::empty(RegistryId::new("r"))));
            let mut latest = Searcher::start(hub.clone()).latest;
            latest.wait_for(Option::is_some).await.unwrap();
            let published = tokio::time::Instant::now();
            hub.publish(after(&hub.catalog()), Vec::new());
            // The task starts the delay.
            tokio::task::yield_now().await;
            if is_signaled {
                hub.end_index_delay();
            }
            latest.wait_for(at(Revision(1))).await.unwrap();
            assert_eq!(published.elapsed() < DELAY, is_signaled);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn failing_build_is_reported_and_retried() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        static BUILDS: AtomicUsize = AtomicUsize::new(0);
        let build = |catalog: &Catalog| {
            assert!(BUILDS.fetch_add(1, Ordering::SeqCst) > 0, "a defect");
            Index::build(catalog)
        };
        let catalog = Arc::new(Catalog::empty(RegistryId::new("r")));
        let (_moved, head) = watch::channel(Revision(0));
        let (sender, latest) = watch::channel(None);
        let (failing, failed) = watch::channel(false);
        let work = Work { build, advance: Index::advance };
        let wanted = Arc::new(Notify::new());
        let results = (sender, failing);
        tokio::spawn(follow(move || catalog.clone(), head, work, results, wanted.clone()));
        let mut searcher = Searcher { latest, failed, wanted, paged: Mutex::default() };
        let failed = timeout(AGAIN, searcher.failed.wait_for(|failed| *failed)).await;
        assert!(failed.is_ok_and(|failed| failed.is_ok()), "it is not reported");
        assert!(searcher.problem().is_some());
        searcher.failed.wait_for(|failed| !*failed).await.unwrap();
        assert_eq!(searcher.problem(), None);
    }
}

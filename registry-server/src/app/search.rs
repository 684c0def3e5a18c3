//! Search: an index that follows the catalog beside the writer, and the pages that it gives.
//!
//! What was committed before a request is found by it: a search waits for the index, which is
//! usually there already. Further pages are read from the index that gave the first one, so that
//! they neither repeat nor skip while the registry goes on. Deliberately absent: matching and
//! ranking, which are `registry_core::search`.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use registry_core::{
    At, Revision,
    search::{Hit, Index, Place, Query, Total},
};
use tokio::{sync::watch, time::timeout};

use super::{
    App, at, beside,
    page::{self, InvalidPage},
};
use crate::{feed::Hub, metrics};

/// How long a search waits for the index to be where the catalog is.
const PATIENCE: Duration = Duration::from_secs(5);
/// How many indexes are kept for further pages.
const KEPT: usize = 16;

/// Where the current index is found.
pub struct Searcher {
    latest: watch::Receiver<Option<Arc<Index>>>,
    /// Those that have given a page that is not the last one, the latest first.
    paged: Mutex<VecDeque<Arc<Index>>>,
}

/// Results of a page.
#[derive(Debug)]
pub struct Searched {
    /// The best first.
    pub hits: Vec<Hit>,
    /// How many there are on all pages.
    pub total: Total,
    /// Where to go on; empty at the end.
    pub next_page_token: String,
    /// What was searched.
    pub index: Arc<Index>,
}

/// A page that is wanted.
#[derive(Debug, Clone, Copy)]
pub struct PageWanted<'a> {
    /// As it was then.
    pub at: Option<At>,
    /// Most results.
    pub size: usize,
    /// Where to go on; empty: at the beginning.
    pub token: &'a str,
    /// Whether the canonical documents are wanted beside the entities.
    pub with_documents: bool,
}

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The page cannot be.
    #[error(transparent)]
    Page(#[from] InvalidPage),
    /// The past.
    #[error(transparent)]
    Past(#[from] at::Error),
    /// The server has just started.
    #[error("the search index is still being built; try again")]
    NotReady,
    /// A bug here.
    #[error("searching failed: {0}")]
    Internal(String),
}

impl Searcher {
    /// Starts to index what the hub publishes; ends when nobody can search any more.
    pub fn start(hub: Arc<Hub>) -> Self {
        let (sender, latest) = watch::channel(None);
        tokio::spawn(follow(hub, sender));
        Self { latest, paged: Mutex::default() }
    }

    /// An index that is at least at this revision, if there is one soon; else the latest.
    async fn at_least(&self, revision: Revision) -> Result<Arc<Index>, Error> {
        let mut latest = self.latest.clone();
        let is_there = |index: &Option<Arc<Index>>| {
            index.as_ref().is_some_and(|index| index.revision() >= revision)
        };
        // An index that is behind is still worth an answer, which says its revision.
        let _ = timeout(PATIENCE, latest.wait_for(is_there)).await;
        let index = latest.borrow().clone();
        index.ok_or(Error::NotReady)
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

/// Keeps the index where the catalog is, beside the runtime and off the way of writes: commits that
/// come meanwhile are taken together.
async fn follow(hub: Arc<Hub>, sender: watch::Sender<Option<Arc<Index>>>) {
    let mut head = hub.watch();
    loop {
        head.mark_unchanged();
        let catalog = hub.catalog();
        let last = sender.borrow().clone();
        let began = Instant::now();
        let indexing = tokio::task::spawn_blocking(move || match last {
            Some(last) => {
                let mut index = Index::clone(&last);
                index.advance(&catalog);
                index
            }
            None => Index::build(&catalog),
        });
        match indexing.await {
            Ok(index) => {
                metrics::indexed(began.elapsed(), index.size());
                sender.send_replace(Some(Arc::new(index)));
            }
            // A runtime that is going down refuses; then nobody reads this either.
            Err(error) => tracing::error!(%error, "the search index could not be brought up"),
        }
        tokio::select! {
            changed = head.changed() => if changed.is_err() { return },
            () = sender.closed() => return,
        }
    }
}

/// Searches.
pub async fn search(app: &App, query: Query, wanted: PageWanted<'_>) -> Result<Searched, Error> {
    let PageWanted { at, size, token, with_documents } = wanted;
    let mark = format!("search {query:?} {at:?}");
    let from = page::cursor(&mark, token, Cursor::read)?;
    let at = from.as_ref().map(|from| At::Revision(from.revision)).or(at);
    let index = index_at(app, at).await?;
    let revision = index.revision();
    let (searched, place) = (index.clone(), from.as_ref().map(|from| from.place));
    let searching = move || searched.search(&query, place, size);
    let mut found = beside(searching, Error::Internal).await?;
    let total = from.map_or(found.total, |from| from.total);
    let room = fitting(&found.hits, with_documents);
    if room < found.hits.len() {
        found.hits.truncate(room);
        found.next = found.hits.last().map(|last| last.place);
    }
    let next = found.next.map(|place| Cursor { revision, total, place });
    if next.is_some() {
        app.search.keep(&index);
    }
    let next_page_token = next.map(|from| page::token(&mark, &from.write())).unwrap_or_default();
    Ok(Searched { hits: found.hits, total, next_page_token, index })
}

/// The index of a point in history: kept, or the latest one without what came later.
async fn index_at(app: &App, at: Option<At>) -> Result<Arc<Index>, Error> {
    if let Some(At::Revision(revision)) = at
        && let Some(kept) = app.search.kept(revision)
    {
        return Ok(kept);
    }
    let catalog = app.catalog_at(at).await?;
    let latest = app.search.at_least(catalog.revision()).await?;
    if at.is_none() || latest.revision() <= catalog.revision() {
        return Ok(latest);
    }
    let index = beside(move || Arc::new(latest.rewound(&catalog)), Error::Internal).await?;
    app.search.keep(&index);
    Ok(index)
}

/// How many of the first hits fit into a message; at least one.
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

/// Where a further page begins: in which revision, how many results its first page told of, and
/// after which place.
struct Cursor {
    revision: Revision,
    total: Total,
    place: Place,
}

impl Cursor {
    fn write(&self) -> String {
        let Self { revision, total, place: Place { score, doc } } = self;
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
        let place = Place { score: score.parse().ok()?, doc: doc.parse().ok()? };
        Some(Self { revision: Revision(revision.parse().ok()?), total, place })
    }
}

//! The hub: the current catalog for readers, the recent commits and the head for followers.

use std::sync::{Arc, Mutex as SyncMutex, PoisonError, RwLock};

use arc_swap::ArcSwap;
use registry_core::{Catalog, ChainHash, Record, Revision, SealedCommit, Timestamp};
use tokio::sync::{Mutex, Notify, watch};

use super::{
    Delta, FeedConfig, Shared, Voucher,
    recent::{Limits, Next, Recent},
    roster::lock,
    snapshot::Snapshot,
};
use crate::store::{self, Store};

/// How far a shared snapshot may be behind before a new one is taken.
const FRESH: u64 = 1_000;
/// How many commits are read back into memory at the start, and how many at once.
const RECALLED: u64 = 256;
const PAGE: usize = 64;

/// Where the writer publishes, and readers and followers look.
pub struct Hub {
    catalog: ArcSwap<Catalog>,
    recent: RwLock<Recent>,
    head: watch::Sender<Revision>,
    refresh: Notify,
    snapshot: Mutex<Option<Arc<Snapshot>>>,
    keep_deltas: u64,
    voucher: Voucher,
    changed: SyncMutex<Option<Changed>>,
}

/// What changed between two revisions; `None`: they do not share a history.
struct Changed {
    between: (Revision, Revision),
    records: Option<Arc<[Arc<Record>]>>,
}

/// When a revision was no longer the head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passed {
    /// When the next one was made.
    At(Timestamp),
    /// The next one is no longer in memory.
    Earlier,
    /// It still is the head, or yet to come.
    Not,
}

impl Hub {
    /// A hub at the state that the store had at the start.
    pub fn new(catalog: Catalog, config: &FeedConfig, voucher: Voucher) -> Self {
        let limits = Limits { commits: config.recent_commits, bytes: config.recent_bytes };
        let recent = Recent::new((catalog.revision(), catalog.chain()), limits);
        let (head, _) = watch::channel(catalog.revision());
        Self {
            catalog: ArcSwap::from_pointee(voucher.vouch(catalog)),
            recent: RwLock::new(recent),
            head,
            refresh: Notify::new(),
            snapshot: Mutex::new(None),
            keep_deltas: config.keep_deltas,
            voucher,
            changed: SyncMutex::default(),
        }
    }

    /// Reads the latest commits back into memory, for those who followed before a restart.
    pub async fn recall(&self, store: &Store) -> Result<(), store::Error> {
        let head = self.catalog();
        let first = Revision(head.revision().0.saturating_sub(RECALLED));
        let chain = match store.commit(first).await? {
            Some(commit) => commit.chain,
            None => ChainHash::genesis(head.registry()),
        };
        let mut place = (first, chain);
        let mut commits = Vec::new();
        while place.0 < head.revision() {
            let page = store.commits_after(place, PAGE).await?;
            let Some(last) = page.last() else { break };
            place = (last.revision(), last.chain());
            // Another server may have gone on meanwhile.
            commits.extend(page.into_iter().filter(|it| it.revision() <= head.revision()));
        }
        let mut recent = self.recent.write().unwrap_or_else(PoisonError::into_inner);
        recent.recall((first, chain), commits);
        Ok(())
    }

    /// The current catalog.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.catalog.load_full()
    }

    /// Makes commits visible: first to readers, then to followers.
    pub(crate) fn publish(&self, catalog: Catalog, commits: Vec<SealedCommit>) {
        let catalog = self.voucher.vouch(catalog);
        let head = catalog.revision();
        {
            let mut recent = self.recent.write().unwrap_or_else(PoisonError::into_inner);
            for commit in commits {
                let attestation = catalog.attestation().filter(|_| commit.revision() == head);
                recent.push(Shared::new(Delta { attestation: attestation.copied(), commit }));
            }
        }
        self.catalog.store(Arc::new(catalog));
        self.head.send_replace(head);
    }

    /// The current catalog, with a signature that is not old.
    pub(super) fn vouched(&self) -> Arc<Catalog> {
        let catalog = self.catalog();
        if self.voucher.is_fresh(&catalog) {
            return catalog;
        }
        let vouched = Arc::new(self.voucher.vouch((*catalog).clone()));
        // What was published meanwhile stays.
        self.catalog.compare_and_swap(&catalog, vouched.clone());
        vouched
    }

    /// Takes the registry's newer signature on the current state, in a relay; followers hear of it at
    /// once, so that what they know is no older than what the relay knows.
    pub(crate) fn renew(&self, catalog: Catalog) {
        let now = self.catalog();
        if (now.revision(), now.chain()) == (catalog.revision(), catalog.chain()) {
            self.catalog.compare_and_swap(&now, Arc::new(catalog));
            self.head.send_modify(|_same| {});
        }
    }

    /// Forgets the recent commits: those that are published next do not follow on them.
    pub(crate) fn leap(&self, place: (Revision, ChainHash)) {
        let mut recent = self.recent.write().unwrap_or_else(PoisonError::into_inner);
        recent.recall(place, Vec::new());
    }

    /// What changed from one catalog to another; the scopes, which all go the same way, share it.
    pub(super) fn changed_since(
        &self,
        earlier: &Catalog,
        later: &Catalog,
    ) -> Option<Arc<[Arc<Record>]>> {
        let between = (earlier.revision(), later.revision());
        let mut changed = lock(&self.changed);
        match &*changed {
            Some(known) if known.between == between => known.records.clone(),
            _ => {
                let records: Option<Arc<[_]>> = later.changed_since(earlier).map(Into::into);
                changed.insert(Changed { between, records }).records.clone()
            }
        }
    }

    /// What signs states.
    pub(super) fn voucher(&self) -> &Voucher {
        &self.voucher
    }

    /// Requests that the writer reads commits of other servers now.
    pub(crate) fn request_refresh(&self) {
        self.refresh.notify_one();
    }

    /// Waits for the next request of [`Hub::request_refresh`]. An earlier one that nothing has
    /// waited for counts.
    pub(crate) async fn refresh_requested(&self) {
        self.refresh.notified().await;
    }

    /// Follows the head.
    pub(crate) fn watch(&self) -> watch::Receiver<Revision> {
        self.head.subscribe()
    }

    /// The commit after a revision, as far as it is in memory.
    pub(super) fn after(&self, revision: Revision) -> Next {
        self.recent.read().unwrap_or_else(PoisonError::into_inner).after(revision)
    }

    /// When the commit after a revision was made.
    pub fn passed(&self, revision: Revision) -> Passed {
        match self.after(revision) {
            Next::Commit(delta) => Passed::At(delta.commit.commit().committed_at),
            Next::Older => Passed::Earlier,
            Next::Nothing => Passed::Not,
        }
    }

    /// The revision before the oldest commit in memory.
    pub(super) fn begins_after(&self) -> Revision {
        self.recent.read().unwrap_or_else(PoisonError::into_inner).begins_after()
    }

    /// When the oldest commit in memory was made.
    pub fn oldest(&self) -> Option<Timestamp> {
        self.recent.read().unwrap_or_else(PoisonError::into_inner).oldest()
    }

    /// The chain hash after a revision, as far as it is in memory.
    pub(crate) fn chain_at(&self, revision: Revision) -> Option<ChainHash> {
        self.recent.read().unwrap_or_else(PoisonError::into_inner).chain_at(revision)
    }

    /// A snapshot that the recent commits continue, of this revision or a later one. Followers that
    /// come at the same time share it.
    pub(super) async fn snapshot(&self, earliest: Revision) -> Arc<Snapshot> {
        let mut cached = self.snapshot.lock().await;
        let now = self.catalog();
        let head = now.revision();
        if let Some(snapshot) = &*cached
            && (snapshot.is_attested() || now.attestation().is_none())
            && snapshot.revision() >= earliest
            && head.0.saturating_sub(snapshot.revision().0) <= self.keep_deltas.min(FRESH)
            && !matches!(self.after(snapshot.revision()), Next::Older)
        {
            return snapshot.clone();
        }
        let snapshot = Arc::new(Snapshot::of(now).await);
        *cached = Some(snapshot.clone());
        snapshot
    }
}

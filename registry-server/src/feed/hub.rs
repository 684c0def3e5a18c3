//! The current catalog for readers, and the recent commits and the head for followers.

use std::sync::{
    Arc, Mutex as SyncMutex, PoisonError, RwLock,
    atomic::{AtomicU64, Ordering},
};

use arc_swap::ArcSwap;
use registry_core::{Catalog, ChainHash, Record, Revision, SealedCommit, Timestamp};
use tokio::sync::{Mutex, Notify, watch};

use super::{
    Delta, FeedConfig, SharedMessage, StateSigner,
    recent::{Limits, Next, RecentCommits},
    sessions::lock,
    snapshot::Snapshot,
};
use crate::store::{self, Store};

/// Maximum age of a shared snapshot, in revisions.
const MAX_SNAPSHOT_LAG: u64 = 1_000;
/// Commits loaded into memory at startup.
const LOADED_COMMITS: u64 = 256;
const PAGE: usize = 64;

/// Connects the writer with readers and followers.
pub struct Hub {
    catalog: ArcSwap<Catalog>,
    recent: RwLock<RecentCommits>,
    head: watch::Sender<Revision>,
    refresh: Notify,
    index_delay_end: Arc<Notify>,
    /// Latest revision of the requests to read the log since the last one was taken.
    requested: AtomicU64,
    snapshot: Mutex<Option<Arc<Snapshot>>>,
    retain_revisions: u64,
    signer: StateSigner,
    changed: SyncMutex<Option<Changed>>,
}

/// Records that changed between two revisions; `None` if the revisions have no common history.
struct Changed {
    between: (Revision, Revision),
    records: Option<Arc<[Arc<Record>]>>,
}

/// When a later commit superseded a revision as the head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Superseded {
    /// Commit time of the next revision.
    At(Timestamp),
    /// Unknown: the next revision is no longer in memory.
    Unknown,
    /// The revision is the head or in the future.
    NotYet,
}

impl Hub {
    /// Creates a hub with the catalog loaded at startup.
    pub fn new(catalog: Catalog, config: &FeedConfig, signer: StateSigner) -> Self {
        let limits = Limits { commits: config.recent_commits, bytes: config.recent_bytes };
        let recent = RecentCommits::new((catalog.revision(), catalog.chain()), limits);
        let (head, _) = watch::channel(catalog.revision());
        Self {
            catalog: ArcSwap::from_pointee(signer.sign(catalog)),
            recent: RwLock::new(recent),
            head,
            refresh: Notify::new(),
            index_delay_end: Arc::default(),
            requested: AtomicU64::new(0),
            snapshot: Mutex::new(None),
            retain_revisions: config.retain_revisions,
            signer,
            changed: SyncMutex::default(),
        }
    }

    /// Loads recent commits into memory, for followers that reconnect after a restart.
    pub async fn load_recent(&self, store: &Store) -> Result<(), store::Error> {
        let head = self.catalog();
        let first = Revision(head.revision().0.saturating_sub(LOADED_COMMITS));
        let chain = match store.commit(first).await? {
            Some(commit) => commit.chain,
            None => ChainHash::genesis(head.registry()),
        };
        let mut position = (first, chain);
        let mut commits = Vec::new();
        while position.0 < head.revision() {
            let page = store.commits_after(position, PAGE).await?;
            let Some(last) = page.last() else { break };
            position = (last.revision(), last.chain());
            // Another server may have committed since.
            commits.extend(page.into_iter().filter(|it| it.revision() <= head.revision()));
        }
        let mut recent = self.recent.write().unwrap_or_else(PoisonError::into_inner);
        recent.reset((first, chain), commits);
        Ok(())
    }

    /// Ends the delay before published commits are indexed.
    pub(crate) fn end_index_delay(&self) {
        self.index_delay_end.notify_waiters();
    }

    /// Notified when the delay of indexing ends.
    pub(crate) fn index_delay_end(&self) -> Arc<Notify> {
        self.index_delay_end.clone()
    }

    /// Current catalog.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.catalog.load_full()
    }

    /// Publishes commits, to readers first and to followers second.
    pub(crate) fn publish(&self, catalog: Catalog, commits: Vec<SealedCommit>) {
        let catalog = self.signer.sign(catalog);
        let head = catalog.revision();
        {
            let mut recent = self.recent.write().unwrap_or_else(PoisonError::into_inner);
            for commit in commits {
                let attestation = catalog.attestation().filter(|_| commit.revision() == head);
                recent
                    .push(SharedMessage::new(Delta { attestation: attestation.copied(), commit }));
            }
        }
        self.catalog.store(Arc::new(catalog));
        self.head.send_replace(head);
    }

    /// Current catalog with a recent signature.
    pub(super) fn signed_catalog(&self) -> Arc<Catalog> {
        let catalog = self.catalog();
        if self.signer.is_fresh(&catalog) {
            return catalog;
        }
        let signed_catalog = Arc::new(self.signer.sign((*catalog).clone()));
        // A newer catalog is not replaced.
        self.catalog.compare_and_swap(&catalog, signed_catalog.clone());
        signed_catalog
    }

    /// Replaces the signature of the current state in a relay and notifies followers.
    pub(crate) fn renew(&self, catalog: Catalog) {
        let now = self.catalog();
        if (now.revision(), now.chain()) == (catalog.revision(), catalog.chain()) {
            self.catalog.compare_and_swap(&now, Arc::new(catalog));
            self.head.send_modify(|_same| {});
        }
    }

    /// Clears the recent commits, because the next published commits do not follow them.
    pub(crate) fn skip_to(&self, position: (Revision, ChainHash)) {
        let mut recent = self.recent.write().unwrap_or_else(PoisonError::into_inner);
        recent.reset(position, Vec::new());
    }

    /// Records changed between two catalogs. The result is cached for all scopes.
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

    /// Signer of states.
    pub(super) fn signer(&self) -> &StateSigner {
        &self.signer
    }

    /// Asks the writer to read commits of other servers up to a revision. `None`: up to an unknown one.
    pub(crate) fn request_refresh(&self, until: Option<Revision>) {
        self.requested.fetch_max(until.map_or(u64::MAX, |until| until.0), Ordering::AcqRel);
        self.refresh.notify_one();
    }

    /// Waits for a request to read a revision that this server does not serve. A request before the wait counts.
    ///
    /// The database also notifies of the commits of this server, which the writer serves before it waits.
    pub(crate) async fn refresh_requested(&self) {
        loop {
            self.refresh.notified().await;
            let until = Revision(self.requested.swap(0, Ordering::AcqRel));
            if until > self.catalog.load().revision() {
                return;
            }
        }
    }

    /// Watches the head revision.
    pub(crate) fn watch(&self) -> watch::Receiver<Revision> {
        self.head.subscribe()
    }

    /// Commit after a revision, if in memory.
    pub(super) fn after(&self, revision: Revision) -> Next {
        self.recent.read().unwrap_or_else(PoisonError::into_inner).after(revision)
    }

    /// When a later commit superseded a revision as the head.
    pub fn superseded(&self, revision: Revision) -> Superseded {
        match self.after(revision) {
            Next::Commit(delta) => Superseded::At(delta.commit.commit().committed_at),
            Next::Older => Superseded::Unknown,
            Next::Nothing => Superseded::NotYet,
        }
    }

    /// Revision before the oldest commit in memory.
    pub(super) fn ring_start(&self) -> Revision {
        self.recent.read().unwrap_or_else(PoisonError::into_inner).ring_start()
    }

    /// Time of the oldest commit in memory.
    pub fn oldest_commit_time(&self) -> Option<Timestamp> {
        self.recent.read().unwrap_or_else(PoisonError::into_inner).oldest()
    }

    /// Chain hash of a revision, if in memory.
    pub(crate) fn chain_at(&self, revision: Revision) -> Option<ChainHash> {
        self.recent.read().unwrap_or_else(PoisonError::into_inner).chain_at(revision)
    }

    /// A snapshot of this revision or a later one. The commits after it are in memory. Concurrent followers
    /// share it.
    pub(super) async fn snapshot(&self, earliest: Revision) -> Arc<Snapshot> {
        let mut cached = self.snapshot.lock().await;
        let now = self.catalog();
        let head = now.revision();
        if let Some(snapshot) = &*cached
            && (snapshot.is_attested() || now.attestation().is_none())
            && snapshot.revision() >= earliest
            && head.0.saturating_sub(snapshot.revision().0)
                <= self.retain_revisions.min(MAX_SNAPSHOT_LAG)
            && !matches!(self.after(snapshot.revision()), Next::Older)
        {
            return snapshot.clone();
        }
        let snapshot = Arc::new(Snapshot::take(now).await);
        *cached = Some(snapshot.clone());
        snapshot
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::time::Duration;

    use aws_lc_rs::signature::Ed25519KeyPair;
    use registry_core::RegistryId;
    use tokio::time::timeout;

    use super::*;
    use crate::{clock::SystemClock, flags::testing::defaults};

    pub(in crate::feed) fn hub(revision: Revision) -> Hub {
        let registry = RegistryId::new("r");
        let chain = ChainHash::genesis(&registry);
        hub_of(Catalog::empty(registry).at(revision, chain))
    }

    pub(crate) fn hub_of(catalog: Catalog) -> Hub {
        let config = defaults();
        let pair = Ed25519KeyPair::from_seed_unchecked(&[1; 32]).unwrap();
        Hub::new(catalog, &config, StateSigner::Key(Arc::new(pair), Arc::new(SystemClock)))
    }

    /// Without this, each commit of this server would cause a read of the log, because the database notifies of it.
    #[tokio::test(start_paused = true)]
    async fn refresh_is_requested_only_for_unserved_revisions() {
        let hub = hub(Revision(2));
        for (requests, is_requested) in [
            (&[Some(1), Some(2)][..], false),
            (&[Some(3)], true),
            (&[Some(3), Some(1)], true),
            (&[None, Some(2)], true),
            (&[Some(2)], false),
        ] {
            for until in requests {
                hub.request_refresh(until.map(Revision));
            }
            let waited = timeout(Duration::from_secs(1), hub.refresh_requested()).await;
            assert_eq!(waited.is_ok(), is_requested, "{requests:?}");
        }
    }
}

//! The current catalog, its age, and its verified copy on disk.
//!
//! The source replaces the catalog atomically; readers keep the catalog that they hold. The disk
//! follows within a second and always contains a valid past state.

mod disk;
mod writer;

use std::{
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use arc_swap::ArcSwapOption;
use registry_core::{Catalog, RegistryId, Revision, SealedCommit};
use tokio::sync::watch;

pub use disk::CacheError;
pub use writer::Writer;

use crate::catalog_verifier::CatalogVerifier;
use disk::Disk;

/// Maximum size of commits that wait for the disk, in bytes. Beyond it, the whole catalog is
/// written instead.
const PENDING_BYTES: usize = 32 * 1024 * 1024;

/// The current catalog. Clones share it.
#[derive(Debug, Clone)]
pub struct Cache {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    catalog: watch::Sender<Arc<Catalog>>,
    persisted: watch::Sender<Revision>,
    disk: watch::Sender<DiskState>,
    pending: Mutex<Pending>,
    /// Read by each call. A lock would be shared by the calls of all workers.
    confirmed: ArcSwapOption<Confirmed>,
}

/// The state of the copy on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiskState {
    /// Writable.
    Ok,
    /// Not writable, with the reason.
    Failing(String),
    /// No copy is configured.
    None,
}

/// The changes that are not on disk.
#[derive(Debug, Default)]
struct Pending {
    commits: Vec<SealedCommit>,
    bytes: usize,
    needs_rewrite: bool,
    /// Whether an earlier batch is being written.
    is_writing: bool,
}

impl Pending {
    fn push(&mut self, commit: SealedCommit) {
        if self.needs_rewrite {
            return;
        }
        let documents: usize = commit.documents().iter().map(|d| d.bytes().len()).sum();
        self.bytes += commit.bytes().len() + documents;
        self.commits.push(commit);
        if self.bytes > PENDING_BYTES {
            self.request_rewrite();
        }
    }

    fn request_rewrite(&mut self) {
        *self = Self { needs_rewrite: true, is_writing: self.is_writing, ..Self::default() };
    }

    /// Whether all changes are on disk or being written.
    fn is_empty(&self) -> bool {
        !self.needs_rewrite && self.commits.is_empty()
    }
}

/// When the registry last confirmed the catalog.
#[derive(Debug, Clone, Copy)]
struct Confirmed {
    at: Instant,
    before: Duration,
}

impl Confirmed {
    fn age(self) -> Duration {
        self.at.elapsed() + self.before
    }
}

/// A batch for the disk: the catalog, and its new commits if they suffice.
#[derive(Debug)]
struct Batch {
    catalog: Arc<Catalog>,
    confirmed: Option<Confirmed>,
    commits: Option<Vec<SealedCommit>>,
}

impl Cache {
    /// Creates a cache without a copy on disk.
    pub fn in_memory(catalog: Option<Catalog>) -> Self {
        let catalog = catalog.unwrap_or_else(|| Catalog::empty(RegistryId::new("")));
        let (catalog, _) = watch::channel(Arc::new(catalog));
        let (persisted, _) = watch::channel(Revision(0));
        let (disk, _) = watch::channel(DiskState::None);
        let (pending, confirmed) = (Mutex::default(), ArcSwapOption::empty());
        Self { shared: Arc::new(Shared { catalog, persisted, disk, pending, confirmed }) }
    }

    /// Reads a copy that verifies and passes the startup checks, without a lock.
    pub(crate) fn read(path: &Path, catalog_verifier: &CatalogVerifier) -> Option<Catalog> {
        Disk::read(path, |catalog| catalog_verifier.verify(catalog))
    }

    /// Opens a copy that verifies and passes the startup checks. The writer must run to update the
    /// disk.
    pub fn open(
        path: &Path,
        catalog_verifier: impl Into<CatalogVerifier>,
    ) -> Result<(Self, Writer), CacheError> {
        let catalog_verifier = catalog_verifier.into();
        let (disk, loaded) = Disk::open(path, |catalog| catalog_verifier.verify(catalog))?;
        let age = disk.age();
        let cache = Self::in_memory(loaded);
        cache.set_disk_state(DiskState::Ok);
        if cache.has_catalog() {
            cache.shared.persisted.send_replace(cache.current().revision());
            let confirmed = age.map(|before| Confirmed { at: Instant::now(), before });
            cache.shared.confirmed.store(confirmed.map(Arc::new));
        }
        let writer = Writer::new(cache.clone(), disk);
        Ok((cache, writer))
    }

    /// The newest verified catalog.
    pub fn current(&self) -> Arc<Catalog> {
        self.shared.catalog.borrow().clone()
    }

    /// Notifies of each new catalog.
    pub fn subscribe(&self) -> watch::Receiver<Arc<Catalog>> {
        self.shared.catalog.subscribe()
    }

    /// Whether a catalog was loaded. It can be empty.
    pub fn has_catalog(&self) -> bool {
        !self.current().registry().as_str().is_empty()
    }

    /// Replaces the whole catalog.
    pub fn replace(&self, catalog: Catalog) {
        let mut pending = lock(&self.shared.pending);
        pending.request_rewrite();
        self.shared.catalog.send_replace(Arc::new(catalog));
    }

    /// Advances the revision without changed content. The disk can keep the earlier revision: a
    /// gateway that resumes with the same content does not receive it again.
    pub fn move_to(&self, catalog: Catalog) {
        let pending = lock(&self.shared.pending);
        let revision = catalog.revision();
        self.shared.catalog.send_replace(Arc::new(catalog));
        if pending.is_empty() && !pending.is_writing {
            self.shared.persisted.send_replace(revision);
        }
    }

    /// Replaces the catalog by its successor after some commits.
    pub fn advance(&self, catalog: Catalog, commits: impl IntoIterator<Item = SealedCommit>) {
        let mut pending = lock(&self.shared.pending);
        commits.into_iter().for_each(|commit| pending.push(commit));
        self.shared.catalog.send_replace(Arc::new(catalog));
    }

    /// Records that the catalog was the registry's latest `before` ago, unless a later time is
    /// known.
    pub fn confirm(&self, before: Duration) {
        self.shared.confirmed.rcu(|known| match known {
            Some(known) if known.age() <= before => Some(Arc::clone(known)),
            _ => Some(Arc::new(Confirmed { at: Instant::now(), before })),
        });
    }

    fn confirmed(&self) -> Option<Confirmed> {
        self.shared.confirmed.load().as_deref().copied()
    }

    /// Time since the registry last confirmed the catalog. Survives restarts as the modification
    /// time of the files.
    pub fn age(&self) -> Option<Duration> {
        self.confirmed().map(Confirmed::age)
    }

    /// When the state on disk was last confirmed. `None` while changes are not on disk.
    fn confirmed_on_disk(&self) -> Option<Confirmed> {
        // Read first: a later confirmation can cover a state that is not on disk.
        let confirmed = self.confirmed();
        let pending = lock(&self.shared.pending);
        confirmed.filter(|_| pending.is_empty() && !pending.is_writing)
    }

    /// The revision on disk.
    pub fn persisted(&self) -> watch::Receiver<Revision> {
        self.shared.persisted.subscribe()
    }

    /// The state of the copy on disk.
    pub fn disk(&self) -> watch::Receiver<DiskState> {
        self.shared.disk.subscribe()
    }

    /// Takes all changes that are not on disk.
    fn take_batch(&self) -> Option<Batch> {
        let mut pending = lock(&self.shared.pending);
        if pending.is_empty() {
            return None;
        }
        let taken =
            std::mem::replace(&mut *pending, Pending { is_writing: true, ..Pending::default() });
        let commits = (!taken.needs_rewrite).then_some(taken.commits);
        let confirmed = self.confirmed();
        Some(Batch { catalog: self.current(), confirmed, commits })
    }

    /// Requests a write of the whole catalog after a failed write.
    fn request_rewrite(&self) {
        *lock(&self.shared.pending) = Pending { needs_rewrite: true, ..Pending::default() };
    }

    /// Records a successful write.
    fn set_persisted(&self, revision: Revision) {
        let mut pending = lock(&self.shared.pending);
        pending.is_writing = false;
        // Without further changes, the current revision has the written content.
        let persisted = if pending.is_empty() { self.current().revision() } else { revision };
        self.shared.persisted.send_replace(persisted);
    }

    fn set_disk_state(&self, state: DiskState) {
        self.shared.disk.send_if_modified(|now| {
            let is_new = *now != state;
            *now = state;
            is_new
        });
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! What the gateway knows of the registry: the current catalog, how old that knowledge is, and the
//! verified copy of it on disk.
//!
//! A source puts catalogs in, everybody else reads; a swap is atomic, and whoever holds a catalog
//! keeps it. The disk follows within a second and may lag, but it always holds a true past state.

mod disk;
mod journal;
mod writer;

use std::{
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use registry_core::{Catalog, RegistryId, Revision, SealedCommit};
use tokio::sync::watch;

pub use disk::CacheError;
pub use writer::Writer;

use crate::admission::Admission;
use disk::Disk;

/// Most bytes of commits that wait for the disk; past that the whole catalog is written instead.
const PENDING_BYTES: usize = 32 * 1024 * 1024;

/// The current catalog; clones share it.
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
    confirmed: Mutex<Option<Confirmed>>,
}

/// How the copy on disk is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiskState {
    /// It is written.
    Ok,
    /// It cannot be written, and why.
    Failing(String),
    /// There is none.
    None,
}

/// What the disk does not have yet.
#[derive(Debug, Default)]
struct Pending {
    commits: Vec<SealedCommit>,
    bytes: usize,
    is_whole: bool,
    /// Whether the disk is getting what was taken before.
    is_writing: bool,
}

impl Pending {
    fn push(&mut self, commit: SealedCommit) {
        if self.is_whole {
            return;
        }
        let documents: usize = commit.documents().iter().map(|d| d.bytes().len()).sum();
        self.bytes += commit.bytes().len() + documents;
        self.commits.push(commit);
        if self.bytes > PENDING_BYTES {
            self.want_whole();
        }
    }

    fn want_whole(&mut self) {
        *self = Self { is_whole: true, is_writing: self.is_writing, ..Self::default() };
    }

    /// Whether the disk has, or is getting, all that there is.
    fn is_empty(&self) -> bool {
        !self.is_whole && self.commits.is_empty()
    }
}

/// When the catalog was last known to be the registry's latest.
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

/// A batch for the disk: the catalog, and the commits that lead to it if there are only those.
#[derive(Debug)]
struct Batch {
    catalog: Arc<Catalog>,
    confirmed: Option<Confirmed>,
    commits: Option<Vec<SealedCommit>>,
}

impl Cache {
    /// A cache without a disk, that begins with this catalog or with nothing.
    pub fn in_memory(catalog: Option<Catalog>) -> Self {
        let catalog = catalog.unwrap_or_else(|| Catalog::empty(RegistryId::new("")));
        let (catalog, _) = watch::channel(Arc::new(catalog));
        let (persisted, _) = watch::channel(Revision(0));
        let (disk, _) = watch::channel(DiskState::None);
        let (pending, confirmed) = (Mutex::default(), Mutex::default());
        Self { shared: Arc::new(Shared { catalog, persisted, disk, pending, confirmed }) }
    }

    /// The catalog of the copy at this path, if one verifies and passes the startup checks. Nothing
    /// is locked or written.
    pub(crate) fn read(path: &Path, admission: &Admission) -> Option<Catalog> {
        Disk::read(path, |catalog| admission.admit(catalog))
    }

    /// Takes the copy at this path, if one verifies and passes the startup checks. The writer must
    /// be run for the disk to follow.
    pub fn open(
        path: &Path,
        admission: impl Into<Admission>,
    ) -> Result<(Self, Writer), CacheError> {
        let admission = admission.into();
        let (disk, loaded) = Disk::open(path, |catalog| admission.admit(catalog))?;
        let age = disk.age();
        let cache = Self::in_memory(loaded);
        cache.note_disk(DiskState::Ok);
        if cache.has_catalog() {
            cache.shared.persisted.send_replace(cache.current().revision());
            *lock(&cache.shared.confirmed) =
                age.map(|before| Confirmed { at: Instant::now(), before });
        }
        let writer = Writer::new(cache.clone(), disk);
        Ok((cache, writer))
    }

    /// The catalog now.
    pub fn current(&self) -> Arc<Catalog> {
        self.shared.catalog.borrow().clone()
    }

    /// The catalog now and whenever it changes.
    pub fn subscribe(&self) -> watch::Receiver<Arc<Catalog>> {
        self.shared.catalog.subscribe()
    }

    /// Whether there is a catalog at all; an empty registry's catalog is one.
    pub fn has_catalog(&self) -> bool {
        !self.current().registry().as_str().is_empty()
    }

    /// Swaps in another catalog as a whole.
    pub fn replace(&self, catalog: Catalog) {
        let mut pending = lock(&self.shared.pending);
        pending.want_whole();
        self.shared.catalog.send_replace(Arc::new(catalog));
    }

    /// Swaps in the same content at a later revision. The disk may keep the earlier one: whoever
    /// comes back with that content is not sent it again.
    pub fn move_to(&self, catalog: Catalog) {
        let pending = lock(&self.shared.pending);
        let revision = catalog.revision();
        self.shared.catalog.send_replace(Arc::new(catalog));
        if pending.is_empty() && !pending.is_writing {
            self.shared.persisted.send_replace(revision);
        }
    }

    /// Swaps in the catalog that follows from the current one by these commits.
    pub fn advance(&self, catalog: Catalog, commits: impl IntoIterator<Item = SealedCommit>) {
        let mut pending = lock(&self.shared.pending);
        commits.into_iter().for_each(|commit| pending.push(commit));
        self.shared.catalog.send_replace(Arc::new(catalog));
    }

    /// Notes that the catalog was the registry's latest so long ago, unless more is known already.
    pub fn confirm(&self, before: Duration) {
        let mut confirmed = lock(&self.shared.confirmed);
        if confirmed.is_none_or(|confirmed| before < confirmed.age()) {
            *confirmed = Some(Confirmed { at: Instant::now(), before });
        }
    }

    /// How long ago the catalog was known to be the registry's latest, also before a restart: the
    /// files on disk have that time as theirs.
    pub fn age(&self) -> Option<Duration> {
        let confirmed = *lock(&self.shared.confirmed);
        confirmed.map(Confirmed::age)
    }

    /// When what is on disk was last known to be the latest; `None` while something is to be written.
    fn confirmed_on_disk(&self) -> Option<Confirmed> {
        // Read first: what comes after it is not on disk.
        let confirmed = *lock(&self.shared.confirmed);
        let pending = lock(&self.shared.pending);
        confirmed.filter(|_| pending.is_empty() && !pending.is_writing)
    }

    /// The revision on disk, now and whenever it changes.
    pub fn persisted(&self) -> watch::Receiver<Revision> {
        self.shared.persisted.subscribe()
    }

    /// How the copy on disk is, now and whenever that changes.
    pub fn disk(&self) -> watch::Receiver<DiskState> {
        self.shared.disk.subscribe()
    }

    /// Everything that the disk does not have yet; `None` if it has all.
    fn take_batch(&self) -> Option<Batch> {
        let mut pending = lock(&self.shared.pending);
        if pending.is_empty() {
            return None;
        }
        let taken =
            std::mem::replace(&mut *pending, Pending { is_writing: true, ..Pending::default() });
        let commits = (!taken.is_whole).then_some(taken.commits);
        let confirmed = *lock(&self.shared.confirmed);
        Some(Batch { catalog: self.current(), confirmed, commits })
    }

    /// Has the whole catalog written next, after a write that failed.
    fn want_whole(&self) {
        *lock(&self.shared.pending) = Pending { is_whole: true, ..Pending::default() };
    }

    /// Notes that the disk has what was taken, of this revision.
    fn note_persisted(&self, revision: Revision) {
        let mut pending = lock(&self.shared.pending);
        pending.is_writing = false;
        // If nothing else came, only the revision is another one.
        let persisted = if pending.is_empty() { self.current().revision() } else { revision };
        self.shared.persisted.send_replace(persisted);
    }

    fn note_disk(&self, state: DiskState) {
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

//! The copy on disk: a snapshot, its predecessor, and a journal of later commits.
//!
//! `PATH` is an export of the registry (`registry-v2.json`), `PATH.previous` its predecessor,
//! `PATH.log` the journal of a large snapshot, and `PATH.lock` excludes other gateways. Everything
//! is verified before use.

use std::{
    fs::{self, File, TryLockError},
    io::{self, Write as _},
    path::{Path, PathBuf},
    time::Duration,
};

use atomic_file::{Access, parent_directory, sync_directory, with_suffix, write_synced};
use bytes::Bytes;
use registry_core::{
    Catalog, RegistryId, Revision, SealedCommit,
    registry_file::{InvalidExport, journal, read_export, write_export},
};

use super::{Batch, Confirmed};
use crate::{
    catalog_verifier::CatalogRejected,
    files::{link_as, remove},
};

/// Maximum file size, in bytes.
const FILE_BYTES: u64 = 2 * 1024 * 1024 * 1024;
/// Minimum size of a snapshot with a journal, in bytes.
const JOURNAL_FROM_BYTES: u64 = 1024 * 1024;

/// Why the copy on disk cannot be opened or written.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// Another gateway has locked the cache.
    #[error(
        "the cache {} is in use by another gateway; set another `registry.cache`, or another `--data` with `--mcp-servers`",
        .0.display()
    )]
    Locked(PathBuf),
    /// The file system reported an error.
    #[error("cannot {attempt} {}: {source}", .path.display())]
    Io {
        /// The failed operation.
        attempt: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

fn failed(attempt: &'static str, path: &Path) -> impl FnOnce(io::Error) -> CacheError {
    let path = path.to_owned();
    move |source| CacheError::Io { attempt, path, source }
}

/// Why a file of the copy is not used.
#[derive(Debug, thiserror::Error)]
enum InvalidCacheFile {
    #[error("cannot read the file: {0}")]
    Io(#[from] io::Error),
    #[error("the file has {0} bytes; the maximum is {FILE_BYTES}")]
    TooLarge(u64),
    #[error(transparent)]
    Invalid(Box<InvalidExport>),
    #[error("{0}")]
    Refused(CatalogRejected),
}

/// The state of the files.
#[derive(Debug)]
struct WrittenState {
    registry: RegistryId,
    revision: Revision,
    snapshot_bytes: u64,
    /// The journal's length. `None` if it must not be extended.
    journal_bytes: Option<u64>,
}

/// The locked files of one gateway.
#[derive(Debug)]
pub(super) struct Disk {
    path: PathBuf,
    /// `None` if the file system refused the lock; nothing is written without it.
    lock: Option<File>,
    /// The written state. `None` before the first write and after a failed one.
    written: Option<WrittenState>,
    /// Whether the snapshot at `path` is valid and should be kept as the previous one.
    is_current_valid: bool,
    /// The age of the loaded catalog.
    age: Option<Duration>,
}

struct LoadedSnapshot {
    catalog: Catalog,
    bytes: u64,
    age: Option<Duration>,
}

type Verify<'a> = &'a dyn Fn(&Catalog) -> Result<(), CatalogRejected>;

impl Disk {
    /// Locks the files, and loads the newest copy that verifies and is accepted.
    pub(super) fn open(
        path: &Path,
        verify: impl Fn(&Catalog) -> Result<(), CatalogRejected>,
    ) -> Result<(Self, Option<Catalog>), CacheError> {
        let lock = match take_lock(path) {
            Ok(lock) => Some(lock),
            Err(CacheError::Io { attempt, path, source }) if is_unwritable(&source) => {
                tracing::warn!(
                    "cannot {attempt} {}: {source}; the cache is used, but cannot be updated",
                    path.display()
                );
                None
            }
            Err(e) => return Err(e),
        };
        let path = path.to_owned();
        let mut disk = Self { path, lock, written: None, is_current_valid: false, age: None };
        let catalog = disk.load(&verify);
        Ok((disk, catalog))
    }

    /// Loads the newest valid copy, without a lock.
    pub(super) fn read(
        path: &Path,
        verify: impl Fn(&Catalog) -> Result<(), CatalogRejected>,
    ) -> Option<Catalog> {
        let path = path.to_owned();
        let mut disk = Self { path, lock: None, written: None, is_current_valid: false, age: None };
        disk.load(&verify)
    }

    fn load(&mut self, verify: Verify<'_>) -> Option<Catalog> {
        let current = load_snapshot(&self.path, verify);
        self.is_current_valid = current.is_some();
        let previous = || load_snapshot(&with_suffix(&self.path, ".previous"), verify);
        let LoadedSnapshot { mut catalog, bytes: snapshot_bytes, age } =
            current.or_else(previous)?;
        self.age = age;
        let journal_bytes = self.replay(&mut catalog, verify);
        // A journal must not extend the previous snapshot.
        if self.is_current_valid {
            let (registry, revision) = (catalog.registry().clone(), catalog.revision());
            self.written = Some(WrittenState { registry, revision, snapshot_bytes, journal_bytes });
        }
        Some(catalog)
    }

    /// Applies the journal's commits. `None`: the journal must not be extended.
    fn replay(&mut self, catalog: &mut Catalog, verify: Verify<'_>) -> Option<u64> {
        let path = with_suffix(&self.path, journal::SUFFIX);
        let bytes = match read_bounded(&path) {
            Ok(bytes) => Bytes::from(bytes),
            Err(InvalidCacheFile::Io(e)) if e.kind() == io::ErrorKind::NotFound => return Some(0),
            Err(e) => {
                tracing::error!(path = %path.display(), "cache journal rejected: {e}");
                return None;
            }
        };
        let length = bytes.len() as u64;
        let mut replayed = catalog.clone();
        let ended = journal::replay(&mut replayed, bytes);
        let revision = replayed.revision();
        if let Err(e) = &ended {
            let path = path.display();
            tracing::warn!(%path, %revision, "rest of the cache journal rejected: {e}");
        }
        if revision > catalog.revision() {
            if let Err(e) = verify(&replayed) {
                tracing::error!(path = %path.display(), "cache journal rejected: {e}");
                return None;
            }
            *catalog = replayed;
            self.age = age_of(&path);
        }
        ended.is_ok().then_some(length)
    }

    /// The age of the loaded catalog.
    pub(super) fn age(&self) -> Option<Duration> {
        self.age
    }

    /// Writes a batch, by appending to the journal if possible.
    pub(super) fn save(&mut self, batch: &Batch) -> Result<(), CacheError> {
        if self.lock.is_none() {
            self.lock = Some(take_lock(&self.path)?);
        }
        // After a failed write the files are in an unknown state and must be rewritten.
        let written = self.written.take();
        self.written =
            Some(match written.and_then(|written| self.append(written, batch).transpose()) {
                Some(appended) => appended?,
                None => self.rewrite(&batch.catalog)?,
            });
        self.set_time(batch.confirmed.map(Confirmed::age))
    }

    /// Sets the modification time of the files to the time of the last confirmation.
    pub(super) fn set_time(&self, age: Option<Duration>) -> Result<(), CacheError> {
        let Some(age) = age.filter(|_| self.lock.is_some()) else { return Ok(()) };
        for path in [self.path.clone(), with_suffix(&self.path, journal::SUFFIX)] {
            match set_age(&path, age) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => {
                    return Err(failed("set the time of", &path)(e));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Appends the commits to the journal. `None`: the catalog must be rewritten.
    fn append(
        &self,
        written: WrittenState,
        batch: &Batch,
    ) -> Result<Option<WrittenState>, CacheError> {
        let Some((commits, length)) = batch.commits.as_ref().zip(written.journal_bytes) else {
            return Ok(None);
        };
        let catalog = &batch.catalog;
        let fits = written.snapshot_bytes >= JOURNAL_FROM_BYTES
            && written.registry == *catalog.registry()
            && journal::are_consecutive(commits, written.revision, catalog.revision());
        let mut frames = Vec::new();
        let signed = |commit: &SealedCommit| {
            catalog.attestation().filter(|_| commit.revision() == catalog.revision())
        };
        if !fits || commits.iter().any(|c| journal::append(&mut frames, c, signed(c)).is_err()) {
            return Ok(None);
        }
        let length = length + frames.len() as u64;
        if length > written.snapshot_bytes / 2 {
            return Ok(None);
        }
        let path = with_suffix(&self.path, journal::SUFFIX);
        append_synced(&path, &frames).map_err(failed("append to", &path))?;
        Ok(Some(WrittenState {
            revision: catalog.revision(),
            journal_bytes: Some(length),
            ..written
        }))
    }

    fn rewrite(&mut self, catalog: &Catalog) -> Result<WrittenState, CacheError> {
        let bytes = write_export(catalog);
        let (path, new) = (&self.path, with_suffix(&self.path, ".tmp"));
        write_synced(&new, &bytes, Access::Default).map_err(failed("write", &new))?;
        if self.is_current_valid && path.exists() {
            let previous = with_suffix(path, ".previous");
            link_as(path, &previous).map_err(failed("keep the previous copy as", &previous))?;
        }
        fs::rename(&new, path).map_err(failed("replace", path))?;
        self.is_current_valid = true;
        sync_directory(path).map_err(failed("flush the directory of", path))?;
        // Frames older than the snapshot are ignored, so a failure is harmless.
        let journal = with_suffix(path, journal::SUFFIX);
        remove(&journal).map_err(failed("remove", &journal))?;
        Ok(WrittenState {
            registry: catalog.registry().clone(),
            revision: catalog.revision(),
            snapshot_bytes: bytes.len() as u64,
            journal_bytes: Some(0),
        })
    }
}

/// Whether the file system is not writable but possibly readable.
fn is_unwritable(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ReadOnlyFilesystem
            | io::ErrorKind::PermissionDenied
            | io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
    )
}

fn take_lock(path: &Path) -> Result<File, CacheError> {
    let directory = parent_directory(path);
    fs::create_dir_all(directory).map_err(failed("create the cache's directory", directory))?;
    let lock = with_suffix(path, ".lock");
    let file = File::options().create(true).truncate(false).write(true).open(&lock);
    let file = file.map_err(failed("open the cache's lock", &lock))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(CacheError::Locked(path.to_owned())),
        Err(TryLockError::Error(e)) => Err(failed("lock", &lock)(e)),
    }
}

/// Loads a snapshot. Logs why an existing one is rejected.
fn load_snapshot(path: &Path, verify: Verify<'_>) -> Option<LoadedSnapshot> {
    match read_snapshot(path, verify) {
        Ok(loaded) => Some(loaded),
        Err(InvalidCacheFile::Io(e)) if e.kind() == io::ErrorKind::NotFound => None,
        Err(e) => {
            let path = path.display();
            tracing::error!(%path, "cached catalog rejected: {e}");
            None
        }
    }
}

fn read_snapshot(path: &Path, verify: Verify<'_>) -> Result<LoadedSnapshot, InvalidCacheFile> {
    let bytes = read_bounded(path)?;
    let catalog = read_export(&bytes).map_err(|e| InvalidCacheFile::Invalid(Box::new(e)))?;
    verify(&catalog).map_err(InvalidCacheFile::Refused)?;
    Ok(LoadedSnapshot { catalog, bytes: bytes.len() as u64, age: age_of(path) })
}

fn set_age(path: &Path, age: Duration) -> io::Result<()> {
    let file = File::options().write(true).open(path)?;
    let modified = file.metadata()?.modified()?;
    let now = match modified.elapsed() {
        Ok(elapsed) => modified.checked_add(elapsed),
        Err(ahead) => modified.checked_sub(ahead.duration()),
    };
    let dated = now.and_then(|now| now.checked_sub(age));
    dated.map_or(Ok(()), |dated| file.set_modified(dated))
}

/// The age of a file by its modification time. `None` if that is in the future.
fn age_of(path: &Path) -> Option<Duration> {
    fs::metadata(path).ok()?.modified().ok()?.elapsed().ok()
}

fn read_bounded(path: &Path) -> Result<Vec<u8>, InvalidCacheFile> {
    let size = fs::metadata(path)?.len();
    if size > FILE_BYTES {
        return Err(InvalidCacheFile::TooLarge(size));
    }
    Ok(fs::read(path)?)
}

fn append_synced(path: &Path, frames: &[u8]) -> io::Result<()> {
    let is_new = !path.exists();
    let mut file = File::options().create(true).append(true).open(path)?;
    file.write_all(frames)?;
    file.sync_data()?;
    if is_new { sync_directory(path) } else { Ok(()) }
}

//! `file://`: a registry file, polled every second.
//!
//! inotify is not used: it misses renames on some mounts, and all changes on NFS.

use std::{
    io,
    path::Path,
    time::{Duration, SystemTime},
};

use registry_core::{Catalog, Diagnostic};

use super::{
    Feed,
    content::{self, ContentRejected},
    loader::ContentLoader,
};
use crate::{cache::Cache, catalog_verifier::CatalogVerifier};

/// Polling interval.
const INTERVAL: Duration = Duration::from_secs(1);
/// A file that changed within this time may change again without a new timestamp.
const SETTLED: Duration = Duration::from_secs(3);
/// Maximum file size, in bytes.
const FILE_BYTES: u64 = 256 * 1024 * 1024;

/// The version of a file by its metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileState {
    modified: Option<SystemTime>,
    bytes: u64,
}

impl FileState {
    fn is_settled(&self) -> bool {
        let age = self.modified.and_then(|time| time.elapsed().ok());
        age.is_some_and(|age| age > SETTLED)
    }
}

/// The content of a file that is read once.
#[derive(Debug)]
pub(crate) struct LoadedFile {
    pub(crate) catalog: Catalog,
    /// The findings about its policies.
    pub(crate) policy_findings: Vec<Diagnostic>,
}

/// Why a file has no catalog.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadError {
    #[error(transparent)]
    Unreadable(#[from] io::Error),
    #[error(transparent)]
    Rejected(#[from] ContentRejected),
}

/// Reads the file once.
pub(crate) fn load(
    path: &Path,
    catalog_verifier: &CatalogVerifier,
) -> Result<LoadedFile, LoadError> {
    let (_, content) = read_if_changed_blocking(path, None)?;
    let cache = Cache::in_memory(None);
    let (name, content) = (path.display().to_string(), content.unwrap_or_default());
    let policy_findings = content::load_content(&cache, (&name, &content), catalog_verifier)?;
    Ok(LoadedFile { catalog: Catalog::clone(&cache.current()), policy_findings })
}

/// Follows the file until it is stopped. Fails if the first content is rejected and there is no
/// catalog.
pub(super) async fn watch(path: &Path, feed: Feed) -> Result<(), ContentRejected> {
    let (mut seen, mut loader) =
        (None, ContentLoader::new(feed.clone(), path.display().to_string()));
    loop {
        match read_if_changed(path, seen).await {
            Ok((state, content)) => {
                seen = Some(state);
                match content {
                    Some(bytes) => loader.content(bytes).await?,
                    None => loader.unchanged(),
                }
            }
            Err(e) => {
                seen = None;
                feed.status.down(&format!("{}: {e}", path.display()));
            }
        }
        if !feed.pause(INTERVAL).await {
            return Ok(());
        }
    }
}

/// Reads the file if it may have changed.
async fn read_if_changed(
    path: &Path,
    seen: Option<FileState>,
) -> io::Result<(FileState, Option<Vec<u8>>)> {
    let path = path.to_owned();
    let reading = tokio::task::spawn_blocking(move || read_if_changed_blocking(&path, seen));
    reading.await.unwrap_or_else(|e| Err(io::Error::other(e)))
}

fn read_if_changed_blocking(
    path: &Path,
    seen: Option<FileState>,
) -> io::Result<(FileState, Option<Vec<u8>>)> {
    let metadata = std::fs::metadata(path)?;
    if !metadata.is_file() {
        // Reading a pipe or device can block forever.
        return Err(io::Error::other("not a regular file; use the path of a regular file"));
    }
    let state = FileState { modified: metadata.modified().ok(), bytes: metadata.len() };
    if seen == Some(state) && state.is_settled() {
        return Ok((state, None));
    }
    if state.bytes > FILE_BYTES {
        let message = format!("the file has {} bytes; the maximum is {FILE_BYTES}", state.bytes);
        return Err(io::Error::other(message));
    }
    Ok((state, Some(std::fs::read(path)?)))
}

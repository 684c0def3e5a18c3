//! `file://`: a registry file, polled every second.
//!
//! inotify is not used: it misses renames on some mounts, and all changes on NFS.

use std::{
    fmt, io,
    path::Path,
    time::{Duration, SystemTime},
};

use registry_core::Catalog;

use super::{
    Feed,
    content::{self, Rejected},
    intake::Intake,
};
use crate::{admission::Admission, cache::Cache};

/// Polling interval.
const INTERVAL: Duration = Duration::from_secs(1);
/// A file that changed within this time may change again without a new timestamp.
const SETTLED: Duration = Duration::from_secs(3);
/// Maximum file size, in bytes.
const FILE_BYTES: u64 = 256 * 1024 * 1024;

/// The version of a file by its metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    modified: Option<SystemTime>,
    bytes: u64,
}

impl Stamp {
    fn is_settled(&self) -> bool {
        let age = self.modified.and_then(|time| time.elapsed().ok());
        age.is_some_and(|age| age > SETTLED)
    }
}

/// Reads the file once.
pub(crate) fn load(path: &Path, admission: &Admission) -> Result<Catalog, String> {
    let failed = |e: &dyn fmt::Display| format!("{}: {e}", path.display());
    let (_, content) = look_at(path, None).map_err(|e| failed(&e))?;
    let cache = Cache::in_memory(None);
    let (name, content) = (path.display().to_string(), content.unwrap_or_default());
    content::take(&cache, (&name, &content), admission).map_err(|e| failed(&e))?;
    Ok(Catalog::clone(&cache.current()))
}

/// Follows the file until it is stopped. Fails if the first content is rejected and there is no
/// catalog.
pub(super) async fn watch(path: &Path, feed: Feed) -> Result<(), Rejected> {
    let (mut seen, mut intake) = (None, Intake::new(feed.clone(), path.display().to_string()));
    loop {
        match look(path, seen).await {
            Ok((stamp, content)) => {
                seen = Some(stamp);
                match content {
                    Some(bytes) => intake.content(bytes).await?,
                    None => intake.unchanged(),
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
async fn look(path: &Path, seen: Option<Stamp>) -> io::Result<(Stamp, Option<Vec<u8>>)> {
    let path = path.to_owned();
    let looking = tokio::task::spawn_blocking(move || look_at(&path, seen));
    looking.await.unwrap_or_else(|e| Err(io::Error::other(e)))
}

fn look_at(path: &Path, seen: Option<Stamp>) -> io::Result<(Stamp, Option<Vec<u8>>)> {
    let metadata = std::fs::metadata(path)?;
    if !metadata.is_file() {
        // Reading a pipe or device can block forever.
        return Err(io::Error::other("not a regular file; use the path of a regular file"));
    }
    let stamp = Stamp { modified: metadata.modified().ok(), bytes: metadata.len() };
    if seen == Some(stamp) && stamp.is_settled() {
        return Ok((stamp, None));
    }
    if stamp.bytes > FILE_BYTES {
        let message = format!("the file has {} bytes; the maximum is {FILE_BYTES}", stamp.bytes);
        return Err(io::Error::other(message));
    }
    Ok((stamp, Some(std::fs::read(path)?)))
}

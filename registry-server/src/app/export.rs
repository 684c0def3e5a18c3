//! The whole catalog as one registry file, for gateways that poll and for backups.
//!
//! The file is computed at most once per revision, outside of the async runtime. Scopes are not supported: the file contains
//! the whole catalog.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use bytes::Bytes;
use registry_core::{Catalog, ChainHash, Revision, registry_file};
use tokio::{
    sync::Mutex,
    time::{Instant, sleep},
};

/// The time after which an unused file is dropped.
const IDLE: Duration = Duration::from_mins(10);

/// The exported file of the latest revision that was requested.
#[derive(Debug, Default)]
pub struct Export(Arc<Mutex<Cached>>);

#[derive(Debug, Default)]
struct Cached {
    file: Option<(Point, Bytes)>,
    used: Option<Instant>,
}

/// The position of a file. After a restore, a revision number can repeat; its chain hash differs.
type Point = (Revision, ChainHash);

impl Export {
    /// The file of this catalog. Concurrent requests wait for one computation.
    pub async fn encode(&self, catalog: Arc<Catalog>) -> (Point, Bytes) {
        let mut cached = self.0.lock().await;
        cached.used = Some(Instant::now());
        if let Some((point, bytes)) = &cached.file
            && point.0 >= catalog.revision()
        {
            return (*point, bytes.clone());
        }
        let point = (catalog.revision(), catalog.chain());
        let source = catalog.clone();
        let writing = tokio::task::spawn_blocking(move || registry_file::write_export(&source));
        let written = match writing.await {
            Ok(written) => written,
            // This happens only while the runtime shuts down.
            Err(_) => registry_file::write_export(&catalog),
        };
        let bytes = Bytes::from(written);
        if cached.file.replace((point, bytes.clone())).is_none() {
            tokio::spawn(forget_idle(Arc::downgrade(&self.0)));
        }
        (point, bytes)
    }
}

/// Drops the file after it is idle.
async fn forget_idle(cached: Weak<Mutex<Cached>>) {
    let mut left = IDLE;
    loop {
        sleep(left).await;
        let Some(cached) = cached.upgrade() else { return };
        let mut cached = cached.lock().await;
        left = IDLE.saturating_sub(cached.used.map_or(IDLE, |used| used.elapsed()));
        if left.is_zero() {
            cached.file = None;
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use registry_core::RegistryId;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn file_is_dropped_after_it_is_idle() {
        let export = Export::default();
        let catalog = Arc::new(Catalog::empty(RegistryId::new("r")));
        let is_kept = async || export.0.lock().await.file.is_some();
        export.encode(catalog.clone()).await;
        tokio::time::advance(IDLE / 2).await;
        export.encode(catalog).await;
        tokio::time::advance(IDLE * 2 / 3).await;
        tokio::task::yield_now().await;
        assert!(is_kept().await, "it was requested meanwhile");
        sleep(IDLE).await;
        tokio::task::yield_now().await;
        assert!(!is_kept().await);
    }
}

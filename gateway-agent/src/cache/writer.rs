//! Writes the cache to disk: shortly after changes, in batches, and at shutdown.

use std::time::Duration;

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{Cache, DiskState, disk::Disk};
use crate::batched_file::{BATCH_DELAY, RETRY, pause};

/// Interval of updates to the files' modification times.
const TIME_UPDATE_INTERVAL: Duration = Duration::from_secs(10);

/// Keeps the copy on disk up to date.
#[derive(Debug)]
pub struct Writer {
    cache: Cache,
    disk: Option<Disk>,
    is_failing: bool,
}

impl Writer {
    pub(super) fn new(cache: Cache, disk: Disk) -> Self {
        Self { cache, disk: Some(disk), is_failing: false }
    }

    /// Writes until `stop`, then flushes.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut catalog = self.cache.subscribe();
        while !stop.is_cancelled() {
            while !self.flush().await && !stop.is_cancelled() {
                pause(RETRY, &stop).await;
            }
            tokio::select! {
                () = stop.cancelled() => break,
                // Cannot end: the writer's own cache keeps the channel open.
                _ = catalog.changed() => pause(BATCH_DELAY, &stop).await,
                () = sleep(TIME_UPDATE_INTERVAL) => self.set_time().await,
            }
        }
        self.flush().await;
        self.set_time().await;
    }

    /// Updates the modification times. After a failure, the files look older at the next start.
    async fn set_time(&mut self) {
        let Some(confirmed) = self.cache.confirmed_on_disk() else { return };
        let Some(disk) = self.disk.take() else { return };
        let dated = tokio::task::spawn_blocking(move || {
            if let Err(e) = disk.set_time(Some(confirmed.age())) {
                tracing::debug!("cannot set the modification time of the cache: {e}");
            }
            disk
        });
        self.disk = dated.await.ok();
    }

    /// Writes all changes. Returns whether the disk is up to date.
    async fn flush(&mut self) -> bool {
        let Some(batch) = self.cache.take_batch() else { return true };
        let Some(mut disk) = self.disk.take() else { return false };
        let revision = batch.catalog.revision();
        let written = tokio::task::spawn_blocking(move || {
            let saved = disk.save(&batch);
            (disk, saved)
        });
        let saved = match written.await {
            Ok((disk, saved)) => {
                self.disk = Some(disk);
                saved.map_err(|e| e.to_string())
            }
            Err(e) => Err(format!("the writer failed: {e}")),
        };
        match saved {
            Ok(()) => {
                if std::mem::take(&mut self.is_failing) {
                    tracing::info!(%revision, "writing the cache to disk works again");
                }
                self.cache.set_disk_state(DiskState::Ok);
                self.cache.set_persisted(revision);
                true
            }
            Err(e) => {
                self.failed(&e);
                false
            }
        }
    }

    fn failed(&mut self, reason: &str) {
        self.cache.request_rewrite();
        self.cache.set_disk_state(DiskState::Failing(reason.to_owned()));
        metrics::counter!("gateway_cache_write_failures_total").increment(1);
        if !std::mem::replace(&mut self.is_failing, true) {
            tracing::error!(
                "cannot write the cache to disk, a restart would load an older state; retrying every {} s: \
                 {reason}",
                RETRY.as_secs(),
            );
        }
    }
}

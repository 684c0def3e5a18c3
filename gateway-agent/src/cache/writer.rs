//! When the disk follows: soon after a swap, many swaps together, and once more at the end.

use std::time::Duration;

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{Cache, DiskState, disk::Disk};

/// How long a swap waits for others, so that a burst is one write.
const GATHER: Duration = Duration::from_millis(200);
/// How long to wait after a write that failed.
const RETRY: Duration = Duration::from_secs(5);
/// How often the files get the time at which they were last known to be the latest.
const DATE: Duration = Duration::from_secs(10);

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

    /// Writes until it is stopped; then writes what is left.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut catalog = self.cache.subscribe();
        while !stop.is_cancelled() {
            while !self.flush().await && !stop.is_cancelled() {
                pause(RETRY, &stop).await;
            }
            tokio::select! {
                () = stop.cancelled() => break,
                // It cannot end: the writer's own cache keeps it alive.
                _ = catalog.changed() => pause(GATHER, &stop).await,
                () = sleep(DATE) => self.date().await,
            }
        }
        self.flush().await;
        self.date().await;
    }

    /// Dates the files; where that fails, they only look older after a restart.
    async fn date(&mut self) {
        let Some(confirmed) = self.cache.confirmed_on_disk() else { return };
        let Some(disk) = self.disk.take() else { return };
        let dated = tokio::task::spawn_blocking(move || {
            if let Err(e) = disk.date(Some(confirmed.age())) {
                tracing::debug!("the cache keeps an earlier time: {e}");
            }
            disk
        });
        self.disk = dated.await.ok();
    }

    /// Writes what the disk does not have yet. Says whether it has everything now.
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
            Err(e) => Err(format!("the writer broke: {e}")),
        };
        match saved {
            Ok(()) => {
                if std::mem::take(&mut self.is_failing) {
                    tracing::info!(%revision, "the cache is written to disk again");
                }
                self.cache.note_disk(DiskState::Ok);
                self.cache.note_persisted(revision);
                true
            }
            Err(e) => {
                self.failed(&e);
                false
            }
        }
    }

    fn failed(&mut self, reason: &str) {
        self.cache.want_whole();
        self.cache.note_disk(DiskState::Failing(reason.to_owned()));
        metrics::counter!("gateway_cache_write_failures_total").increment(1);
        if !std::mem::replace(&mut self.is_failing, true) {
            tracing::error!(
                "the cache is not written to disk, a restart would begin with an older state; \
                 trying again every {} s: {reason}",
                RETRY.as_secs(),
            );
        }
    }
}

/// Waits, but not past the end.
async fn pause(time: Duration, stop: &CancellationToken) {
    tokio::select! {
        () = sleep(time) => {}
        () = stop.cancelled() => {}
    }
}

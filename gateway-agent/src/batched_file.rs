//! Files that follow state in memory: they are written shortly after changes, in batches, and at the
//! stop. Failed writes are repeated.

use std::{future::Future, io, path::Path, time::Duration};

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// Delay that combines bursts of changes.
pub(crate) const BATCH_DELAY: Duration = Duration::from_millis(200);
/// Delay before a failed write is retried.
pub(crate) const RETRY: Duration = Duration::from_secs(5);

/// A file that follows state in memory.
pub(crate) trait BatchedFile: Send + Sync {
    /// The content, for the log.
    const CONTENT: &'static str;

    /// The path, for the log.
    fn path(&self) -> &Path;

    /// Waits for changes.
    fn changed(&self) -> impl Future<Output = ()> + Send;

    /// Writes all changes. After a failure, the next call writes them, too.
    fn write(&mut self) -> impl Future<Output = io::Result<()>> + Send;
}

/// Writes changes until `stop`, then once more.
pub(crate) async fn write_batches(mut file: impl BatchedFile, stop: CancellationToken) {
    let mut is_failing = false;
    while !stop.is_cancelled() {
        tokio::select! {
            () = stop.cancelled() => break,
            () = file.changed() => pause(BATCH_DELAY, &stop).await,
        }
        while !write(&mut file, &mut is_failing).await && !stop.is_cancelled() {
            pause(RETRY, &stop).await;
        }
    }
    write(&mut file, &mut is_failing).await;
}

/// Writes all changes and logs the first failure and its end. Returns whether the disk is up to date.
async fn write<F: BatchedFile>(file: &mut F, is_failing: &mut bool) -> bool {
    let outcome = file.write().await;
    let path = file.path().display();
    let was_failing = std::mem::replace(is_failing, outcome.is_err());
    match &outcome {
        Ok(()) if was_failing => tracing::info!(%path, "writing {} works again", F::CONTENT),
        Err(e) if !was_failing => tracing::error!(
            %path,
            "cannot write {}, a restart would forget the latest ones; retrying every {} s: {e}",
            F::CONTENT,
            RETRY.as_secs(),
        ),
        Ok(()) | Err(_) => {}
    }
    outcome.is_ok()
}

/// Waits, unless stopped.
pub(crate) async fn pause(time: Duration, stop: &CancellationToken) {
    tokio::select! {
        () = sleep(time) => {}
        () = stop.cancelled() => {}
    }
}

//! Retention of commits for followers, by number and by age.
//!
//! The log keeps every commit. A follower that needs an older commit receives a snapshot.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use registry_core::Revision;
use tokio::time::sleep;

use super::{Feed, FeedConfig, liveness::before};

/// Interval between checks of the age.
const CHECK_INTERVAL: Duration = Duration::from_mins(1);

/// Retention limits.
#[derive(Debug)]
pub(super) struct Retention {
    max_revisions: u64,
    /// Last revision beyond the maximum age.
    expired: AtomicU64,
}

impl Retention {
    pub(super) fn new(config: &FeedConfig) -> Self {
        Self { max_revisions: config.retain_revisions, expired: AtomicU64::new(0) }
    }

    /// Revision after which all commits are retained, for this head.
    pub(super) fn before(&self, head: Revision) -> Revision {
        let expired = self.expired.load(Ordering::Relaxed);
        Revision(head.0.saturating_sub(self.max_revisions).max(expired))
    }
}

/// Updates the age limit until the server drains.
pub(super) async fn run(feed: Arc<Feed>, age: Duration) {
    let interval = CHECK_INTERVAL.min(age / 2);
    loop {
        match feed.store.revision_at(before(feed.clock.now(), age)).await {
            // Never decreases: an expired revision stays expired.
            Ok(expired) => _ = feed.retention.expired.fetch_max(expired.0, Ordering::Relaxed),
            Err(error) => tracing::debug!(%error, "cannot expire old commits, retrying"),
        }
        tokio::select! {
            () = sleep(interval) => {}
            () = feed.draining.cancelled() => return,
        }
    }
}

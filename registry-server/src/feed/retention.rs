//! Which commits followers can still have one by one: the latest so many, made in the latest so long.
//!
//! The log keeps every commit, for history and audit; who lacks one that is older than this gets the
//! state instead.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use registry_core::Revision;
use tokio::time::sleep;

use super::{Feed, FeedConfig, pulse::before};

/// How often it is looked what has become too old.
const EVERY: Duration = Duration::from_mins(1);

/// What is kept.
#[derive(Debug)]
pub(super) struct Retention {
    most: u64,
    /// The last revision that is too old.
    outdated: AtomicU64,
}

impl Retention {
    pub(super) fn new(config: &FeedConfig) -> Self {
        Self { most: config.keep_deltas, outdated: AtomicU64::new(0) }
    }

    /// The revision after which every commit can be had, where the registry is at `head`.
    pub(super) fn before(&self, head: Revision) -> Revision {
        let outdated = self.outdated.load(Ordering::Relaxed);
        Revision(head.0.saturating_sub(self.most).max(outdated))
    }
}

/// Keeps up with time, until the server drains.
pub(super) async fn run(feed: Arc<Feed>, age: Duration) {
    let every = EVERY.min(age / 2);
    loop {
        match feed.store.revision_at(before(feed.clock.now(), age)).await {
            // Never back: what was told to be gone stays so.
            Ok(outdated) => _ = feed.retention.outdated.fetch_max(outdated.0, Ordering::Relaxed),
            Err(error) => tracing::debug!(%error, "old commits are still sent; looking again soon"),
        }
        tokio::select! {
            () = sleep(every) => {}
            () = feed.draining.cancelled() => return,
        }
    }
}

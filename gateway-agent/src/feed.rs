//! The context that all sources of catalogs share, and their state.

mod status;

use std::time::{Duration, UNIX_EPOCH};

use registry_core::Timestamp;
use tokio_util::sync::CancellationToken;

pub use self::status::{Report, SourceState, Status};
use crate::{admission::Admission, cache::Cache, freshness::Watchman};

/// The context of a source.
#[derive(Debug, Clone)]
pub struct Feed {
    /// The destination of catalogs.
    pub cache: Cache,
    /// Judges the age of the catalog.
    pub watchman: Watchman,
    /// The state of the source.
    pub status: Status,
    /// The conditions for serving a catalog.
    pub admission: Admission,
    /// Stops the source.
    pub stop: CancellationToken,
}

impl Feed {
    /// Notes that the source was heard, and that the catalog was the registry's latest so long ago, if the
    /// source says that; where the registry's signature counts, no later than the time that it says.
    pub(crate) fn live(&self, heard: Option<Duration>, signed_at: Option<Timestamp>) {
        let signed_at = signed_at.filter(|_| self.admission.wants_signature());
        let reached = self.cache.age();
        if let Some(age) = heard {
            self.cache.confirm(age.max(signed_at.map_or(Duration::ZERO, age_of)));
        }
        if !self.status.live()
            && let Some(age) = reached
        {
            self.watchman.note_usual(age);
        }
    }

    /// Waits, but not past the end; says whether to go on.
    pub(crate) async fn pause(&self, time: Duration) -> bool {
        tokio::select! {
            () = tokio::time::sleep(time) => true,
            () = self.stop.cancelled() => false,
        }
    }
}

/// How long ago a time of the registry's clock was, by this machine's.
fn age_of(time: Timestamp) -> Duration {
    // Where the registry's clock is ahead, it was just now.
    UNIX_EPOCH.elapsed().unwrap_or_default().saturating_sub(time.since(Timestamp::EPOCH))
}

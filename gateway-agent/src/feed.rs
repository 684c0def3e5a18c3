//! The context that all sources of catalogs share.

mod status;

use std::time::{Duration, UNIX_EPOCH};

use registry_core::Timestamp;
use tokio_util::sync::CancellationToken;

pub use self::status::{SourceReport, SourceState, Status};
use crate::{cache::Cache, catalog_verifier::CatalogVerifier, freshness::StalenessMonitor};

/// The destination of catalogs from any source.
#[derive(Debug, Clone)]
pub struct Feed {
    /// The destination of catalogs.
    pub cache: Cache,
    /// Measures the age of the catalog.
    pub staleness: StalenessMonitor,
    /// The state of the source.
    pub status: Status,
    /// The requirements for accepting a catalog.
    pub catalog_verifier: CatalogVerifier,
    /// Stops the source.
    pub stop: CancellationToken,
}

impl Feed {
    /// Records contact with the source, and the age of the catalog according to the source. If
    /// signatures are required, the signed time limits it.
    pub(crate) fn live(&self, heard: Option<Duration>, signed_at: Option<Timestamp>) {
        let signed_at = signed_at.filter(|_| self.catalog_verifier.requires_signature());
        let reached = self.cache.age();
        if let Some(age) = heard {
            self.cache.confirm(age.max(signed_at.map_or(Duration::ZERO, age_of)));
        }
        if !self.status.live()
            && let Some(age) = reached
        {
            self.staleness.record_reached_age(age);
        }
    }

    /// Waits, unless the source is stopped. Returns whether to continue.
    pub(crate) async fn pause(&self, time: Duration) -> bool {
        tokio::select! {
            () = tokio::time::sleep(time) => true,
            () = self.stop.cancelled() => false,
        }
    }
}

/// The age of a registry timestamp by the local clock.
fn age_of(time: Timestamp) -> Duration {
    // Zero if the registry's clock is ahead.
    UNIX_EPOCH.elapsed().unwrap_or_default().saturating_sub(time.since(Timestamp::EPOCH))
}

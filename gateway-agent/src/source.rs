//! Where catalogs come from: each source puts them into the cache and says how it is doing.
//!
//! Deliberately absent: `grpc://`, which is `sync.rs`; here it is only started.

mod content;
mod file;
mod http;
mod intake;
mod scope;
mod status;

use std::time::{Duration, UNIX_EPOCH};

use registry_core::Timestamp;
use registry_follow::{Follower, Timing};
use tokio_util::sync::CancellationToken;

pub use content::Rejected;
pub(crate) use file::load as load_file;
pub use status::{Report, SourceState, Status};

use crate::{
    admission::Admission,
    cache::Cache,
    config::{Config, Source},
    freshness::Watchman,
    sync,
};

/// What every source works with.
#[derive(Debug, Clone)]
pub struct Feed {
    /// Where catalogs go.
    pub cache: Cache,
    /// Who judges the age of what is there.
    pub watchman: Watchman,
    /// Where it says how it is doing.
    pub status: Status,
    /// What a catalog must have to be served.
    pub admission: Admission,
    /// When to end.
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

/// Follows the configured source until it is stopped. Fails only where there is no catalog to
/// serve and the source's first one is refused: an operator should see that at once.
pub async fn follow(config: &Config, feed: Feed) -> Result<(), Rejected> {
    match &config.registry.source {
        Source::Grpc(addresses) => {
            let (scope, keep) = scope::follow(&config.registry.scope);
            let follower = Follower {
                addresses: addresses.clone(),
                credentials: config.registry.credentials.clone(),
                timing: Timing::default(),
                agent: sync::AGENT,
            };
            tokio::select! {
                () = sync::follow(&follower, config.name.clone(), feed, scope) => {}
                () = keep => {}
            }
            Ok(())
        }
        Source::Http(url) => http::poll(url, &config.registry, feed).await,
        Source::File(path) => file::watch(path, feed).await,
    }
}

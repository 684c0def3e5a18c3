//! Where a follower begins: after what it has, or with a snapshot.
//!
//! A position that is not in our history is refused and never answered with a snapshot: somebody
//! should know that a registry was replaced or a cache edited. Deliberately absent: sending.

use std::time::Duration;

use registry_core::{ChainHash, Revision};
use registry_proto::convert::Position;
use tokio::time::timeout;

use super::{Error, Feed};

/// How long to wait for commits that another server has told the follower about already.
const CATCH_UP: Duration = Duration::from_secs(3);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
    /// With everything.
    Snapshot,
    /// With the commits after this place.
    After(Revision, ChainHash),
}

pub(super) async fn decide(feed: &Feed, position: Option<Position>) -> Result<Start, Error> {
    let Some(Position { registry, revision, chain }) = position else { return Ok(Start::Snapshot) };
    let catalog = feed.hub.catalog();
    if registry != *catalog.registry() {
        return Err(Error::OtherRegistry { ours: catalog.registry().clone(), theirs: registry });
    }
    let head = reach(feed, revision).await?;
    if chain_at(feed, revision).await? != Some(chain) {
        return Err(Error::OtherHistory { revision });
    }
    let gap = head.0.saturating_sub(revision.0);
    if gap > feed.config.snapshot_gap {
        return Ok(Start::Snapshot);
    }
    Ok(Start::After(revision, chain))
}

/// Waits a little until this server is at the follower's revision: with several servers, the
/// follower may have heard of a commit before this one did.
async fn reach(feed: &Feed, revision: Revision) -> Result<Revision, Error> {
    let mut head = feed.hub.watch();
    if *head.borrow() < revision {
        feed.registrar.nudge();
        let reached = timeout(CATCH_UP, head.wait_for(|head| *head >= revision)).await;
        if !matches!(reached, Ok(Ok(_))) {
            let ours = feed.hub.catalog().revision();
            return Err(Error::Ahead { ours, theirs: revision });
        }
    }
    Ok(feed.hub.catalog().revision())
}

async fn chain_at(feed: &Feed, revision: Revision) -> Result<Option<ChainHash>, Error> {
    if revision == Revision(0) {
        return Ok(Some(ChainHash::genesis(feed.store.registry())));
    }
    if let Some(chain) = feed.hub.chain_at(revision) {
        return Ok(Some(chain));
    }
    let stored = feed.store.commit(revision).await?;
    Ok(stored.map(|stored| stored.chain))
}

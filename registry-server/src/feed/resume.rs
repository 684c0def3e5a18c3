//! Validates the position of a follower.
//!
//! A position that is not in the history is an error, never a reason for a snapshot: an operator must learn
//! that a registry was replaced or a cache was edited.

use std::time::Duration;

use registry_core::{ChainHash, Digest, Revision, chain::Position};
use tokio::time::timeout;

use super::{Error, Feed, Hello};

/// Time to catch up with commits that another server has sent to the follower.
const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(3);

/// Validated state of a follower.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ResumePoint {
    /// Position to continue from; `None` starts with a snapshot.
    pub(super) position: Option<(Revision, ChainHash)>,
    /// Content digest, in a scope.
    pub(super) content: Option<Digest>,
}

pub(super) async fn resume_point(feed: &Feed, hello: &Hello) -> Result<ResumePoint, Error> {
    let Some(Position { registry, revision, chain }) = &hello.position else {
        // The whole history starts before the first commit.
        let genesis = || (Revision(0), ChainHash::genesis(feed.store.registry()));
        return Ok(ResumePoint { position: hello.history.then(genesis), content: None });
    };
    let (revision, chain, content) = (*revision, *chain, hello.content);
    let catalog = feed.hub.catalog();
    if registry != catalog.registry() {
        let (server, follower) = (catalog.registry().clone(), registry.clone());
        return Err(Error::RegistryMismatch { server, follower });
    }
    wait_for(feed, revision).await?;
    if chain_at(feed, revision).await? != Some(chain) {
        return Err(Error::HistoryMismatch { revision });
    }
    Ok(ResumePoint { position: Some((revision, chain)), content })
}

/// Waits until this server has the follower's revision. The follower may have received it from another server.
async fn wait_for(feed: &Feed, revision: Revision) -> Result<(), Error> {
    let mut head = feed.hub.watch();
    if *head.borrow() < revision {
        feed.hub.request_refresh(Some(revision));
        let reached = timeout(CATCH_UP_TIMEOUT, head.wait_for(|head| *head >= revision)).await;
        if !matches!(reached, Ok(Ok(_))) {
            let server = feed.hub.catalog().revision();
            return Err(Error::FollowerAhead { server, follower: revision });
        }
    }
    Ok(())
}

async fn chain_at(feed: &Feed, revision: Revision) -> Result<Option<ChainHash>, Error> {
    if revision == Revision(0) {
        return Ok(Some(ChainHash::genesis(feed.store.registry())));
    }
    if let Some(chain) = feed.hub.chain_at(revision) {
        return Ok(Some(chain));
    }
    let _permit = feed.stages.log.acquire().await;
    let stored = feed.store.commit(revision).await?;
    Ok(stored.map(|stored| stored.chain))
}

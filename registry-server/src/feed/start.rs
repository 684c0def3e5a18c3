//! Where a follower begins: after what it has, or with a snapshot.
//!
//! A position that is not in our history is refused and never answered with a snapshot: somebody
//! should know that a registry was replaced or a cache edited.

use std::time::Duration;

use registry_core::{ChainHash, Digest, Revision, chain::Position};
use tokio::time::timeout;

use super::{Error, Feed, Hello};

/// How long to wait for commits that another server has told the follower about already.
const CATCH_UP: Duration = Duration::from_secs(3);

/// What a follower holds that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Start {
    /// After which commit it goes on; `None`: it begins with a snapshot.
    pub(super) place: Option<(Revision, ChainHash)>,
    /// Of a scope: what it holds.
    pub(super) content: Option<Digest>,
}

pub(super) async fn decide(feed: &Feed, hello: &Hello) -> Result<Start, Error> {
    let Some(Position { registry, revision, chain }) = &hello.position else {
        // All of history begins before the first commit.
        let genesis = || (Revision(0), ChainHash::genesis(feed.store.registry()));
        return Ok(Start { place: hello.history.then(genesis), content: None });
    };
    let (revision, chain, content) = (*revision, *chain, hello.content);
    let catalog = feed.hub.catalog();
    if registry != catalog.registry() {
        let (ours, theirs) = (catalog.registry().clone(), registry.clone());
        return Err(Error::OtherRegistry { ours, theirs });
    }
    reach(feed, revision).await?;
    if chain_at(feed, revision).await? != Some(chain) {
        return Err(Error::OtherHistory { revision });
    }
    Ok(Start { place: Some((revision, chain)), content })
}

/// Waits a little until this server is at the follower's revision: with several servers, the
/// follower may have heard of a commit before this one did.
async fn reach(feed: &Feed, revision: Revision) -> Result<(), Error> {
    let mut head = feed.hub.watch();
    if *head.borrow() < revision {
        feed.hub.request_refresh();
        let reached = timeout(CATCH_UP, head.wait_for(|head| *head >= revision)).await;
        if !matches!(reached, Ok(Ok(_))) {
            let ours = feed.hub.catalog().revision();
            return Err(Error::Ahead { ours, theirs: revision });
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
    let _turn = feed.admission.log.take().await;
    let stored = feed.store.commit(revision).await?;
    Ok(stored.map(|stored| stored.chain))
}

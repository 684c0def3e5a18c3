//! What a batch becomes before it is planned: conflicts settled, and what is gone retired. Both are
//! decided against the registry at one revision, and the commit is refused if that is not the head.
//!
//! Deliberately absent: the decisions, which are the core's.

use std::fmt;

use registry_core::{
    conflict::{OnConflict, Settlement, settle},
    prune::{Managed, prune},
};
use registry_proto::v1;
use serde::Serialize;

use crate::{
    batch::Batch,
    cli::{ApplyHow, CommitArgs, PruneArgs},
    client::{Client, request},
    failure::Failure,
    follow::Follower,
};

/// A conflict, and what became of it.
#[derive(Debug, Serialize)]
pub(super) struct Settled {
    key: String,
    /// The key instead; without one it was left out.
    instead: Option<String>,
}

impl fmt::Display for Settled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, instead } = self;
        match instead {
            Some(instead) => write!(f, "conflict: {key} is {instead} instead"),
            None => write!(f, "conflict: {key} is registered with other content; left out"),
        }
    }
}

impl From<&Settlement> for Settled {
    fn from(settlement: &Settlement) -> Self {
        match settlement {
            Settlement::Skipped(key) => Self { key: key.to_string(), instead: None },
            Settlement::Bumped { from, to } => {
                Self { key: from.to_string(), instead: Some(to.to_string()) }
            }
        }
    }
}

/// The batch that is to be planned, and what was done to it.
pub(super) async fn prepare(
    client: &Client,
    batch: Batch,
    (how, pruned): (&ApplyHow, &PruneArgs),
    author: &mut CommitArgs,
) -> Result<(Batch, Vec<Settled>), Failure> {
    let on_conflict = OnConflict::from(how.on_conflict);
    if on_conflict == OnConflict::Fail && !pruned.prune {
        return Ok((batch, Vec::new()));
    }
    let head = client.head().await?;
    let catalog = Follower::open(client, None).await?.catalog(head).await?;
    author.base_revision.get_or_insert(catalog.revision().0);
    let settled = settle(&catalog, batch.proposals(), on_conflict);
    let mut changes: Vec<_> =
        settled.changes.into_iter().map(|(from, change)| (Some(from), change)).collect();
    if let Some(source) = pruned.source.as_deref().filter(|_| pruned.prune) {
        let owner = match &pruned.owner {
            Some(owner) => owner.clone(),
            None => owner(client, author).await?,
        };
        // What was left out is in the files all the same.
        let wanted: Vec<_> = changes.iter().map(|(_, change)| change.clone()).collect();
        let in_files = [batch.proposals(), &wanted].concat();
        let gone = prune(&catalog, &in_files, Managed { source, owner: &owner });
        let gone = gone.map_err(|e| Failure::Rejected(e.to_string()))?;
        changes.extend(gone.into_iter().map(|change| (None, change)));
    }
    let settled = settled.settlements.iter().map(Settled::from).collect();
    Ok((batch.replaced(changes), settled))
}

/// Who will own what is applied: the caller's team or, where nobody is authenticated, the author.
async fn owner(client: &Client, author: &CommitArgs) -> Result<String, Failure> {
    let who = client.answer(client.access().who_am_i(request(v1::WhoAmIRequest {}))).await?;
    if who.method != "open" {
        return Ok(who.team);
    }
    let named = author.author.as_ref().or(Some(&author.user)).filter(|name| !name.is_empty());
    Ok(named.cloned().unwrap_or(who.name))
}

//! What a batch becomes before it is planned: conflicts settled, what is gone retired, and what is
//! there again restored. All of it is
//! decided against the registry at one revision, and the commit is refused if that is not the head.

use std::fmt;

use registry_core::{
    Catalog, Key,
    conflict::{OnConflict, Resolution, resolve_conflicts},
    prune::{Managed, prune},
};
use registry_proto::v1;
use serde::Serialize;

use crate::{
    batch::Batch,
    cli::{CommitArgs, PruneArgs},
    client::{Client, request},
    failure::Failure,
    follow::Follower,
    style::printable,
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

impl From<&Resolution> for Settled {
    fn from(settlement: &Resolution) -> Self {
        match settlement {
            Resolution::Skipped(key) => Self { key: key.to_string(), instead: None },
            Resolution::Bumped { from, to } => {
                Self { key: from.to_string(), instead: Some(to.to_string()) }
            }
        }
    }
}

/// Something in the files that was deprecated or retired on purpose, and stays so.
#[derive(Debug, Serialize)]
pub(super) struct Held {
    key: String,
    state: &'static str,
    /// Why, in the words of whoever did it.
    reason: Option<String>,
}

impl Held {
    /// Whether this entry has that key.
    pub(super) fn is_of(&self, key: &str) -> bool {
        self.key == key
    }
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, state, reason } = self;
        let reason =
            reason.as_ref().map(|reason| format!(" ({})", printable(reason))).unwrap_or_default();
        write!(
            f,
            "held: {key} stays {state}{reason}, because somebody said so; \
             `registryctl restore {key}` makes it active"
        )
    }
}

/// A batch that is ready to be planned.
#[derive(Default)]
pub(super) struct Prepared {
    pub(super) batch: Batch,
    /// The revision against which it was decided, if that mattered.
    pub(super) revision: Option<u64>,
    pub(super) settled: Vec<Settled>,
    pub(super) held: Vec<Held>,
}

/// Settles the conflicts of a batch, and prunes by it.
pub(super) async fn prepare(
    client: &Client,
    batch: Batch,
    on_conflict: OnConflict,
    pruned: &PruneArgs,
    author: &CommitArgs,
) -> Result<Prepared, Failure> {
    if on_conflict == OnConflict::Fail && !pruned.prune {
        return Ok(Prepared { batch, ..Prepared::default() });
    }
    let now = client.head().await?;
    let catalog = Follower::open(client, None).await?.catalog(now).await?;
    let settled = resolve_conflicts(&catalog, batch.proposals(), on_conflict)
        .map_err(|e| Failure::Rejected(e.to_string()))?;
    let mut changes: Vec<_> =
        settled.changes.into_iter().map(|(from, change)| (Some(from), change)).collect();
    let mut held = Vec::new();
    if let Some(source) = pruned.source.as_deref().filter(|_| pruned.prune) {
        let owner = match &pruned.owner {
            Some(owner) => owner.clone(),
            None => owner(client, author).await?,
        };
        // What was left out is in the files all the same.
        let wanted: Vec<_> = changes.iter().map(|(_, change)| change.clone()).collect();
        let in_files = [batch.proposals(), &wanted].concat();
        let pruning = prune(&catalog, &in_files, Managed { source, owner: &owner });
        let pruning = pruning.map_err(|e| Failure::Rejected(e.to_string()))?;
        changes.extend(pruning.changes.into_iter().map(|change| (None, change)));
        held = pruning.held.iter().filter_map(|key| held_in(&catalog, key)).collect();
    }
    Ok(Prepared {
        batch: batch.replaced(changes),
        revision: Some(catalog.revision().0),
        settled: settled.resolutions.iter().map(Settled::from).collect(),
        held,
    })
}

fn held_in(catalog: &Catalog, key: &Key) -> Option<Held> {
    let lifecycle = &catalog.find(key)?.lifecycle;
    Some(Held {
        key: key.to_string(),
        state: lifecycle.state.as_str(),
        reason: lifecycle.message().map(str::to_owned),
    })
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

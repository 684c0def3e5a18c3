//! Preparation of a batch: resolves conflicts, retires removed entities, and restores returned ones.
//!
//! All decisions are based on one revision. The commit is rejected if the registry has a later one.

use std::fmt;

use registry_core::{
    Catalog, Diagnostic, Key,
    conflict::{OnConflict, Resolution, resolve_conflicts},
    prune::{InvalidSource, Managed, NeededEntity, prune},
    rules::Proposed,
};
use registry_proto::v1;
use serde::Serialize;

use super::super::rejected_batch;
use crate::{
    batch::Batch,
    cli::{CommitArgs, PruneArgs},
    client::{Client, request},
    failure::Failure,
    follow::Follower,
    report::Finding,
    screen::Screen,
    style::printable,
};

/// A key that is registered with other content.
#[derive(Debug, Serialize)]
pub(super) struct ResolvedConflict {
    key: String,
    /// The new key; `None`: the entity is skipped.
    instead: Option<String>,
}

impl fmt::Display for ResolvedConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, instead } = self;
        match instead {
            Some(instead) => write!(f, "conflict: {key} is registered as {instead}"),
            None => write!(f, "conflict: {key} is registered with other content; skipped"),
        }
    }
}

impl From<&Resolution> for ResolvedConflict {
    fn from(settlement: &Resolution) -> Self {
        match settlement {
            Resolution::Skipped(key) => Self { key: key.to_string(), instead: None },
            Resolution::Bumped { from, to } => {
                Self { key: from.to_string(), instead: Some(to.to_string()) }
            }
        }
    }
}

/// An entity of the files that was explicitly deprecated or retired, so that it is not restored.
#[derive(Debug, Serialize)]
pub(super) struct HeldEntity {
    key: String,
    state: &'static str,
    /// The message of the deprecation or retirement.
    reason: Option<String>,
}

impl HeldEntity {
    pub(super) fn has_key(&self, key: &str) -> bool {
        self.key == key
    }
}

impl fmt::Display for HeldEntity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, state, reason } = self;
        let reason =
            reason.as_ref().map(|reason| format!(" ({})", printable(reason))).unwrap_or_default();
        write!(
            f,
            "held: {key} was explicitly set to {state}{reason}; `registryctl restore {key}` makes it \
             active"
        )
    }
}

/// An entity of the files with another owner, so that pruning never retires it.
#[derive(Debug, Serialize)]
pub(super) struct ForeignEntity {
    key: String,
    owner: String,
}

impl fmt::Display for ForeignEntity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, owner } = self;
        let owner = printable(owner);
        write!(
            f,
            "foreign: {key} belongs to {owner}, so that this run never retires it; change its owner \
             with `registryctl transfer`, or apply it in a run with `--owner {owner}`"
        )
    }
}

/// A removed entity that is deprecated instead of retired.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct KeptEntity {
    key: String,
    needed_by: Vec<String>,
}

impl From<&NeededEntity> for KeptEntity {
    fn from(NeededEntity { key, by }: &NeededEntity) -> Self {
        Self { key: key.to_string(), needed_by: by.iter().map(Key::to_string).collect() }
    }
}

impl fmt::Display for KeptEntity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, needed_by } = self;
        let first = needed_by.first().map_or("", String::as_str);
        write!(f, "kept: {key} is deprecated and not retired, because {first}")?;
        match needed_by.len().saturating_sub(1) {
            0 => write!(f, " needs it"),
            more => write!(f, " and {more} more need it"),
        }
    }
}

/// A batch that is ready for planning.
#[derive(Default)]
pub(super) struct Prepared {
    pub(super) batch: Batch,
    /// The revision that the decisions are based on.
    pub(super) revision: Option<u64>,
    pub(super) conflicts: Vec<ResolvedConflict>,
    pub(super) held: Vec<HeldEntity>,
    pub(super) foreign: Vec<ForeignEntity>,
    pub(super) kept: Vec<KeptEntity>,
}

/// Resolves the conflicts of a batch, and adds the changes of pruning.
pub(super) async fn prepare(
    (client, screen): (&Client, Screen),
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
    let (mut held, mut foreign, mut kept) = (Vec::new(), Vec::new(), Vec::new());
    if let Some(source) = pruned.managed_by.as_deref().filter(|_| pruned.prune) {
        let owner = match &pruned.owner {
            Some(owner) => owner.clone(),
            None => owner(client, author).await?,
        };
        // Skipped entities are still in the files.
        let wanted: Vec<_> = changes.iter().map(|(_, change)| change.clone()).collect();
        let in_files = [batch.proposals(), &wanted].concat();
        let from = |index: usize| match index.checked_sub(batch.proposals().len()) {
            Some(wanted) => changes.get(wanted).and_then(|(from, _)| *from),
            None => Some(index),
        };
        let pruning = prune(&catalog, &in_files, Managed { source, owner: &owner });
        let pruning = pruning.map_err(|invalid| match invalid {
            InvalidSource::Documents(found) => {
                let in_batch = |found: &Diagnostic| Finding {
                    change: found.change.and_then(from),
                    ..Finding::from(found)
                };
                rejected_batch(screen, &batch.report(found.iter().map(in_batch).collect()))
            }
            other => Failure::Rejected(other.to_string()),
        })?;
        changes.extend(pruning.changes.into_iter().map(|change| (None, change)));
        held = pruning.held.iter().filter_map(|key| held_in(&catalog, key)).collect();
        let documents = batch.proposals().iter().filter_map(Proposed::document);
        foreign = documents.filter_map(|new| foreign_in(&catalog, new.key(), &owner)).collect();
        kept = pruning.needed.iter().map(KeptEntity::from).collect();
    }
    Ok(Prepared {
        batch: batch.with_proposals(changes),
        revision: Some(catalog.revision().0),
        conflicts: settled.resolutions.iter().map(ResolvedConflict::from).collect(),
        held,
        foreign,
        kept,
    })
}

fn foreign_in(catalog: &Catalog, key: &Key, owner: &str) -> Option<ForeignEntity> {
    let other = Some(catalog.owner_of(catalog.find(key)?)).filter(|other| *other != owner)?;
    Some(ForeignEntity { key: key.to_string(), owner: other.to_owned() })
}

fn held_in(catalog: &Catalog, key: &Key) -> Option<HeldEntity> {
    let lifecycle = &catalog.find(key)?.lifecycle;
    Some(HeldEntity {
        key: key.to_string(),
        state: lifecycle.state.as_str(),
        reason: lifecycle.message().map(str::to_owned),
    })
}

/// The owner of the applied entities: the caller's team or, without authentication, the author.
async fn owner(client: &Client, author: &CommitArgs) -> Result<String, Failure> {
    let who = client.answer(client.access().who_am_i(request(v1::WhoAmIRequest {}))).await?;
    let is_open = who
        .authentication
        .as_ref()
        .is_none_or(|authentication| authentication.method() == v1::AuthenticationMethod::Disabled);
    if !is_open {
        return Ok(who.team);
    }
    let named = author.author.as_ref().or(Some(&author.user)).filter(|name| !name.is_empty());
    Ok(named.cloned().unwrap_or(who.name))
}

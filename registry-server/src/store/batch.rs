//! Converts commits to the rows of one append.
//!
//! A lifecycle change of an entity registered in the same batch is part of the entity's row, so no row is
//! written twice.

use std::collections::HashMap;

use registry_core::{
    Action, ChainHash, Change, Commit, Document, Key, Notice, Revision, SealedCommit, Timestamp,
    limits,
};
use serde::Serialize;

use super::{
    CommitEvent,
    row::{Registration, stored},
    sql_timestamp::SqlTimestamp,
};

/// Rows of one append.
pub(super) struct Batch<'a> {
    pub(super) head: Revision,
    pub(super) chain: ChainHash,
    pub(super) commits: Vec<NewCommit<'a>>,
    pub(super) changes: Vec<NewChange<'a>>,
    pub(super) entities: Vec<NewEntity<'a>>,
    pub(super) lifecycles: Vec<NewLifecycle<'a>>,
    pub(super) settings: Vec<NewSetting>,
    pub(super) requests: Vec<NewRequest<'a>>,
    /// Whether a commit repeats the request id of an earlier commit of the batch.
    pub(super) repeats_request: bool,
    pub(super) source: CommitSource<'a>,
}

/// Source of commits.
#[derive(Debug, Clone, Copy)]
pub(super) enum CommitSource<'a> {
    /// A server of this database, with access events.
    Local(&'a [CommitEvent]),
    /// The upstream registry, which has checked the request ids.
    Upstream,
}

impl<'a> Batch<'a> {
    /// Whether the commits come from the upstream registry.
    pub(super) fn is_copy(&self) -> bool {
        matches!(self.source, CommitSource::Upstream)
    }

    /// Access events of the commits.
    pub(super) fn events(&self) -> &'a [CommitEvent] {
        match self.source {
            CommitSource::Local(events) => events,
            CommitSource::Upstream => &[],
        }
    }
}

pub(super) struct NewCommit<'a> {
    pub(super) revision: i64,
    pub(super) author: &'a str,
    pub(super) committed_at: SqlTimestamp,
    pub(super) message: &'a str,
    pub(super) request_id: Option<&'a str>,
    pub(super) changes: i32,
    pub(super) chain: String,
    pub(super) canonical: &'a [u8],
}

/// A request id and its commit.
pub(super) struct NewRequest<'a> {
    pub(super) author: &'a str,
    pub(super) request_id: &'a str,
    pub(super) revision: i64,
    pub(super) committed_at: SqlTimestamp,
    /// Since this time, the same id of the same author is a retry.
    pub(super) retries_since: SqlTimestamp,
}

pub(super) struct NewKey<'a> {
    pub(super) kind: &'static str,
    pub(super) name: &'a str,
    pub(super) version: String,
}

pub(super) struct NewChange<'a> {
    pub(super) revision: i64,
    pub(super) ordinal: i32,
    pub(super) action: &'static str,
    pub(super) key: NewKey<'a>,
    /// Digest of the document, if the entity is registered in this batch.
    pub(super) digest: Option<String>,
    pub(super) reason: Option<&'a str>,
    /// Remaining data of the action, as a JSON object.
    pub(super) detail: Option<String>,
}

pub(super) struct NewEntity<'a> {
    pub(super) key: NewKey<'a>,
    pub(super) digest: String,
    pub(super) owner: &'a str,
    pub(super) registered_revision: i64,
    pub(super) state: NewState<'a>,
    pub(super) document: &'a [u8],
}

pub(super) struct NewLifecycle<'a> {
    pub(super) key: NewKey<'a>,
    pub(super) state: NewState<'a>,
}

#[derive(Clone)]
pub(super) struct NewState<'a> {
    pub(super) lifecycle: &'static str,
    pub(super) revision: i64,
    pub(super) reason: Option<&'a str>,
    /// Remaining data of the notice, as a JSON object.
    pub(super) notice: Option<String>,
}

pub(super) struct NewSetting {
    pub(super) revision: i64,
    pub(super) ordinal: i32,
    pub(super) selector: String,
    pub(super) setting: String,
}

impl<'a> NewKey<'a> {
    fn new(key: &'a Key) -> Self {
        let Key { kind, name, version } = key;
        Self { kind: kind.as_str(), name: name.as_str(), version: version.to_string() }
    }
}

impl<'a> NewState<'a> {
    pub(super) fn after(action: &'a Action, revision: i64) -> Self {
        let (reason, notice) = action.notice().map_or((None, None), split_notice);
        Self { lifecycle: action.state().as_str(), revision, reason, notice }
    }
}

impl<'a> Batch<'a> {
    /// Converts commits after the revision `expected`; `None` without commits. Fails if they are not consecutive.
    pub(super) fn new(
        expected: Revision,
        commits: &'a [SealedCommit],
        source: CommitSource<'a>,
    ) -> Result<Option<Self>, String> {
        let Some(last) = commits.last() else { return Ok(None) };
        check_order(expected, commits)?;
        let (mut changes, mut settings, mut states) = (Vec::new(), Vec::new(), States::default());
        for sealed in commits {
            let revision = stored(sealed.revision());
            settings.extend(new_settings(sealed.commit()));
            let mut documents = sealed.documents().iter();
            for (change, ordinal) in sealed.commit().changes.iter().zip(0_i32..) {
                // `SealedCommit` guarantees a document for each registration.
                let document = match change.action {
                    Action::Register { .. } => documents.next(),
                    _ => None,
                };
                let owner = owner(sealed.commit(), &change.action);
                states.change(revision, change, document.map(|d| (&**d, owner)));
                let digest = match document {
                    Some(document) => Some(document.digest().to_string()),
                    None => states.digest(&change.key),
                };
                changes.push(new_change(revision, ordinal, change, digest));
            }
        }
        let (requests, repeats_request) = new_requests(commits);
        Ok(Some(Self {
            head: last.revision(),
            chain: last.chain(),
            commits: commits.iter().map(new_commit).collect(),
            changes,
            entities: states.entities,
            lifecycles: states.lifecycles,
            settings,
            requests,
            repeats_request,
            source,
        }))
    }
}

/// Rejects commits that are not consecutive, because the log is immutable.
fn check_order(expected: Revision, commits: &[SealedCommit]) -> Result<(), String> {
    let mut head = expected;
    for sealed in commits {
        if sealed.revision() != head.next() {
            return Err(format!("revision {} cannot follow revision {head}", sealed.revision()));
        }
        head = sealed.revision();
    }
    for pair in commits.windows(2) {
        if pair[0].chain().append(pair[1].bytes()) != pair[1].chain() {
            return Err(format!(
                "revision {} is not chained to the previous revision",
                pair[1].revision()
            ));
        }
    }
    Ok(())
}

/// Time before which request ids have expired.
pub(super) fn retries_since(now: Timestamp) -> Timestamp {
    Timestamp::from_millis(now.as_millis().saturating_sub(limits::REQUEST_ID_MILLIS))
}

/// The last commit of each request id, and whether a commit repeats the id of an earlier one.
fn new_requests(commits: &[SealedCommit]) -> (Vec<NewRequest<'_>>, bool) {
    let (mut last, mut repeats) = (HashMap::new(), false);
    for Commit { author, request_id, revision, committed_at, .. } in
        commits.iter().map(SealedCommit::commit)
    {
        let Some(request_id) = request_id.as_deref() else { continue };
        let since = retries_since(*committed_at);
        let request = NewRequest {
            author,
            request_id,
            revision: stored(*revision),
            committed_at: SqlTimestamp(*committed_at),
            retries_since: SqlTimestamp(since),
        };
        let earlier = last.insert((author.as_str(), request_id), request);
        repeats |= earlier.is_some_and(|earlier| earlier.committed_at.0 > since);
    }
    (last.into_values().collect(), repeats)
}

fn new_commit(sealed: &SealedCommit) -> NewCommit<'_> {
    let commit = sealed.commit();
    NewCommit {
        revision: stored(commit.revision),
        author: &commit.author,
        committed_at: SqlTimestamp(commit.committed_at),
        message: &commit.message,
        request_id: commit.request_id.as_deref(),
        changes: i32::try_from(commit.changes.len()).unwrap_or(i32::MAX),
        chain: sealed.chain().to_string(),
        canonical: sealed.bytes(),
    }
}

/// Row of a change. `digest` is the digest of the entity's document.
pub(super) fn new_change(
    revision: i64,
    ordinal: i32,
    Change { key, action }: &Change,
    digest: Option<String>,
) -> NewChange<'_> {
    let (reason, detail) = match action {
        Action::Register { owner, broken_policies, .. } => {
            let (owner, broken_policies) = (owner.clone(), broken_policies.clone());
            let detail = Registration { owner, broken_policies };
            (None, (detail != Registration::default()).then(|| json(&detail)))
        }
        action => action.notice().map_or((None, None), split_notice),
    };
    let key = NewKey::new(key);
    NewChange { revision, ordinal, action: action.as_str(), key, digest, reason, detail }
}

/// Rows of the settings of a commit.
pub(super) fn new_settings(commit: &Commit) -> impl Iterator<Item = NewSetting> {
    let revision = stored(commit.revision);
    commit.settings.iter().zip(0_i32..).map(move |(change, ordinal)| NewSetting {
        revision,
        ordinal,
        selector: change.target.to_string(),
        setting: json(&change.setting),
    })
}

/// Owner of a registered entity.
pub(super) fn owner<'a>(commit: &'a Commit, action: &'a Action) -> &'a str {
    match action {
        Action::Register { owner: Some(owner), .. } => owner,
        _ => &commit.author,
    }
}

/// Message and remaining data of a notice.
fn split_notice(notice: &Notice) -> (Option<&str>, Option<String>) {
    let rest = Notice { message: None, ..notice.clone() };
    (notice.message.as_deref(), (!rest.is_empty()).then(|| json(&rest)))
}

fn json(value: &impl Serialize) -> String {
    // Strings and numbers always serialize.
    serde_json::to_string(value).unwrap_or_default()
}

/// Final states of the entities of a batch.
#[derive(Default)]
struct States<'a> {
    entities: Vec<NewEntity<'a>>,
    lifecycles: Vec<NewLifecycle<'a>>,
    entity_at: HashMap<&'a Key, usize>,
    lifecycle_at: HashMap<&'a Key, usize>,
}

impl<'a> States<'a> {
    /// Digest of an entity registered in this batch.
    fn digest(&self, key: &Key) -> Option<String> {
        self.entity_at.get(key).map(|at| self.entities[*at].digest.clone())
    }

    fn change(
        &mut self,
        revision: i64,
        Change { key, action }: &'a Change,
        registered: Option<(&'a Document, &'a str)>,
    ) {
        let state = NewState::after(action, revision);
        if let Some((document, owner)) = registered {
            self.entity_at.insert(key, self.entities.len());
            self.entities.push(NewEntity {
                key: NewKey::new(key),
                digest: document.digest().to_string(),
                owner,
                registered_revision: revision,
                state,
                document: document.bytes(),
            });
        } else if let Some(at) = self.entity_at.get(key) {
            self.entities[*at].state = state;
        } else if let Some(at) = self.lifecycle_at.get(key) {
            self.lifecycles[*at].state = state;
        } else {
            self.lifecycle_at.insert(key, self.lifecycles.len());
            self.lifecycles.push(NewLifecycle { key: NewKey::new(key), state });
        }
    }
}

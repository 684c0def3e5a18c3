//! Commits laid out as the rows that an append writes.
//!
//! A lifecycle change of an entity that the same batch registers goes into the entity's own row, so
//! that no row is written twice.

use std::collections::HashMap;

use registry_core::{
    Action, ChainHash, Change, Commit, Document, Key, Notice, Revision, SealedCommit, Timestamp,
    limits,
};
use serde::Serialize;

use super::{
    CommitEvent,
    at::At,
    row::{Owned, stored},
};

/// What one append writes.
pub(super) struct Batch<'a> {
    pub(super) head: Revision,
    pub(super) chain: ChainHash,
    pub(super) commits: Vec<NewCommit<'a>>,
    pub(super) changes: Vec<NewChange<'a>>,
    pub(super) entities: Vec<NewEntity<'a>>,
    pub(super) lifecycles: Vec<NewLifecycle<'a>>,
    pub(super) settings: Vec<NewSetting>,
    pub(super) requests: Vec<NewRequest<'a>>,
    pub(super) made: Made<'a>,
}

/// Where commits were made.
#[derive(Debug, Clone, Copy)]
pub(super) enum Made<'a> {
    /// By a server of this database, with their lines of the trail of access.
    Here(&'a [CommitEvent]),
    /// By another registry, which has judged their request ids.
    Elsewhere,
}

impl<'a> Batch<'a> {
    /// Whether the commits are another registry's.
    pub(super) fn is_copy(&self) -> bool {
        matches!(self.made, Made::Elsewhere)
    }

    /// New lines of the trail of access.
    pub(super) fn events(&self) -> &'a [CommitEvent] {
        match self.made {
            Made::Here(events) => events,
            Made::Elsewhere => &[],
        }
    }
}

pub(super) struct NewCommit<'a> {
    pub(super) revision: i64,
    pub(super) author: &'a str,
    pub(super) committed_at: At,
    pub(super) message: &'a str,
    /// None also where an earlier commit of the batch has the id in this unique column.
    pub(super) request_id: Option<&'a str>,
    /// Since when the same id of the same author is a retry.
    pub(super) retries_since: At,
    pub(super) changes: i32,
    pub(super) chain: String,
    pub(super) canonical: &'a [u8],
}

/// The commit of a request.
pub(super) struct NewRequest<'a> {
    pub(super) author: &'a str,
    pub(super) request_id: &'a str,
    pub(super) revision: i64,
    pub(super) committed_at: At,
    pub(super) retries_since: At,
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
    /// The digest of the entity's document, where this batch knows it.
    pub(super) digest: Option<String>,
    pub(super) reason: Option<&'a str>,
    /// Everything else that the action says, as a JSON object.
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
    /// Everything else that was said, as a JSON object.
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
        let (reason, notice) = action.notice().map_or((None, None), said);
        Self { lifecycle: action.state().as_str(), revision, reason, notice }
    }
}

impl<'a> Batch<'a> {
    /// Lays out commits that follow on `expected`. `None`: there are none. An error says where
    /// they do not follow on each other.
    pub(super) fn new(
        expected: Revision,
        commits: &'a [SealedCommit],
        made: Made<'a>,
    ) -> Result<Option<Self>, String> {
        let Some(last) = commits.last() else { return Ok(None) };
        check_order(expected, commits)?;
        let (mut changes, mut settings, mut states) = (Vec::new(), Vec::new(), States::default());
        for sealed in commits {
            let revision = stored(sealed.revision());
            settings.extend(new_settings(sealed.commit()));
            let mut documents = sealed.documents().iter();
            for (change, ordinal) in sealed.commit().changes.iter().zip(0_i32..) {
                // `SealedCommit` proves that each registration comes with its document.
                let document = match change.action {
                    Action::Register { .. } => documents.next(),
                    _ => None,
                };
                let owner = owner(sealed.commit(), &change.action);
                states.change(revision, change, document.map(|d| (&**d, owner)));
                changes.push(new_change(revision, ordinal, change, states.digest(&change.key)));
            }
        }
        Ok(Some(Self {
            head: last.revision(),
            chain: last.chain(),
            commits: new_commits(commits, matches!(made, Made::Elsewhere)),
            changes,
            entities: states.entities,
            lifecycles: states.lifecycles,
            settings,
            requests: new_requests(commits),
            made,
        }))
    }
}

/// The log is for ever, so whatever would tear it is refused before it is written.
fn check_order(expected: Revision, commits: &[SealedCommit]) -> Result<(), String> {
    let mut head = expected;
    for sealed in commits {
        if sealed.revision() != head.next() {
            return Err(format!("revision {} cannot follow revision {head}", sealed.revision()));
        }
        head = sealed.revision();
    }
    for pair in commits.windows(2) {
        if pair[0].chain().then(pair[1].bytes()) != pair[1].chain() {
            return Err(format!(
                "revision {} is not chained to the one before",
                pair[1].revision()
            ));
        }
    }
    Ok(())
}

fn new_commits(commits: &[SealedCommit], is_copy: bool) -> Vec<NewCommit<'_>> {
    let mut held: HashMap<&str, &Commit> = HashMap::new();
    let mut rows = Vec::with_capacity(commits.len());
    for sealed in commits {
        let (commit, mut row) = (sealed.commit(), new_commit(sealed));
        if let Some(id) = row.request_id {
            let earlier = *held.entry(id).or_insert(commit);
            // A repetition stays, so that the database refuses the batch.
            let is_other = is_copy || !is_retry(earlier, commit);
            row.request_id = (earlier.revision == commit.revision || !is_other).then_some(id);
        }
        rows.push(row);
    }
    rows
}

/// Whether the later of two commits with the same request id would be the same request again.
fn is_retry(earlier: &Commit, later: &Commit) -> bool {
    earlier.author == later.author && earlier.committed_at > retries_since(later.committed_at)
}

/// A request that made a commit at this time or before it is forgotten now.
pub(super) fn retries_since(now: Timestamp) -> Timestamp {
    Timestamp::from_millis(now.as_millis().saturating_sub(limits::REQUEST_ID_MILLIS))
}

/// The last commit of each request.
fn new_requests(commits: &[SealedCommit]) -> Vec<NewRequest<'_>> {
    let mut last = HashMap::new();
    for Commit { author, request_id, revision, committed_at, .. } in
        commits.iter().map(SealedCommit::commit)
    {
        let Some(request_id) = request_id.as_deref() else { continue };
        let request = NewRequest {
            author,
            request_id,
            revision: stored(*revision),
            committed_at: At(*committed_at),
            retries_since: At(retries_since(*committed_at)),
        };
        last.insert((author.as_str(), request_id), request);
    }
    last.into_values().collect()
}

fn new_commit(sealed: &SealedCommit) -> NewCommit<'_> {
    let commit = sealed.commit();
    NewCommit {
        revision: stored(commit.revision),
        author: &commit.author,
        committed_at: At(commit.committed_at),
        message: &commit.message,
        request_id: commit.request_id.as_deref(),
        retries_since: At(retries_since(commit.committed_at)),
        changes: i32::try_from(commit.changes.len()).unwrap_or(i32::MAX),
        chain: sealed.chain().to_string(),
        canonical: sealed.bytes(),
    }
}

/// The row of a change; `digest` is the one of its entity's document.
pub(super) fn new_change(
    revision: i64,
    ordinal: i32,
    Change { key, action }: &Change,
    digest: Option<String>,
) -> NewChange<'_> {
    let (reason, detail) = match action {
        Action::Register { owner: Some(owner), .. } => {
            (None, Some(json(&Owned { owner: owner.clone() })))
        }
        action => action.notice().map_or((None, None), said),
    };
    let key = NewKey::new(key);
    NewChange { revision, ordinal, action: action.as_str(), key, digest, reason, detail }
}

/// The rows of what a commit sets.
pub(super) fn new_settings(commit: &Commit) -> impl Iterator<Item = NewSetting> {
    let revision = stored(commit.revision);
    commit.settings.iter().zip(0_i32..).map(move |(change, ordinal)| NewSetting {
        revision,
        ordinal,
        selector: change.on.to_string(),
        setting: json(&change.setting),
    })
}

/// Who owns what an action of a commit registers.
pub(super) fn owner<'a>(commit: &'a Commit, action: &'a Action) -> &'a str {
    match action {
        Action::Register { owner: Some(owner), .. } => owner,
        _ => &commit.author,
    }
}

/// The reason, and everything else that a lifecycle change says.
fn said(notice: &Notice) -> (Option<&str>, Option<String>) {
    let rest = Notice { message: None, ..notice.clone() };
    (notice.message.as_deref(), (!rest.is_empty()).then(|| json(&rest)))
}

fn json(value: &impl Serialize) -> String {
    // Only plain values of texts come here, all of which serialize.
    serde_json::to_string(value).unwrap_or_default()
}

/// The states that entities end up in, each once.
#[derive(Default)]
struct States<'a> {
    entities: Vec<NewEntity<'a>>,
    lifecycles: Vec<NewLifecycle<'a>>,
    entity_at: HashMap<&'a Key, usize>,
    lifecycle_at: HashMap<&'a Key, usize>,
}

impl<'a> States<'a> {
    /// The digest of an entity that this batch registers.
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

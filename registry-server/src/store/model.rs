//! Queries of the log and their results.

use bytes::Bytes;
use registry_core::{
    Action, ChainHash, Commit, Key, Kind, Name, Revision, Selector, SettingChange, Timestamp,
    Version,
};

/// A commit without its changes.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredCommitHeader {
    /// Revision.
    pub revision: Revision,
    /// Author.
    pub author: String,
    /// Time of the commit.
    pub committed_at: Timestamp,
    /// Commit message.
    pub message: String,
    /// Request id of the author.
    pub request_id: Option<String>,
    /// Number of changes.
    pub changes: usize,
    /// Chain hash after the commit.
    pub chain: ChainHash,
}

/// A stored commit without the registered documents.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredCommit {
    /// The commit with its changes.
    pub commit: Commit,
    /// Chain hash after the commit.
    pub chain: ChainHash,
    /// Canonical bytes covered by the chain.
    pub canonical: Bytes,
}

/// Order of commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// Ascending revisions.
    #[default]
    OldestFirst,
    /// Descending revisions.
    NewestFirst,
}

/// A filter of commits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommitFilter {
    /// Commits that change an entity or a setting of its name.
    Entity(EntityFilter),
    /// Commits that change a setting of exactly this selector.
    Setting(Selector),
}

impl CommitFilter {
    /// Range of selectors whose settings match the filter, in byte order.
    pub(super) fn selectors(&self) -> Option<(String, String)> {
        match self {
            Self::Setting(target) => Some((target.to_string(), target.to_string())),
            Self::Entity(EntityFilter { kind, name: None, .. }) => {
                Some((format!("{kind}/"), format!("{kind}/{}", char::MAX)))
            }
            Self::Entity(EntityFilter { kind, name: Some(name), version: None }) => {
                Self::Setting(Selector::Name(*kind, name.clone())).selectors()
            }
            Self::Entity(EntityFilter { version: Some(_), .. }) => None,
        }
    }
}

/// A filter of entities.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntityFilter {
    /// Entities of this kind.
    pub kind: Kind,
    /// Only this name.
    pub name: Option<Name>,
    /// Only this version.
    pub version: Option<Version>,
}

/// A query of commits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitQuery {
    /// Only commits after this revision.
    pub after: Option<Revision>,
    /// Only commits before this revision.
    pub before: Option<Revision>,
    /// Only commits of this author.
    pub author: Option<String>,
    /// Only commits that match this filter.
    pub filter: Option<CommitFilter>,
    /// Order of the result.
    pub order: Order,
    /// Maximum number of commits.
    pub limit: usize,
}

impl CommitQuery {
    /// Query of the commits after a revision, oldest first.
    pub(super) fn following(after: Revision, limit: usize) -> Self {
        let order = Order::OldestFirst;
        Self { after: Some(after), before: None, author: None, filter: None, order, limit }
    }
}

/// A query of an entity's history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryQuery {
    /// The kind.
    pub kind: Kind,
    /// The name.
    pub name: Name,
    /// Only this version.
    pub version: Option<Version>,
    /// Only events after this revision and ordinal.
    pub after: Option<(Revision, u32)>,
    /// Only events up to this revision.
    pub until: Revision,
    /// Maximum number of events.
    pub limit: usize,
}

/// A change of an entity with the data of its commit.
#[derive(Debug, Clone, PartialEq)]
pub struct EntityEvent {
    /// Revision.
    pub revision: Revision,
    /// Position in the commit, from 0.
    pub ordinal: u32,
    /// Entity.
    pub key: Key,
    /// Change.
    pub action: Action,
    /// Author.
    pub author: String,
    /// Time of the commit.
    pub committed_at: Timestamp,
    /// Commit message.
    pub message: String,
}

/// A setting of a name with the data of its commit.
#[derive(Debug, Clone, PartialEq)]
pub struct SettingEvent {
    /// Revision.
    pub revision: Revision,
    /// Position in the commit, after all of its changes.
    pub ordinal: u32,
    /// Setting.
    pub set: SettingChange,
    /// Author.
    pub author: String,
    /// Time of the commit.
    pub committed_at: Timestamp,
    /// Commit message.
    pub message: String,
}

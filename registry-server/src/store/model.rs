//! What the store takes and gives beside catalogs and sealed commits: queries of the log and
//! their answers.

use bytes::Bytes;
use registry_core::{
    Action, ChainHash, Commit, Key, Kind, Name, Revision, Selector, SettingChange, Timestamp,
    Version,
};

/// A commit without its changes.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredCommitHeader {
    /// Its number.
    pub revision: Revision,
    /// Who made it.
    pub author: String,
    /// When the server accepted it.
    pub committed_at: Timestamp,
    /// Why.
    pub message: String,
    /// The author's id of the request.
    pub request_id: Option<String>,
    /// How many changes it has.
    pub changes: usize,
    /// The chain hash after it.
    pub chain: ChainHash,
}

/// A commit as it is stored, without the documents that it registers.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredCommit {
    /// The commit with its changes.
    pub commit: Commit,
    /// The chain hash after it.
    pub chain: ChainHash,
    /// The canonical bytes that the chain covers.
    pub canonical: Bytes,
}

/// In which order to list commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// By revision, upwards.
    #[default]
    OldestFirst,
    /// By revision, downwards.
    NewestFirst,
}

/// What commits are about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// They change an entity, or set something about its name.
    Entity(About),
    /// They set something about exactly this.
    Set(Selector),
}

impl Subject {
    /// The first and the last selector, in the order of their bytes, of settings that belong to it.
    pub(super) fn selectors(&self) -> Option<(String, String)> {
        match self {
            Self::Set(on) => Some((on.to_string(), on.to_string())),
            Self::Entity(About { kind, name: None, .. }) => {
                Some((format!("{kind}/"), format!("{kind}/{}", char::MAX)))
            }
            Self::Entity(About { kind, name: Some(name), version: None }) => {
                Self::Set(Selector::Name(*kind, name.clone())).selectors()
            }
            Self::Entity(About { version: Some(_), .. }) => None,
        }
    }
}

/// Which entities.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct About {
    /// Entities of this kind.
    pub kind: Kind,
    /// Only of this name.
    pub name: Option<Name>,
    /// Only this version.
    pub version: Option<Version>,
}

/// Which commits to list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitQuery {
    /// Only those after this revision.
    pub after: Option<Revision>,
    /// Only those before this revision.
    pub before: Option<Revision>,
    /// Only those by this author.
    pub author: Option<String>,
    /// Only those that are about this.
    pub about: Option<Subject>,
    /// In which order.
    pub order: Order,
    /// At most how many.
    pub limit: usize,
}

impl CommitQuery {
    /// So many commits after a revision, in order.
    pub(super) fn following(after: Revision, limit: usize) -> Self {
        let order = Order::OldestFirst;
        Self { after: Some(after), before: None, author: None, about: None, order, limit }
    }
}

/// Whose history to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryQuery {
    /// The kind.
    pub kind: Kind,
    /// The name.
    pub name: Name,
    /// Only this version.
    pub version: Option<Version>,
    /// Only what comes after this change: its revision and its place in the commit.
    pub after: Option<(Revision, u32)>,
    /// Only what had happened when this revision was made.
    pub until: Revision,
    /// At most how many.
    pub limit: usize,
}

/// One change of one entity, with what its commit says.
#[derive(Debug, Clone, PartialEq)]
pub struct EntityEvent {
    /// In which revision.
    pub revision: Revision,
    /// Its place in the commit, from 0.
    pub ordinal: u32,
    /// Which entity.
    pub key: Key,
    /// What was done to it.
    pub action: Action,
    /// By whom.
    pub author: String,
    /// When.
    pub committed_at: Timestamp,
    /// Why: the commit's message.
    pub message: String,
}

/// One setting of a name, with what its commit says.
#[derive(Debug, Clone, PartialEq)]
pub struct SettingEvent {
    /// In which revision.
    pub revision: Revision,
    /// Its place in the commit, after all changes of it.
    pub ordinal: u32,
    /// What was set.
    pub set: SettingChange,
    /// By whom.
    pub author: String,
    /// When.
    pub committed_at: Timestamp,
    /// Why: the commit's message.
    pub message: String,
}

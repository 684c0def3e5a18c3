//! What a commit does to one entity, and how that is written.

use serde::{Deserialize, Serialize};

use crate::{
    chain::Revision,
    document::Digest,
    kind::Kind,
    lifecycle::{Lifecycle, LifecycleState, Notice},
    reference::{InvalidKey, Key},
    timestamp::Timestamp,
};

/// What is done to one entity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "lowercase", rename_all_fields = "camelCase")]
pub enum Action {
    /// A new entity with this document.
    Register {
        /// The document's digest.
        digest: Digest,
        /// Who owns the name. Absent: the commit's author.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        owner: Option<String>,
    },
    /// Still usable, but nobody should begin to depend on it.
    Deprecate(Notice),
    /// No longer to be depended on.
    Retire(Notice),
    /// Active again.
    Restore,
}

impl Action {
    /// The action as one word: `register`.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Register { .. } => "register",
            Self::Deprecate(_) => "deprecate",
            Self::Retire(_) => "retire",
            Self::Restore => "restore",
        }
    }

    /// The lifecycle state that it leads to.
    pub fn state(&self) -> LifecycleState {
        match self {
            Self::Register { .. } | Self::Restore => LifecycleState::Active,
            Self::Deprecate(_) => LifecycleState::Deprecated,
            Self::Retire(_) => LifecycleState::Retired,
        }
    }

    /// What a lifecycle change says to those who use the entity.
    pub fn notice(&self) -> Option<&Notice> {
        match self {
            Self::Deprecate(notice) | Self::Retire(notice) => Some(notice),
            Self::Register { .. } | Self::Restore => None,
        }
    }
}

/// One change of a commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "FlatChange", into = "FlatChange")]
pub struct Change {
    /// Which entity.
    pub key: Key,
    /// What is done to it.
    pub action: Action,
}

/// A change as it is written: key and action side by side.
#[derive(Serialize, Deserialize)]
struct FlatChange {
    kind: Kind,
    name: String,
    version: String,
    #[serde(flatten)]
    action: Action,
}

impl From<Change> for FlatChange {
    fn from(Change { key, action }: Change) -> Self {
        let (name, version) = (key.name.to_string(), key.version.to_string());
        Self { kind: key.kind, name, version, action }
    }
}

impl TryFrom<FlatChange> for Change {
    type Error = InvalidKey;

    fn try_from(
        FlatChange { kind, name, version, action }: FlatChange,
    ) -> Result<Self, InvalidKey> {
        Ok(Self { key: Key::parse(kind, &name, &version)?, action })
    }
}

impl Lifecycle {
    /// The lifecycle after an action.
    pub fn after(action: &Action, at: (Revision, Timestamp)) -> Self {
        Self::new(action.state(), action.notice().cloned().unwrap_or_default(), at)
    }
}

//! Changes of a commit and their serialized form.

use serde::{Deserialize, Serialize};

use crate::{
    chain::Revision,
    document::Digest,
    kind::Kind,
    lifecycle::{Lifecycle, LifecycleState, Notice},
    reference::{InvalidKey, Key},
    timestamp::Timestamp,
};

/// An operation on one entity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "lowercase", rename_all_fields = "camelCase")]
pub enum Action {
    /// Registers a new entity.
    Register {
        /// The document's digest.
        digest: Digest,
        /// The owner of the name; absent if it is the commit's author.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        owner: Option<String>,
        /// The policies in force that the entity does not fit. Its calls are denied.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        broken_policies: Vec<Key>,
    },
    /// Keeps the entity usable, but discourages new dependencies.
    Deprecate(Notice),
    /// Forbids dependencies on the entity.
    Retire(Notice),
    /// Makes the entity active again.
    Restore,
}

impl Action {
    /// A registration whose name belongs to the author of the commit.
    pub fn register(digest: Digest) -> Self {
        Self::Register { digest, owner: None, broken_policies: Vec::new() }
    }

    /// The serialized name: `register`.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Register { .. } => "register",
            Self::Deprecate(_) => "deprecate",
            Self::Retire(_) => "retire",
            Self::Restore => "restore",
        }
    }

    /// The lifecycle state after the action.
    pub fn state(&self) -> LifecycleState {
        match self {
            Self::Register { .. } | Self::Restore => LifecycleState::Active,
            Self::Deprecate(_) => LifecycleState::Deprecated,
            Self::Retire(_) => LifecycleState::Retired,
        }
    }

    /// The notice of a lifecycle change for users of the entity.
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
    /// The entity's key.
    pub key: Key,
    /// The operation on it.
    pub action: Action,
}

/// The serialized form, with key and action in one object.
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

//! Changes of a commit and their serialized form, whose members are in canonical order.

use serde::{Deserialize, Serialize, Serializer};

use crate::{
    chain::Revision,
    document::Digest,
    kind::Kind,
    lifecycle::{Lifecycle, LifecycleState, Notice},
    reference::{InvalidKey, Key},
    setting::{Selector, Setting, SettingChange},
    timestamp::{Date, Timestamp},
    version::Version,
};

/// An operation on one entity.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "action", rename_all = "lowercase", rename_all_fields = "camelCase")]
pub enum Action {
    /// Registers a new entity.
    Register {
        /// The document's digest.
        digest: Digest,
        /// The owner of the name; absent if it is the commit's author.
        #[serde(default)]
        owner: Option<String>,
        /// The policies in force that the entity does not fit. Its calls are denied.
        #[serde(default)]
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
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "FlatChange")]
pub struct Change {
    /// The entity's key.
    pub key: Key,
    /// The operation on it.
    pub action: Action,
}

/// The serialized form, with key and action in one object.
#[derive(Deserialize)]
struct FlatChange {
    kind: Kind,
    name: String,
    version: String,
    #[serde(flatten)]
    action: Action,
}

/// The same form with its members in canonical order.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CanonicalChange<'a> {
    action: &'static str,
    #[serde(skip_serializing_if = "<[Key]>::is_empty")]
    broken_policies: &'a [Key],
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<&'a Digest>,
    #[serde(skip_serializing_if = "Option::is_none")]
    force_reason: Option<&'a str>,
    kind: Kind,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    replacement: Option<&'a Key>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sunset_date: Option<Date>,
    version: &'a Version,
}

impl Serialize for Change {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { key, action } = self;
        let (digest, owner, broken_policies): (_, _, &[Key]) = match action {
            Action::Register { digest, owner, broken_policies } => {
                (Some(digest), owner.as_deref(), broken_policies)
            }
            Action::Deprecate(_) | Action::Retire(_) | Action::Restore => (None, None, &[]),
        };
        let notice = action.notice();
        let flat = CanonicalChange {
            action: action.as_str(),
            broken_policies,
            digest,
            force_reason: notice.and_then(|notice| notice.force_reason.as_deref()),
            kind: key.kind,
            message: notice.and_then(|notice| notice.message.as_deref()),
            name: key.name.as_str(),
            owner,
            replacement: notice.and_then(|notice| notice.replacement.as_ref()),
            sunset_date: notice.and_then(|notice| notice.sunset_date),
            version: &key.version,
        };
        flat.serialize(serializer)
    }
}

/// The serialized form of a setting with its members in canonical order.
#[derive(Serialize)]
struct CanonicalSetting<'a> {
    #[serde(flatten)]
    setting: &'a Setting,
    target: &'a Selector,
}

/// Serializes the settings of a commit. Those of a request have another order, which its digest covers.
pub(super) fn serialize_settings<S: Serializer>(
    settings: &[SettingChange],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(
        settings
            .iter()
            .map(|SettingChange { target, setting }| CanonicalSetting { setting, target }),
    )
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

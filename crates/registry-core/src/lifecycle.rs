//! The lifecycle of an entity (active, deprecated or retired) and its notice for users.

use std::{fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{
    chain::Revision,
    reference::Key,
    timestamp::{Date, Timestamp},
    visible::escape_invisible,
};

/// The lifecycle state of an entity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LifecycleState {
    /// Without restrictions.
    Active,
    /// Usable; new dependencies cause a warning.
    Deprecated,
    /// New dependencies are rejected.
    Retired,
}

impl LifecycleState {
    /// The state in lower case: `active`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Deprecated => "deprecated",
            Self::Retired => "retired",
        }
    }
}

impl fmt::Display for LifecycleState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The text is not a lifecycle state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a lifecycle state; the states are active, deprecated and retired")]
pub struct InvalidLifecycleState(String);

impl FromStr for LifecycleState {
    type Err = InvalidLifecycleState;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        [Self::Active, Self::Deprecated, Self::Retired]
            .into_iter()
            .find(|state| state.as_str() == text)
            .ok_or_else(|| InvalidLifecycleState(escape_invisible(text)))
    }
}

/// The message of a deprecation or retirement for users of the entity.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Notice {
    /// The author's reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The recommended replacement, which was registered at the time of the notice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replacement: Option<Key>,
    /// The sunset date: the entity may be removed on or after this day (UTC).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sunset_date: Option<Date>,
    /// The reason for retiring it despite active dependents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub force_reason: Option<String>,
}

impl Notice {
    /// A notice with an optional reason and nothing else.
    pub fn with_message(message: Option<&str>) -> Self {
        Self { message: message.map(str::to_owned), ..Self::default() }
    }

    /// Whether no field is set.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The size of the free text in bytes.
    pub fn text_bytes(&self) -> usize {
        [&self.message, &self.force_reason].into_iter().flatten().map(String::len).sum()
    }
}

/// The lifecycle of an entity. Commits change it without touching the document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lifecycle {
    /// The state.
    pub state: LifecycleState,
    /// The notice of the last change; `None` if it had none.
    pub notice: Option<Arc<Notice>>,
    /// The revision of the last change, initially of the registration.
    pub revision: Revision,
    /// The time of the last change.
    pub changed_at: Timestamp,
}

impl Lifecycle {
    /// A lifecycle state with a notice.
    pub fn new(
        state: LifecycleState,
        notice: Notice,
        (revision, changed_at): (Revision, Timestamp),
    ) -> Self {
        let notice = (!notice.is_empty()).then(|| Arc::new(notice));
        Self { state, notice, revision, changed_at }
    }

    /// The lifecycle of a newly registered entity.
    pub fn active(since: (Revision, Timestamp)) -> Self {
        Self::new(LifecycleState::Active, Notice::default(), since)
    }

    /// The reason given by the last change.
    pub fn message(&self) -> Option<&str> {
        self.notice.as_ref()?.message.as_deref()
    }

    /// The recommended replacement.
    pub fn replacement(&self) -> Option<&Key> {
        self.notice.as_ref()?.replacement.as_ref()
    }

    /// The sunset date.
    pub fn sunset_date(&self) -> Option<Date> {
        self.notice.as_ref()?.sunset_date
    }

    /// The reason for retiring it despite active dependents.
    pub fn force_reason(&self) -> Option<&str> {
        self.notice.as_ref()?.force_reason.as_deref()
    }

    /// Whether this is the lifecycle after a change to this state with this notice.
    pub fn is(&self, state: LifecycleState, notice: &Notice) -> bool {
        self.state == state
            && match &self.notice {
                Some(said) => **said == *notice,
                None => notice.is_empty(),
            }
    }
}

//! Where an entity is in its life: active, deprecated or retired, and what those who use it are
//! told about it.

use std::{fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{
    chain::Revision,
    reference::Key,
    timestamp::{Date, Timestamp},
};

/// Whether an entity may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LifecycleState {
    /// In use.
    Active,
    /// Usable; new dependencies get a warning.
    Deprecated,
    /// New dependencies are refused.
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

/// A text that is not a lifecycle state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a lifecycle state; the states are active, deprecated and retired")]
pub struct InvalidLifecycleState(String);

impl FromStr for LifecycleState {
    type Err = InvalidLifecycleState;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        [Self::Active, Self::Deprecated, Self::Retired]
            .into_iter()
            .find(|state| state.as_str() == text)
            .ok_or_else(|| InvalidLifecycleState(text.to_owned()))
    }
}

/// What a deprecation or a retirement tells those who use the entity.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Notice {
    /// Why, in the author's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What to use instead; it was registered when the notice was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replacement: Option<Key>,
    /// The day from which nobody should count on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sunset: Option<Date>,
    /// Why it was retired although something active depends on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forced: Option<String>,
}

impl Notice {
    /// A notice that gives a reason, or none.
    pub fn saying(message: Option<&str>) -> Self {
        Self { message: message.map(str::to_owned), ..Self::default() }
    }

    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Its free text, in bytes.
    pub fn text_bytes(&self) -> usize {
        [&self.message, &self.forced].into_iter().flatten().map(String::len).sum()
    }
}

/// Where an entity is in its life; changes of it are commits, but never touch the document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lifecycle {
    /// The state.
    pub state: LifecycleState,
    /// What the last change said; `None`: nothing.
    pub notice: Option<Arc<Notice>>,
    /// The revision of the last change (at first, of the registration).
    pub revision: Revision,
    /// When that was.
    pub changed_at: Timestamp,
}

impl Lifecycle {
    /// A lifecycle state with what was said about it.
    pub fn new(
        state: LifecycleState,
        notice: Notice,
        (revision, changed_at): (Revision, Timestamp),
    ) -> Self {
        let notice = (!notice.is_empty()).then(|| Arc::new(notice));
        Self { state, notice, revision, changed_at }
    }

    /// The lifecycle of what was just registered.
    pub fn active(since: (Revision, Timestamp)) -> Self {
        Self::new(LifecycleState::Active, Notice::default(), since)
    }

    /// The reason that the last change gave.
    pub fn message(&self) -> Option<&str> {
        self.notice.as_ref()?.message.as_deref()
    }

    /// What to use instead.
    pub fn replacement(&self) -> Option<&Key> {
        self.notice.as_ref()?.replacement.as_ref()
    }

    /// The day from which nobody should count on it.
    pub fn sunset(&self) -> Option<Date> {
        self.notice.as_ref()?.sunset
    }

    /// Why it was retired although something active depends on it.
    pub fn forced(&self) -> Option<&str> {
        self.notice.as_ref()?.forced.as_deref()
    }

    /// Whether the last change led here and said just this.
    pub fn is(&self, state: LifecycleState, notice: &Notice) -> bool {
        self.state == state
            && match &self.notice {
                Some(said) => **said == *notice,
                None => notice.is_empty(),
            }
    }
}

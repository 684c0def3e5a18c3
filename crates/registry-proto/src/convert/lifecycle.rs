//! Converts lifecycles and their states.

use registry_core::{Key, Lifecycle, LifecycleState, Notice, Revision, timestamp::InvalidDate};

use super::{
    key::InvalidEntityKey,
    time::{InvalidTime, read_timestamp, timestamp},
};
use crate::v1;

/// A lifecycle state that is missing or unknown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidState {
    /// `LIFECYCLE_STATE_UNSPECIFIED`, or an absent field.
    #[error("the lifecycle state is missing; set it to active, deprecated or retired")]
    Unspecified,
    /// An unknown number.
    #[error("unknown lifecycle state {0}")]
    Unknown(i32),
}

/// An invalid lifecycle.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidLifecycle {
    /// The lifecycle is absent.
    #[error("the lifecycle is missing")]
    Missing,
    /// An invalid state.
    #[error(transparent)]
    State(#[from] InvalidState),
    /// An invalid notice.
    #[error(transparent)]
    Notice(#[from] InvalidNotice),
    /// The time of the last change is absent.
    #[error("the time of the last change is missing")]
    NoTime,
    /// An invalid time of the last change.
    #[error(transparent)]
    Time(#[from] InvalidTime),
}

impl From<LifecycleState> for v1::LifecycleState {
    fn from(state: LifecycleState) -> Self {
        match state {
            LifecycleState::Active => Self::Active,
            LifecycleState::Deprecated => Self::Deprecated,
            LifecycleState::Retired => Self::Retired,
        }
    }
}

/// Reads a required state.
pub fn state(number: i32) -> Result<LifecycleState, InvalidState> {
    match v1::LifecycleState::try_from(number).map_err(|_| InvalidState::Unknown(number))? {
        v1::LifecycleState::Unspecified => Err(InvalidState::Unspecified),
        v1::LifecycleState::Active => Ok(LifecycleState::Active),
        v1::LifecycleState::Deprecated => Ok(LifecycleState::Deprecated),
        v1::LifecycleState::Retired => Ok(LifecycleState::Retired),
    }
}

/// Reads the states of a filter.
pub fn filter_states(numbers: &[i32]) -> Result<Vec<LifecycleState>, InvalidState> {
    numbers.iter().map(|number| state(*number)).collect()
}

/// An invalid notice.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidNotice {
    /// An invalid replacement.
    #[error("invalid replacement: {0}")]
    Replacement(Box<InvalidEntityKey>),
    /// An invalid date.
    #[error("invalid sunset_date: {0}")]
    Sunset(#[from] InvalidDate),
}

/// Reads the notice of a lifecycle from its fields.
pub(super) fn notice(
    message: Option<String>,
    replacement: Option<v1::EntityKey>,
    sunset_date: Option<String>,
    force_reason: Option<String>,
) -> Result<Notice, InvalidNotice> {
    let replacement = replacement.map(Key::try_from).transpose();
    let replacement = replacement.map_err(|e| InvalidNotice::Replacement(Box::new(e)))?;
    let sunset_date = sunset_date.map(|date| date.parse()).transpose()?;
    Ok(Notice { message, replacement, sunset_date, force_reason })
}

impl From<&Lifecycle> for v1::Lifecycle {
    fn from(lifecycle: &Lifecycle) -> Self {
        let Lifecycle { state, notice, revision, changed_at } = lifecycle;
        let notice = notice.as_deref();
        Self {
            state: v1::LifecycleState::from(*state).into(),
            message: lifecycle.message().map(str::to_owned),
            revision: revision.0,
            replacement: lifecycle.replacement().map(Into::into),
            sunset_date: lifecycle.sunset_date().map(|date| date.to_string()),
            force_reason: notice.and_then(|notice| notice.force_reason.clone()),
            change_time: Some(timestamp(*changed_at)),
        }
    }
}

impl TryFrom<v1::Lifecycle> for Lifecycle {
    type Error = InvalidLifecycle;

    fn try_from(lifecycle: v1::Lifecycle) -> Result<Self, InvalidLifecycle> {
        let v1::Lifecycle {
            state: number,
            message,
            revision,
            replacement,
            sunset_date,
            force_reason,
            change_time,
        } = lifecycle;
        let state = state(number)?;
        let notice = notice(message, replacement, sunset_date, force_reason)?;
        let changed_at = read_timestamp(change_time.ok_or(InvalidLifecycle::NoTime)?)?;
        Ok(Self::new(state, notice, (Revision(revision), changed_at)))
    }
}

/// Reads a required lifecycle.
pub(super) fn required(lifecycle: Option<v1::Lifecycle>) -> Result<Lifecycle, InvalidLifecycle> {
    lifecycle.ok_or(InvalidLifecycle::Missing)?.try_into()
}

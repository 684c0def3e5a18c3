//! Lifecycles and their states.

use registry_core::{Key, Lifecycle, LifecycleState, Notice, Revision, timestamp::InvalidDate};

use super::{
    key::InvalidEntityKey,
    time::{InvalidTime, read_timestamp, timestamp},
};
use crate::v1;

/// A lifecycle state that is missing or unknown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidState {
    /// `LIFECYCLE_STATE_UNSPECIFIED`, or the field was left out.
    #[error("the lifecycle state is missing; set it to active, deprecated or retired")]
    Unspecified,
    /// A number that this version does not know.
    #[error("{0} is not the number of a lifecycle state that this version knows")]
    Unknown(i32),
}

/// Why a message is not a lifecycle.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidLifecycle {
    /// The lifecycle was left out.
    #[error("the lifecycle is missing")]
    Missing,
    /// Its state.
    #[error(transparent)]
    State(#[from] InvalidState),
    /// What it says.
    #[error(transparent)]
    Notice(#[from] InvalidNotice),
    /// The time of the last change was left out.
    #[error("the time of the last change is missing")]
    NoTime,
    /// The time of the last change.
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

/// Reads a state that must be given.
pub fn state(number: i32) -> Result<LifecycleState, InvalidState> {
    match v1::LifecycleState::try_from(number).map_err(|_| InvalidState::Unknown(number))? {
        v1::LifecycleState::Unspecified => Err(InvalidState::Unspecified),
        v1::LifecycleState::Active => Ok(LifecycleState::Active),
        v1::LifecycleState::Deprecated => Ok(LifecycleState::Deprecated),
        v1::LifecycleState::Retired => Ok(LifecycleState::Retired),
    }
}

/// Reads the states of a list's filter.
pub fn filter_states(numbers: &[i32]) -> Result<Vec<LifecycleState>, InvalidState> {
    numbers.iter().map(|number| state(*number)).collect()
}

/// Why fields are not a notice.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidNotice {
    /// The replacement.
    #[error("the replacement cannot be read: {0}")]
    Replacement(Box<InvalidEntityKey>),
    /// The sunset.
    #[error("the sunset cannot be read: {0}")]
    Sunset(#[from] InvalidDate),
}

/// Reads what a lifecycle change says from the fields of its message.
pub(super) fn notice(
    message: Option<String>,
    replacement: Option<v1::EntityKey>,
    sunset: Option<String>,
    forced: Option<String>,
) -> Result<Notice, InvalidNotice> {
    let replacement = replacement.map(Key::try_from).transpose();
    let replacement = replacement.map_err(|e| InvalidNotice::Replacement(Box::new(e)))?;
    let sunset = sunset.map(|date| date.parse()).transpose()?;
    Ok(Notice { message, replacement, sunset, forced })
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
            sunset: lifecycle.sunset().map(|date| date.to_string()),
            forced: notice.and_then(|notice| notice.forced.clone()),
            changed_at: Some(timestamp(*changed_at)),
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
            sunset,
            forced,
            changed_at,
        } = lifecycle;
        let state = state(number)?;
        let notice = notice(message, replacement, sunset, forced)?;
        let changed_at = read_timestamp(changed_at.ok_or(InvalidLifecycle::NoTime)?)?;
        Ok(Self::new(state, notice, (Revision(revision), changed_at)))
    }
}

/// Reads a lifecycle field that must be set.
pub(super) fn required(lifecycle: Option<v1::Lifecycle>) -> Result<Lifecycle, InvalidLifecycle> {
    lifecycle.ok_or(InvalidLifecycle::Missing)?.try_into()
}

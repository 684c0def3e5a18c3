//! Lifecycles and their states.
//!
//! Deliberately absent: which transitions make sense; the rules say that.

use registry_core::{Lifecycle, LifecycleState, Revision};

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

impl From<&Lifecycle> for v1::Lifecycle {
    fn from(Lifecycle { state, message, revision }: &Lifecycle) -> Self {
        Self {
            state: v1::LifecycleState::from(*state).into(),
            message: message.clone(),
            revision: revision.0,
        }
    }
}

impl TryFrom<v1::Lifecycle> for Lifecycle {
    type Error = InvalidLifecycle;

    fn try_from(lifecycle: v1::Lifecycle) -> Result<Self, InvalidLifecycle> {
        let v1::Lifecycle { state: number, message, revision } = lifecycle;
        Ok(Self { state: state(number)?, message, revision: Revision(revision) })
    }
}

/// Reads a lifecycle field that must be set.
pub(super) fn required(lifecycle: Option<v1::Lifecycle>) -> Result<Lifecycle, InvalidLifecycle> {
    lifecycle.ok_or(InvalidLifecycle::Missing)?.try_into()
}

//! The failure of a step, and its side effects.

use std::time::Duration;

use gateway_policy::CallOutcome;

/// The failure of a call.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{detail}")]
pub struct StepError {
    /// The outcome in the audit.
    pub outcome: CallOutcome,
    /// The message for callers.
    pub message: String,
    /// The message for logs.
    pub detail: String,
    /// The side effects of the call.
    pub effects: Effects,
    /// The time after which a retry can succeed, if the call had no effects.
    pub retry_after: Option<Duration>,
    /// Whether the tool succeeded and the gateway rejected its result.
    pub rejects_result: bool,
}

/// The side effects of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effects {
    /// No lasting effects.
    None,
    /// Effects that are known to have happened.
    Committed,
    /// Effects that may have happened.
    Unknown,
}

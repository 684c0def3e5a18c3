//! The limits and the saga that the runs around a step share.

use std::sync::{
    Arc, Mutex, OnceLock,
    atomic::{AtomicU32, AtomicUsize},
};

use tokio_util::sync::CancellationToken;

use crate::sagas::SagaCompletion;

/// The enclosing runs of a step: their shared limits, and the innermost saga and time limit.
#[derive(Debug, Clone, Default)]
pub struct RunScope {
    pub(super) budget: Arc<RunBudget>,
    /// Whether the step compensates an earlier one, or is a part of such a step.
    pub is_compensation: bool,
    /// The innermost saga.
    pub(super) saga: Option<Arc<str>>,
    /// The innermost time limit.
    pub(super) limit: Option<Arc<TimeLimit>>,
}

/// A time limit around operations. A saga that the limit cuts off reports the timeout.
#[derive(Debug, Default)]
pub(super) struct TimeLimit {
    /// The limit in milliseconds, once it has passed.
    pub(super) passed_ms: OnceLock<u64>,
    pub(super) outer: Option<Arc<Self>>,
}

impl TimeLimit {
    /// The limit has passed. Call this before the operations are dropped.
    pub(super) fn pass(&self, after_ms: u64) {
        let _ = self.passed_ms.set(after_ms);
    }

    pub(super) fn passed_ms(&self) -> Option<u64> {
        let outer = || self.outer.as_ref()?.passed_ms();
        self.passed_ms.get().copied().or_else(outer)
    }
}

/// The calls and values of a run and of all compositions inside it so far.
#[derive(Debug, Default)]
pub(super) struct RunBudget {
    pub(super) calls: AtomicU32,
    pub(super) bytes: AtomicUsize,
    /// The sagas that were begun, and have not ended.
    pub(super) sagas: Mutex<Vec<(CancellationToken, SagaCompletion)>>,
}

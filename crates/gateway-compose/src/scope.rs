//! The limits and the saga that the runs around a step share.

use std::sync::{
    Arc, Mutex, OnceLock,
    atomic::{AtomicU32, AtomicUsize, Ordering},
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
    /// The requests of the innermost run.
    pub(super) requests: Arc<Requests>,
}

impl RunScope {
    /// Counts a request of the step, for all enclosing runs.
    pub fn begin_request(&self) -> StepRequest {
        self.requests.add();
        StepRequest { requests: Arc::clone(&self.requests) }
    }
}

/// The requests of a run that were sent, or may still be sent.
#[derive(Debug, Default)]
pub(super) struct Requests {
    sent: AtomicUsize,
    /// The requests of the enclosing run.
    outer: Option<Arc<Self>>,
}

impl Requests {
    pub(super) fn within(outer: Option<&RunScope>) -> Arc<Self> {
        let outer = outer.map(|scope| Arc::clone(&scope.requests));
        Arc::new(Self { sent: AtomicUsize::default(), outer })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sent.load(Ordering::Acquire) == 0
    }

    fn add(&self) {
        self.sent.fetch_add(1, Ordering::AcqRel);
        if let Some(outer) = &self.outer {
            outer.add();
        }
    }

    fn remove(&self) {
        self.sent.fetch_sub(1, Ordering::AcqRel);
        if let Some(outer) = &self.outer {
            outer.remove();
        }
    }
}

/// A request of a step, which counts as sent unless it is withdrawn.
#[derive(Debug)]
pub struct StepRequest {
    requests: Arc<Requests>,
}

impl StepRequest {
    /// Withdraws a request that certainly was not sent.
    pub fn withdraw(self) {
        self.requests.remove();
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_count_for_enclosing_runs_unless_withdrawn() {
        let scope = |outer: Option<&RunScope>| RunScope {
            requests: Requests::within(outer),
            ..RunScope::default()
        };
        let outer = scope(None);
        let (first, second) = (scope(Some(&outer)), scope(Some(&outer)));
        first.begin_request().withdraw();
        assert!(outer.requests.is_empty());
        drop(second.begin_request());
        let empty = [&outer, &first, &second].map(|scope| scope.requests.is_empty());
        assert_eq!(empty, [false, true, false]);
    }
}

//! A running request of a caller and the questions in it.
//!
//! A question from the upstream proves that the upstream is alive, so it closes a half-open
//! breaker. From then on the request waits for a person, so it counts against the caller's share of
//! the upstream's concurrency.

use std::sync::{Arc, Mutex, PoisonError};

use gateway_policy::{QuotaExceeded, QuotaKey, QuotaGuard, Quotas};

use super::breaker::Passing;

/// One running request.
#[derive(Debug)]
pub(super) struct Visit {
    passing: Passing,
    principal: QuotaKey,
    shares: Arc<Quotas>,
    /// Held from the first question on.
    share: Mutex<Option<QuotaGuard>>,
}

impl Visit {
    /// Creates the state of an admitted request.
    pub(super) fn new(passing: Passing, shares: &Arc<Quotas>, principal: QuotaKey) -> Self {
        Self { passing, principal, shares: Arc::clone(shares), share: Mutex::default() }
    }

    /// Records a question, which may exceed the caller's quota.
    pub(super) fn asks(&self) -> Result<(), QuotaExceeded> {
        self.passing.is_alive();
        let mut share = self.share.lock().unwrap_or_else(PoisonError::into_inner);
        if share.is_none() {
            *share = Some(self.shares.take(&self.principal)?);
        }
        Ok(())
    }

    /// Whether the upstream has sent questions.
    pub(super) fn has_asked(&self) -> bool {
        self.share.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Records the outcome.
    pub(super) fn end(&self, has_failed: bool) {
        self.passing.end(has_failed);
    }
}

//! A running request of a caller and the questions in it.
//!
//! A question from the upstream proves that the upstream is alive, so it closes a half-open
//! breaker. From then on the request waits for a person, so it counts against the caller's share of
//! the upstream's concurrency.

use std::sync::{Arc, Mutex, PoisonError};

use gateway_policy::{QuotaExceeded, QuotaKey, QuotaGuard, Quotas};

use super::breaker::BreakerPermit;

/// One running request.
#[derive(Debug)]
pub(super) struct InFlight {
    passing: BreakerPermit,
    quota_key: QuotaKey,
    shares: Arc<Quotas>,
    /// Held from the first question on.
    share: Mutex<Option<QuotaGuard>>,
}

impl InFlight {
    /// Creates the state of an admitted request.
    pub(super) fn new(passing: BreakerPermit, shares: &Arc<Quotas>, quota_key: QuotaKey) -> Self {
        Self { passing, quota_key, shares: Arc::clone(shares), share: Mutex::default() }
    }

    /// Records a question, which may exceed the caller's quota.
    pub(super) fn asks(&self) -> Result<(), QuotaExceeded> {
        self.passing.is_alive();
        let mut share = self.share.lock().unwrap_or_else(PoisonError::into_inner);
        if share.is_none() {
            *share = Some(self.shares.take(&self.quota_key)?);
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

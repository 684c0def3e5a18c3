//! A running request of a caller and the questions in it.
//!
//! A question from the upstream proves that the upstream is alive, so it closes a half-open
//! breaker. From then on the request waits for a person, so it counts against the caller's share of
//! the upstream's concurrency.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use gateway_policy::{QuotaExceeded, QuotaGuard, QuotaKey, Quotas};
use tokio_util::sync::CancellationToken;

use super::breaker::BreakerPermit;

/// One running request.
#[derive(Debug)]
pub(super) struct InFlight {
    permit: BreakerPermit,
    quota_key: QuotaKey,
    quotas: Arc<Quotas>,
    /// Held from the first question on.
    quota: Mutex<Option<QuotaGuard>>,
    /// Cancelled at the end of the request. Most requests have no question that needs it.
    ended: OnceLock<CancellationToken>,
}

impl InFlight {
    /// Creates the state of an admitted request.
    pub(super) fn new(permit: BreakerPermit, quotas: &Arc<Quotas>, quota_key: QuotaKey) -> Self {
        Self {
            permit,
            quota_key,
            quotas: Arc::clone(quotas),
            quota: Mutex::default(),
            ended: OnceLock::new(),
        }
    }

    /// Records a question, which may exceed the caller's quota.
    pub(super) fn record_question(&self) -> Result<(), QuotaExceeded> {
        self.permit.mark_alive();
        let mut quota = self.quota.lock().unwrap_or_else(PoisonError::into_inner);
        if quota.is_none() {
            *quota = Some(self.quotas.acquire(&self.quota_key)?);
        }
        Ok(())
    }

    /// Whether the upstream has sent questions.
    pub(super) fn has_asked(&self) -> bool {
        self.quota.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Cancelled at the end of the request.
    pub(super) fn ended(&self) -> CancellationToken {
        self.ended.get_or_init(CancellationToken::new).clone()
    }

    /// Records the outcome.
    pub(super) fn record(&self, has_failed: bool) {
        self.permit.record(has_failed);
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if let Some(ended) = self.ended.get() {
            ended.cancel();
        }
    }
}

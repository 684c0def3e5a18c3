//! A caller's request while it is at an upstream, as far as that asks something meanwhile.
//!
//! Who asks is alive: no other request needs to see that any more. And from then on the request
//! waits for a person, so it counts against its caller's share of the upstream's places.

use std::sync::{Arc, Mutex, PoisonError};

use gateway_policy::{QuotaExceeded, QuotaKey, QuotaGuard, Quotas};

use super::breaker::Passing;

/// One request at its upstream.
#[derive(Debug)]
pub(super) struct Visit {
    passing: Passing,
    principal: QuotaKey,
    shares: Arc<Quotas>,
    /// From the first question on.
    share: Mutex<Option<QuotaGuard>>,
}

impl Visit {
    /// A request of this principal that was let through.
    pub(super) fn new(passing: Passing, shares: &Arc<Quotas>, principal: QuotaKey) -> Self {
        Self { passing, principal, shares: Arc::clone(shares), share: Mutex::default() }
    }

    /// The upstream asks something, which may be more than the caller's share.
    pub(super) fn asks(&self) -> Result<(), QuotaExceeded> {
        self.passing.is_alive();
        let mut share = self.share.lock().unwrap_or_else(PoisonError::into_inner);
        if share.is_none() {
            *share = Some(self.shares.take(&self.principal)?);
        }
        Ok(())
    }

    /// Whether it has waited for answers.
    pub(super) fn has_asked(&self) -> bool {
        self.share.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Says what became of it.
    pub(super) fn end(&self, has_failed: bool) {
        self.passing.end(has_failed);
    }
}

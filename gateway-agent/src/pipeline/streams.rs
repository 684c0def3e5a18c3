//! The limit of open event streams, in total and per caller, shared by all surfaces.

use std::sync::Arc;

use gateway_policy::{QuotaExceeded, QuotaGuard, QuotaKey, QuotaKind, Quotas};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{
    audit::{Gauge, GaugeGuard},
    capacity,
};

/// The open event streams.
#[derive(Debug)]
pub(crate) struct EventStreams {
    places: Arc<Semaphore>,
    total: usize,
    shares: Arc<Quotas>,
}

/// An open event stream. Dropping it frees its place.
#[derive(Debug)]
pub(crate) struct EventStreamPlace {
    _permit: OwnedSemaphorePermit,
    _share: QuotaGuard,
    _counted: GaugeGuard,
}

impl EventStreams {
    /// Creates the limit: `wanted` streams, but at most half of the connections.
    pub(super) fn new(wanted: usize) -> Self {
        let total = capacity::streams(wanted);
        let shares = Quotas::new(QuotaKind::Streams, total);
        Self { places: Arc::new(Semaphore::new(total)), total, shares }
    }

    /// Takes a place for a stream of a caller.
    pub(crate) fn open(&self, payer: &QuotaKey) -> Result<EventStreamPlace, QuotaExceeded> {
        let share = self.shares.acquire(payer)?;
        let permit = Arc::clone(&self.places).try_acquire_owned();
        let full = QuotaExceeded::Total { kind: QuotaKind::Streams, limit: self.total };
        let permit = permit.map_err(|_| full)?;
        let counted = Gauge::Streams.increment();
        Ok(EventStreamPlace { _permit: permit, _share: share, _counted: counted })
    }
}

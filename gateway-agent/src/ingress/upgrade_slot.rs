//! The place of a connection in the limits of its listener, and the memory of its bytes, for a
//! connection that leaves HTTP.

use std::{
    any::Any,
    fmt,
    sync::{Arc, OnceLock, Weak},
};

use gateway_policy::{BufferReservation, QuotaExceeded};
use tokio_util::sync::CancellationToken;

/// The place of the connection of a request. A request itself does not keep the place, because a call
/// can outlive its connection.
pub(crate) struct UpgradeSlot {
    place: Weak<dyn Any + Send + Sync>,
    /// Cancelled when connections are aborted.
    abort: CancellationToken,
    received: ReceivedBytes,
}

/// The place of an upgraded connection.
pub(crate) struct HeldConnection {
    _place: Arc<dyn Any + Send + Sync>,
    /// Cancelled when connections are aborted.
    pub(crate) abort: CancellationToken,
    pub(crate) received: ReceivedBytes,
}

impl UpgradeSlot {
    pub(crate) fn new(
        place: &Arc<dyn Any + Send + Sync>,
        abort: CancellationToken,
        received: ReceivedBytes,
    ) -> Self {
        Self { place: Arc::downgrade(place), abort, received }
    }

    /// Keeps the place of a connection that still exists.
    pub(crate) fn hold(&self) -> Option<HeldConnection> {
        let Self { place, abort, received } = self;
        let (abort, received) = (abort.clone(), received.clone());
        Some(HeldConnection { _place: place.upgrade()?, abort, received })
    }
}

impl fmt::Debug for UpgradeSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UpgradeSlot")
    }
}

/// The memory of the bytes that a connection received since its upgrade. Requests of HTTP reserve their
/// own.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReceivedBytes(Arc<OnceLock<Arc<BufferReservation>>>);

impl ReceivedBytes {
    /// Reserves memory of a caller from now on.
    pub(crate) fn begin(&self, buffered: Arc<BufferReservation>) {
        self.0.get_or_init(|| buffered);
    }

    /// Reserves memory for received bytes.
    pub(crate) fn reserve(&self, bytes: usize) -> Result<(), QuotaExceeded> {
        self.0.get().map_or(Ok(()), |buffered| buffered.reserve(bytes))
    }

    /// Releases the memory of bytes, at most all.
    pub(crate) fn release(&self, bytes: usize) {
        if let Some(buffered) = self.0.get() {
            buffered.release(bytes);
        }
    }
}

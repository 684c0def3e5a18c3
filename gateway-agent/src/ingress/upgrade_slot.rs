//! The place of a connection in the limits of its listener, for a connection that leaves HTTP.

use std::{
    any::Any,
    fmt,
    sync::{Arc, Weak},
};

use tokio_util::sync::CancellationToken;

/// The place of the connection of a request. A request itself does not keep the place, because a call
/// can outlive its connection.
#[derive(Clone)]
pub(crate) struct UpgradeSlot {
    place: Weak<dyn Any + Send + Sync>,
    /// Cancelled when connections are aborted.
    abort: CancellationToken,
}

/// The place of an upgraded connection.
pub(crate) struct HeldConnection {
    _place: Arc<dyn Any + Send + Sync>,
    /// Cancelled when connections are aborted.
    pub(crate) abort: CancellationToken,
}

impl UpgradeSlot {
    pub(crate) fn new(place: &Arc<dyn Any + Send + Sync>, abort: CancellationToken) -> Self {
        Self { place: Arc::downgrade(place), abort }
    }

    /// Keeps the place of a connection that still exists.
    pub(crate) fn hold(self) -> Option<HeldConnection> {
        Some(HeldConnection { _place: self.place.upgrade()?, abort: self.abort })
    }
}

impl fmt::Debug for UpgradeSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UpgradeSlot")
    }
}

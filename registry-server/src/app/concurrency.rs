//! Limits the concurrency of long operations.
//!
//! Priorities and timeouts are not supported: the callers' deadlines end the wait.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The slots of one kind of operation.
#[derive(Debug)]
pub struct ConcurrencyLimit(Arc<Semaphore>);

/// A slot, released on drop. Blocking work holds it, because it continues after the caller disconnects.
#[derive(Debug)]
pub struct Slot {
    _permit: OwnedSemaphorePermit,
}

impl ConcurrencyLimit {
    /// Slots for this many concurrent operations.
    pub fn new(at_once: usize) -> Self {
        Self(Arc::new(Semaphore::new(at_once)))
    }

    /// Waits for a slot.
    pub async fn take(&self) -> Slot {
        let permit = Arc::clone(&self.0).acquire_owned().await;
        Slot { _permit: permit.expect("the semaphore is never closed") }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::ConcurrencyLimit;

    #[tokio::test]
    async fn caller_waits_until_slot_is_free() {
        let limit = ConcurrencyLimit::new(2);
        let (one, _two) = (limit.take().await, limit.take().await);
        let soon = Duration::from_millis(20);
        assert!(timeout(soon, limit.take()).await.is_err(), "both slots are taken");
        drop(one);
        assert!(timeout(soon, limit.take()).await.is_ok());
    }
}

//! Limits the concurrency of long operations.
//!
//! Priorities and timeouts are not supported: the callers' deadlines end the wait.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The slots of one kind of operation.
#[derive(Debug)]
pub struct Turns(Arc<Semaphore>);

/// A slot, released on drop. Blocking work holds it, because it continues after the caller disconnects.
#[derive(Debug)]
pub struct Turn {
    _permit: OwnedSemaphorePermit,
}

impl Turns {
    /// Slots for this many concurrent operations.
    pub fn new(at_once: usize) -> Self {
        Self(Arc::new(Semaphore::new(at_once)))
    }

    /// Waits for a slot.
    pub async fn take(&self) -> Turn {
        let permit = Arc::clone(&self.0).acquire_owned().await;
        Turn { _permit: permit.expect("nobody closes the semaphore") }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::Turns;

    #[tokio::test]
    async fn one_more_waits_until_a_turn_ends() {
        let turns = Turns::new(2);
        let (one, _two) = (turns.take().await, turns.take().await);
        let soon = Duration::from_millis(20);
        assert!(timeout(soon, turns.take()).await.is_err(), "a third may not work, too");
        drop(one);
        assert!(timeout(soon, turns.take()).await.is_ok());
    }
}

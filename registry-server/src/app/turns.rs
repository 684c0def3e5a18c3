//! Turns at long work: few do it at once, the others wait for as long as their callers do.
//!
//! Priorities and timeouts are not supported: the callers' deadlines end the wait.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Turns at one kind of work.
#[derive(Debug)]
pub struct Turns(Arc<Semaphore>);

/// A turn; it ends when this is dropped. Who works beside the runtime takes it along, because that
/// work goes on when its caller has left.
#[derive(Debug)]
pub struct Turn {
    _permit: OwnedSemaphorePermit,
}

impl Turns {
    /// Turns of which so many are taken at once.
    pub fn new(at_once: usize) -> Self {
        Self(Arc::new(Semaphore::new(at_once)))
    }

    /// Waits for a turn.
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

//! How many requests an upstream is given at once, and how many wait for their turn, first come
//! first served. Who finds the waiting room full is told so at once.
//!
//! Deliberately absent: shares for single callers.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::config::LimitsConfig;

/// The door to one upstream.
#[derive(Debug)]
pub(super) struct Gate {
    room: Semaphore,
    waiting: AtomicUsize,
    most_waiting: usize,
}

/// As many requests as are allowed wait already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{waiting} requests wait for this server already, no more are allowed")]
pub struct Overloaded {
    /// How many.
    pub waiting: usize,
}

impl Gate {
    pub(super) fn new(limits: LimitsConfig) -> Self {
        let (room, waiting) = (Semaphore::new(limits.upstream_requests), AtomicUsize::new(0));
        Self { room, waiting, most_waiting: limits.upstream_waiting }
    }

    /// Waits for a place, which is free again when what is returned is dropped.
    pub(super) async fn enter(&self) -> Result<SemaphorePermit<'_>, Overloaded> {
        if let Ok(place) = self.room.try_acquire() {
            return Ok(place);
        }
        let before = self.waiting.fetch_add(1, Ordering::SeqCst);
        let _waits = Waits(&self.waiting);
        if before >= self.most_waiting {
            return Err(Overloaded { waiting: self.most_waiting });
        }
        // The semaphore is never closed.
        self.room.acquire().await.map_err(|_| Overloaded { waiting: before })
    }

    /// What there is to say when somebody has waited for too long.
    pub(super) fn overloaded(&self) -> Overloaded {
        Overloaded { waiting: self.waiting.load(Ordering::SeqCst) }
    }
}

/// Somebody who waits; gone when dropped, also before its turn.
struct Waits<'a>(&'a AtomicUsize);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn gate(upstream_requests: usize, upstream_waiting: usize) -> Gate {
        Gate::new(LimitsConfig { upstream_requests, upstream_waiting, ..LimitsConfig::default() })
    }

    #[tokio::test]
    async fn some_enter_some_wait_in_order_and_the_rest_are_refused() {
        let gate = gate(1, 2);
        let inside = gate.enter().await.unwrap();
        let (mut first, mut second) = (Box::pin(gate.enter()), Box::pin(gate.enter()));
        assert!(first.as_mut().now_or_never().is_none());
        assert!(second.as_mut().now_or_never().is_none());
        assert_eq!(gate.enter().await.unwrap_err(), Overloaded { waiting: 2 });
        drop(inside);
        assert!(second.as_mut().now_or_never().is_none(), "the first comes first");
        let inside = first.await.unwrap();
        drop(second);
        let mut third = Box::pin(gate.enter());
        assert!(third.as_mut().now_or_never().is_none(), "who left takes no room");
        drop(inside);
        assert!(third.await.is_ok());
        assert_eq!(gate.waiting.load(Ordering::SeqCst), 0);
    }
}

//! How many requests an upstream is given at once, and how many wait for their turn, first come
//! first served. Who finds the waiting room full is told so at once.
//!
//! Deliberately absent: shares of single callers, who have one only of calls that wait for them
//! (`visit.rs`).

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::upstream::UpstreamLimits;

/// More requests at once than any upstream can be given.
const MOST_PLACES: u32 = 1 << 20;

/// The door to one upstream.
#[derive(Debug)]
pub(super) struct Gate {
    room: Semaphore,
    places: u32,
    waiting: AtomicUsize,
    most_waiting: usize,
}

/// How busy an upstream is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Load {
    /// Requests that it works on.
    pub running: usize,
    /// Requests that wait for their turn.
    pub waiting: usize,
}

/// As many requests as are allowed wait already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{waiting} requests wait for this server already, no more are allowed")]
pub struct Overloaded {
    /// How many.
    pub waiting: usize,
}

impl Gate {
    pub(super) fn new(limits: UpstreamLimits) -> Self {
        let most = usize::try_from(MOST_PLACES).unwrap_or(usize::MAX);
        let places = limits.requests.min(most);
        Self {
            room: Semaphore::new(places),
            places: u32::try_from(places).unwrap_or(MOST_PLACES),
            waiting: AtomicUsize::new(0),
            most_waiting: limits.waiting,
        }
    }

    /// Resolves when nobody is inside any more.
    pub(super) async fn emptied(&self) {
        let _ = self.room.acquire_many(self.places).await;
    }

    /// How busy it is.
    pub(super) fn load(&self) -> Load {
        let running = (self.places as usize).saturating_sub(self.room.available_permits());
        Load { running, waiting: self.waiting.load(Ordering::SeqCst) }
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
        // And itself, until now.
        Overloaded { waiting: self.waiting.load(Ordering::SeqCst) + 1 }
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

    fn gate(requests: usize, waiting: usize) -> Gate {
        Gate::new(UpstreamLimits { requests, waiting, ..UpstreamLimits::default() })
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

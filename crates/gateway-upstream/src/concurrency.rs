//! Limits the concurrent and queued requests of an upstream. The queue is FIFO; a request without
//! room in it is rejected immediately.
//!
//! One caller gets at most half of either, so that the calls of others find a place while it waits.
//! The share is fixed, because a running call cannot be preempted.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicUsize, Ordering},
};

use foldhash::HashMap;
use gateway_policy::QuotaKey;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

use crate::UpstreamLimits;

/// Upper bound of the configured concurrency.
const MAX_CONCURRENCY: u32 = 1 << 20;

/// The concurrency limit of one upstream.
#[derive(Debug)]
pub(super) struct ConcurrencyLimit {
    room: Semaphore,
    places: u32,
    waiting: AtomicUsize,
    most_waiting: usize,
    callers: Mutex<HashMap<QuotaKey, Caller>>,
}

/// The requests of one caller.
#[derive(Debug)]
struct Caller {
    room: Arc<Semaphore>,
    waiting: usize,
    /// Running and queued requests.
    all: usize,
}

/// The load of an upstream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Load {
    /// Running requests.
    pub running: usize,
    /// Queued requests.
    pub waiting: usize,
}

/// The upstream is at a limit. Nothing was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LimitReached {
    /// The queue is full.
    #[error("the queue of this server is full ({waiting} requests)")]
    All {
        /// The number of queued requests.
        waiting: usize,
    },
    /// The caller's share of the queue is full.
    #[error("the limit of {waiting} queued requests per caller for this server is reached")]
    Caller {
        /// The number of requests that wait.
        waiting: usize,
    },
    /// The limit of sessions with the server is reached.
    #[error("the limit of {most} sessions with this server is reached")]
    Sessions {
        /// The limit.
        most: usize,
    },
    /// The limit of sessions of this caller is reached.
    #[error("the limit of {most} sessions per caller with this server is reached")]
    CallerSessions {
        /// The limit.
        most: usize,
    },
}

/// The permit of one request. Dropping it frees the place.
#[derive(Debug)]
pub(super) struct ConcurrencyPermit<'a> {
    // Dropped first, so that the next request of this caller queues behind those of others.
    _all: SemaphorePermit<'a>,
    _own: OwnedSemaphorePermit,
    _present: Present<'a>,
}

impl ConcurrencyLimit {
    pub(super) fn new(limits: UpstreamLimits) -> Self {
        let most = usize::try_from(MAX_CONCURRENCY).unwrap_or(usize::MAX);
        let places = limits.requests.min(most);
        Self {
            room: Semaphore::new(places),
            places: u32::try_from(places).unwrap_or(MAX_CONCURRENCY),
            waiting: AtomicUsize::new(0),
            most_waiting: limits.waiting,
            callers: Mutex::default(),
        }
    }

    /// Resolves when no request is running.
    pub(super) async fn emptied(&self) {
        let _ = self.room.acquire_many(self.places).await;
    }

    /// How busy it is.
    pub(super) fn load(&self) -> Load {
        let running = (self.places as usize).saturating_sub(self.room.available_permits());
        Load { running, waiting: self.waiting.load(Ordering::SeqCst) }
    }

    /// Takes a place, if one is free.
    pub(super) fn try_enter(&self, quota_key: &QuotaKey) -> Option<ConcurrencyPermit<'_>> {
        let (present, room) = self.present(quota_key);
        let own = room.try_acquire_owned().ok()?;
        let all = self.room.try_acquire().ok()?;
        Some(ConcurrencyPermit { _all: all, _own: own, _present: present })
    }

    /// Waits for a place in the queue order.
    pub(super) async fn enter(
        &self,
        quota_key: &QuotaKey,
    ) -> Result<ConcurrencyPermit<'_>, LimitReached> {
        if let Some(place) = self.try_enter(quota_key) {
            return Ok(place);
        }
        let (present, room) = self.present(quota_key);
        let waits = self.wait(&present)?;
        // The semaphores are never closed.
        let closed = |_| self.overloaded();
        let own = room.acquire_owned().await.map_err(closed)?;
        let all = self.room.acquire().await.map_err(closed)?;
        drop(waits);
        Ok(ConcurrencyPermit { _all: all, _own: own, _present: present })
    }

    /// The error of a request that has waited too long.
    pub(super) fn overloaded(&self) -> LimitReached {
        // Including the request itself.
        LimitReached::All { waiting: self.waiting.load(Ordering::SeqCst) + 1 }
    }

    /// Counts a request of a caller and returns the semaphore of the caller.
    fn present(&self, quota_key: &QuotaKey) -> (Present<'_>, Arc<Semaphore>) {
        let new = || Caller {
            room: Arc::new(Semaphore::new((self.places as usize).div_ceil(2))),
            waiting: 0,
            all: 0,
        };
        let mut callers = self.callers();
        let caller = match callers.get_mut(quota_key) {
            Some(caller) => caller,
            None => callers.entry(quota_key.clone()).or_insert_with(new),
        };
        caller.all += 1;
        let room = Arc::clone(&caller.room);
        drop(callers);
        (Present { gate: self, quota_key: quota_key.clone() }, room)
    }

    /// Counts a queued request, unless the queue is full.
    fn wait<'a>(&'a self, present: &Present<'a>) -> Result<Waits<'a>, LimitReached> {
        let most = self.most_waiting.div_ceil(2);
        let mut callers = self.callers();
        let all = self.waiting.load(Ordering::SeqCst);
        if all >= self.most_waiting {
            return Err(LimitReached::All { waiting: self.most_waiting });
        }
        if let Some(caller) = callers.get_mut(&present.quota_key) {
            if caller.waiting >= most {
                return Err(LimitReached::Caller { waiting: most });
            }
            caller.waiting += 1;
        }
        self.waiting.store(all + 1, Ordering::SeqCst);
        Ok(Waits { gate: self, quota_key: present.quota_key.clone() })
    }

    fn callers(&self) -> MutexGuard<'_, HashMap<QuotaKey, Caller>> {
        self.callers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A running or queued request.
#[derive(Debug)]
struct Present<'a> {
    gate: &'a ConcurrencyLimit,
    quota_key: QuotaKey,
}

impl Drop for Present<'_> {
    fn drop(&mut self) {
        let mut callers = self.gate.callers();
        let Some(caller) = callers.get_mut(&self.quota_key) else { return };
        caller.all -= 1;
        if caller.all == 0 {
            callers.remove(&self.quota_key);
        }
    }
}

/// A queued request. It may be dropped before its turn.
struct Waits<'a> {
    gate: &'a ConcurrencyLimit,
    quota_key: QuotaKey,
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        let mut callers = self.gate.callers();
        self.gate.waiting.fetch_sub(1, Ordering::SeqCst);
        if let Some(caller) = callers.get_mut(&self.quota_key) {
            caller.waiting -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn gate(requests: usize, waiting: usize) -> ConcurrencyLimit {
        ConcurrencyLimit::new(UpstreamLimits { requests, waiting, ..UpstreamLimits::default() })
    }

    #[tokio::test]
    async fn requests_queue_in_order_and_overflow_is_rejected() {
        let gate = gate(1, 2);
        let [a, b, c] = ["a", "b", "c"].map(|name| Some(Arc::from(name)));
        let inside = gate.enter(&a).await.unwrap();
        let (mut first, mut second) = (Box::pin(gate.enter(&b)), Box::pin(gate.enter(&c)));
        assert!(first.as_mut().now_or_never().is_none());
        assert!(second.as_mut().now_or_never().is_none());
        assert_eq!(gate.enter(&a).await.unwrap_err(), LimitReached::All { waiting: 2 });
        drop(inside);
        assert!(second.as_mut().now_or_never().is_none(), "the queue is FIFO");
        let inside = first.await.unwrap();
        drop(second);
        let mut third = Box::pin(gate.enter(&a));
        assert!(third.as_mut().now_or_never().is_none(), "a cancelled request takes no room");
        drop(inside);
        drop(third.await.unwrap());
        assert_eq!(gate.load(), Load::default());
        assert!(gate.callers().is_empty(), "callers without requests leave no entry");
    }

    #[tokio::test]
    async fn one_caller_gets_half_of_the_places() {
        let gate = gate(4, 2);
        let (one, other) = (Some(Arc::from("a")), Some(Arc::from("b")));
        let inside = [gate.enter(&one).await.unwrap(), gate.enter(&one).await.unwrap()];
        let mut waiting = Box::pin(gate.enter(&one));
        assert!(waiting.as_mut().now_or_never().is_none());
        assert_eq!(gate.enter(&one).await.unwrap_err(), LimitReached::Caller { waiting: 1 });
        let others = [gate.enter(&other).await.unwrap(), gate.enter(&other).await.unwrap()];
        assert_eq!(gate.load(), Load { running: 4, waiting: 1 });
        drop(others);
        assert!(waiting.as_mut().now_or_never().is_none(), "the caller's half is used");
        drop(inside);
        assert!(waiting.await.is_ok());
    }
}

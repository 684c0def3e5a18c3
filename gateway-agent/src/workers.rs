//! Threads for long computations, so that they never block the threads of connections.
//!
//! Half of the cores compute concurrently. One caller can use half of those, and its other
//! computations queue, so another caller waits for at most one of them.

use std::{sync::Arc, thread};

use gateway_policy::QuotaKey;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

use crate::weak_map::WeakMap;

/// The limits of all computations and of each caller.
#[derive(Debug)]
pub(crate) struct Workers {
    places: Arc<Semaphore>,
    own: usize,
    callers: WeakMap<QuotaKey, Semaphore>,
}

impl Default for Workers {
    fn default() -> Self {
        Self::with(thread::available_parallelism().map_or(1, usize::from) / 2)
    }
}

impl Workers {
    pub(crate) fn with(places: usize) -> Self {
        let (places, own) = (places.max(1), (places / 2).max(1));
        Self { places: Arc::new(Semaphore::new(places)), own, callers: WeakMap::default() }
    }

    /// Runs a computation on another thread. If the future is dropped, the computation still
    /// completes and keeps its slot.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        caller: &QuotaKey,
        compute: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        let own = self.caller_slots(caller);
        // The semaphores are never closed.
        let place = self.place(own).await.ok();
        let computed = tokio::task::spawn_blocking(move || {
            let computed = compute();
            drop(place);
            computed
        });
        match computed.await.map_err(tokio::task::JoinError::try_into_panic) {
            Ok(computed) => computed,
            Err(Ok(panic)) => std::panic::resume_unwind(panic),
            // The runtime is shutting down, which ends this call, too.
            Err(Err(_)) => std::future::pending().await,
        }
    }

    /// The caller's own slot comes first, so that no caller fills the queue of the shared slots.
    async fn place(&self, own: Arc<Semaphore>) -> Result<[OwnedSemaphorePermit; 2], AcquireError> {
        let own = own.acquire_owned().await?;
        Ok([own, Arc::clone(&self.places).acquire_owned().await?])
    }

    fn caller_slots(&self, caller: &QuotaKey) -> Arc<Semaphore> {
        self.callers.get_or_create(caller, || Semaphore::new(self.own))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, mpsc};

    use futures_util::{FutureExt as _, future::join_all};

    use super::*;

    #[tokio::test]
    async fn queue_of_one_caller_delays_others_by_one_computation() {
        let workers = Arc::new(Workers::with(1));
        let (one, other) = (Some(Arc::from("a")), Some(Arc::from("b")));
        let (start, started) = mpsc::channel::<()>();
        let order = Arc::new(Mutex::new(Vec::new()));
        let note = |name: &'static str| {
            let order = Arc::clone(&order);
            move || order.lock().unwrap().push(name)
        };
        let mut first = Box::pin(workers.run(&one, move || started.recv().unwrap()));
        assert!(first.as_mut().now_or_never().is_none());
        let mut more: Vec<_> = (0..3).map(|_| Box::pin(workers.run(&one, note("a")))).collect();
        assert!(more.iter_mut().all(|more| more.as_mut().now_or_never().is_none()));
        let mut theirs = Box::pin(workers.run(&other, note("b")));
        assert!(theirs.as_mut().now_or_never().is_none());
        start.send(()).unwrap();
        tokio::join!(first, join_all(more), theirs);
        assert_eq!(*order.lock().unwrap(), ["b", "a", "a", "a"]);
    }

    #[tokio::test]
    async fn callers_without_computations_are_forgotten() {
        let workers = Workers::with(4);
        for caller in ["a", "b", "c"] {
            assert_eq!(workers.run(&Some(caller.into()), || 1).await, 1);
        }
        drop(workers.caller_slots(&None));
        assert_eq!(workers.callers.len(), 1);
    }
}

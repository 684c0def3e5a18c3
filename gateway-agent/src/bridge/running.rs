//! The running requests, limited in number and size. Each can be cancelled by its id.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::failure::LimitReached;

/// Maximum number of running requests.
const REQUESTS: usize = 256;
/// Maximum size of their bodies, in bytes.
const BYTES: usize = 64 * 1024 * 1024;

#[derive(Debug, Default)]
pub(super) struct RunningRequests(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    table: Mutex<Table>,
    ended: Notify,
}

#[derive(Debug, Default)]
struct Table {
    requests: HashMap<Box<str>, Entry>,
    bytes: usize,
}

#[derive(Debug)]
struct Entry {
    cancelled: CancellationToken,
    kind: Kind,
}

/// The kind of a request determines how it is cancelled and ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Session,
    Stateless,
    /// A stateless request that ends only by cancellation.
    Subscription,
}

/// A running request. Dropping the slot removes the request.
#[derive(Debug)]
pub(super) struct RequestSlot {
    shared: Arc<Shared>,
    id: Box<str>,
    bytes: usize,
    pub(super) cancelled: CancellationToken,
}

impl RunningRequests {
    pub(super) fn begin(
        &self,
        id: &str,
        bytes: usize,
        kind: Kind,
    ) -> Result<RequestSlot, LimitReached> {
        let mut table = lock(&self.0.table);
        if table.requests.len() >= REQUESTS {
            return Err(LimitReached::Requests(REQUESTS));
        }
        // A single request may exceed the limit, since line length bounds it.
        if table.bytes > 0 && table.bytes + bytes > BYTES {
            return Err(LimitReached::Bytes(BYTES));
        }
        if table.requests.contains_key(id) {
            return Err(LimitReached::Id);
        }
        let cancelled = CancellationToken::new();
        table.requests.insert(id.into(), Entry { cancelled: cancelled.clone(), kind });
        table.bytes += bytes;
        Ok(RequestSlot { shared: Arc::clone(&self.0), id: id.into(), bytes, cancelled })
    }

    /// Cancels a request. Returns its kind, or `None` if it is not running.
    pub(super) fn cancel(&self, id: &str) -> Option<Kind> {
        let table = lock(&self.0.table);
        let entry = table.requests.get(id)?;
        entry.cancelled.cancel();
        Some(entry.kind)
    }

    /// Whether the request is running and cancelled.
    pub(super) fn is_cancelled(&self, id: &str) -> bool {
        lock(&self.0.table).requests.get(id).is_some_and(|entry| entry.cancelled.is_cancelled())
    }

    /// Waits until only subscriptions are running.
    pub(super) async fn finished(&self) {
        loop {
            let ended = self.0.ended.notified();
            let is_open = |entry: &Entry| entry.kind != Kind::Subscription;
            if !lock(&self.0.table).requests.values().any(is_open) {
                return;
            }
            ended.await;
        }
    }
}

impl Drop for RequestSlot {
    fn drop(&mut self) {
        let mut table = lock(&self.shared.table);
        table.requests.remove(&self.id);
        table.bytes -= self.bytes;
        self.shared.ended.notify_waiters();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_bounded_and_released() {
        let running = RunningRequests::default();
        let slots: Vec<_> = (0..REQUESTS)
            .map(|i| running.begin(&i.to_string(), 1, Kind::Stateless).unwrap())
            .collect();
        assert_eq!(
            running.begin("x", 1, Kind::Stateless).unwrap_err(),
            LimitReached::Requests(REQUESTS)
        );
        drop(slots);
        let large = running.begin("1", BYTES + 1, Kind::Session).unwrap();
        assert_eq!(running.begin("2", 1, Kind::Session).unwrap_err(), LimitReached::Bytes(BYTES));
        assert_eq!(running.begin("1", 0, Kind::Session).unwrap_err(), LimitReached::Bytes(BYTES));
        assert_eq!((running.cancel("1"), running.cancel("2")), (Some(Kind::Session), None));
        assert!(large.cancelled.is_cancelled());
        drop(large);
        let _first = running.begin("1", 1, Kind::Stateless).unwrap();
        assert_eq!(running.begin("1", 1, Kind::Stateless).unwrap_err(), LimitReached::Id);
    }
}

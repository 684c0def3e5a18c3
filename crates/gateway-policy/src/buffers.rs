//! The memory for requests and results that the gateway buffers: `limits.bufferedBytes` for all
//! callers, and a quarter of it for each.
//!
//! Every chunk counts from the moment it arrives until the answer has left the gateway or its
//! connection is closed.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicUsize, Ordering},
};

use foldhash::HashMap;

use crate::quota::{QuotaExceeded, QuotaKey, QuotaKind};

/// The reservations of all callers.
#[derive(Debug, Default)]
pub struct BufferPool(Mutex<Held>);

#[derive(Debug, Default)]
struct Held {
    total: usize,
    per_caller: HashMap<QuotaKey, usize>,
}

impl BufferPool {
    /// Creates an empty reservation for one request. `most` is the limit of all callers together.
    pub fn open(self: &Arc<Self>, key: QuotaKey, most: usize) -> BufferReservation {
        BufferReservation { of: Arc::clone(self), key, most, bytes: AtomicUsize::new(0) }
    }

    /// The bytes that all callers hold.
    pub fn total(&self) -> usize {
        self.held().total
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The reservation of one request, or of a part of it. Dropping it releases the memory.
#[derive(Debug)]
pub struct BufferReservation {
    of: Arc<BufferPool>,
    key: QuotaKey,
    most: usize,
    bytes: AtomicUsize,
}

impl BufferReservation {
    /// The caller whose quota it counts against.
    pub fn quota_key(&self) -> &QuotaKey {
        &self.key
    }

    /// An empty reservation of the same caller, for memory that is freed before the request ends.
    pub fn part(&self) -> Arc<Self> {
        Arc::new(self.of.open(self.key.clone(), self.most))
    }

    /// Takes over the memory of a part, which then holds none.
    pub fn absorb(&self, part: &Self) {
        self.bytes.fetch_add(part.bytes.swap(0, Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Reserves more bytes. Fails if the quota of the caller or the total is used up.
    pub fn reserve(&self, bytes: usize) -> Result<(), QuotaExceeded> {
        let what = QuotaKind::Buffers;
        let mut held = self.of.held();
        let Held { total, per_caller } = &mut *held;
        let known = per_caller.get_mut(&self.key);
        let own = known.as_deref().copied().unwrap_or_default() + bytes;
        if own > self.most / 4 {
            return Err(QuotaExceeded::PerCaller { kind: what, limit: self.most / 4 });
        }
        if *total + bytes > self.most {
            return Err(QuotaExceeded::Total { kind: what, limit: self.most });
        }
        *total += bytes;
        match known {
            Some(known) => *known = own,
            None => _ = per_caller.insert(self.key.clone(), own),
        }
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Releases a part, at most all.
    pub fn release(&self, bytes: usize) {
        let remaining = |held: usize| Some(held.saturating_sub(bytes));
        let before = self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, remaining);
        self.give_back(before.unwrap_or_default().min(bytes));
    }

    fn give_back(&self, bytes: usize) {
        if bytes == 0 {
            return;
        }
        let mut held = self.of.held();
        held.total -= bytes;
        let Some(own) = held.per_caller.get_mut(&self.key) else { return };
        *own -= bytes;
        if *own == 0 {
            held.per_caller.remove(&self.key);
        }
    }
}

impl Drop for BufferReservation {
    fn drop(&mut self) {
        let bytes = *self.bytes.get_mut();
        self.give_back(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quota_is_a_quarter_and_released_on_drop() {
        let buffers = Arc::new(BufferPool::default());
        let of = |name: &str| buffers.open(Some(name.into()), 400);
        let (one, again, other) = (of("a"), of("a"), of("b"));
        one.reserve(60).unwrap();
        again.reserve(40).unwrap();
        let what = QuotaKind::Buffers;
        assert_eq!(
            again.reserve(1).unwrap_err(),
            QuotaExceeded::PerCaller { kind: what, limit: 100 }
        );
        other.reserve(100).unwrap();
        let rest = [of("c"), of("d")];
        assert!(rest.iter().all(|rest| rest.reserve(100).is_ok()));
        assert_eq!(
            of("e").reserve(1).unwrap_err(),
            QuotaExceeded::Total { kind: what, limit: 400 }
        );
        drop(one);
        of("e").reserve(1).unwrap();
        again.reserve(1).unwrap();
        drop((again, other, rest));
        assert!(buffers.total() == 0 && buffers.held().per_caller.is_empty());
    }

    #[test]
    fn release_is_bounded_by_reservation() {
        let buffers = Arc::new(BufferPool::default());
        let (one, other) = (buffers.open(None, 400), buffers.open(None, 400));
        one.reserve(60).unwrap();
        other.reserve(40).unwrap();
        one.release(50);
        assert_eq!(buffers.total(), 50);
        one.release(usize::MAX);
        assert_eq!(buffers.total(), 40);
        drop(one);
        assert_eq!(buffers.total(), 40);
    }

    #[test]
    fn part_counts_for_caller_until_dropped() {
        let buffers = Arc::new(BufferPool::default());
        let whole = buffers.open(Some("a".into()), 400);
        whole.reserve(60).unwrap();
        let part = whole.part();
        part.reserve(40).unwrap();
        assert!(whole.reserve(1).is_err());
        drop(part);
        whole.reserve(40).unwrap();
    }

    #[test]
    fn absorbed_part_counts_until_the_whole_is_dropped() {
        let buffers = Arc::new(BufferPool::default());
        let whole = buffers.open(Some("a".into()), 400);
        let part = whole.part();
        part.reserve(40).unwrap();
        whole.absorb(&part);
        drop(part);
        assert_eq!(buffers.total(), 40);
        drop(whole);
        assert_eq!(buffers.total(), 0);
    }
}

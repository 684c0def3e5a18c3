//! The memory for requests and results that the gateway buffers: `limits.bufferedBytes` for all
//! callers, and a quarter of it for each.
//!
//! Every chunk counts from the moment it arrives until the answer has left the gateway or its
//! connection is closed.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use crate::shares::{Exhausted, Principal, Scarce};

/// The reservations of all callers.
#[derive(Debug, Default)]
pub struct Buffers(Mutex<Held>);

#[derive(Debug, Default)]
struct Held {
    all: usize,
    each: HashMap<Principal, usize>,
}

impl Buffers {
    /// An empty reservation for one request, where there may be `most` bytes for all.
    pub fn open(self: &Arc<Self>, principal: Principal, most: usize) -> Buffered {
        Buffered { of: Arc::clone(self), principal, most, bytes: AtomicUsize::new(0) }
    }

    /// Bytes that all callers hold.
    pub fn all(&self) -> usize {
        self.held().all
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The reservation of one request, or of a part of it; released when it is dropped.
#[derive(Debug)]
pub struct Buffered {
    of: Arc<Buffers>,
    principal: Principal,
    most: usize,
    bytes: AtomicUsize,
}

impl Buffered {
    /// The caller whose share it counts against.
    pub fn principal(&self) -> &Principal {
        &self.principal
    }

    /// An empty reservation of the same caller, for memory that is freed before the request ends.
    pub fn part(&self) -> Arc<Self> {
        Arc::new(self.of.open(self.principal.clone(), self.most))
    }

    /// Reserves more bytes, unless the caller's share or the whole is used up.
    pub fn grow(&self, bytes: usize) -> Result<(), Exhausted> {
        let what = Scarce::Buffers;
        let mut held = self.of.held();
        let own = held.each.get(&self.principal).copied().unwrap_or_default() + bytes;
        if own > self.most / 4 {
            return Err(Exhausted::Own { what, most: self.most / 4 });
        }
        if held.all + bytes > self.most {
            return Err(Exhausted::All { what, most: self.most });
        }
        held.all += bytes;
        held.each.insert(self.principal.clone(), own);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }
}

impl Drop for Buffered {
    fn drop(&mut self) {
        let bytes = *self.bytes.get_mut();
        if bytes == 0 {
            return;
        }
        let mut held = self.of.held();
        held.all -= bytes;
        let Some(own) = held.each.get_mut(&self.principal) else { return };
        *own -= bytes;
        if *own == 0 {
            held.each.remove(&self.principal);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn share_is_a_quarter_and_returns_when_dropped() {
        let buffers = Arc::new(Buffers::default());
        let of = |name: &str| buffers.open(Some(name.into()), 400);
        let (one, again, other) = (of("a"), of("a"), of("b"));
        one.grow(60).unwrap();
        again.grow(40).unwrap();
        let what = Scarce::Buffers;
        assert_eq!(again.grow(1).unwrap_err(), Exhausted::Own { what, most: 100 });
        other.grow(100).unwrap();
        let rest = [of("c"), of("d")];
        assert!(rest.iter().all(|rest| rest.grow(100).is_ok()));
        assert_eq!(of("e").grow(1).unwrap_err(), Exhausted::All { what, most: 400 });
        drop(one);
        of("e").grow(1).unwrap();
        again.grow(1).unwrap();
        drop((again, other, rest));
        assert!(buffers.all() == 0 && buffers.held().each.is_empty());
    }

    #[test]
    fn part_counts_for_its_caller_until_dropped() {
        let buffers = Arc::new(Buffers::default());
        let whole = buffers.open(Some("a".into()), 400);
        whole.grow(60).unwrap();
        let part = whole.part();
        part.grow(40).unwrap();
        assert!(whole.grow(1).is_err());
        drop(part);
        whole.grow(40).unwrap();
    }
}

//! How large the journal is, known to who writes it and to who has it written anew.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// Up to this size the file is not written anew, in bytes.
pub(super) const SMALL: u64 = 16 * 1024 * 1024;

/// How large the file is, in bytes.
#[derive(Debug)]
pub(crate) struct Size {
    pub(super) now: AtomicU64,
    /// Above this it is to be written anew.
    pub(crate) most: AtomicU64,
}

impl Size {
    pub(super) fn of(length: u64) -> Arc<Self> {
        Arc::new(Self { now: length.into(), most: SMALL.into() })
    }

    pub(super) fn now(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }

    pub(super) fn grow(&self, by: usize) {
        self.now.fetch_add(by as u64, Ordering::Relaxed);
    }
}

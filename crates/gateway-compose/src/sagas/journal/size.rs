//! The size of the journal, shared by the writer thread and the table.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// Below this size the file is not rewritten, in bytes.
pub(super) const SMALL: u64 = 16 * 1024 * 1024;

/// The size of the journal in bytes.
#[derive(Debug)]
pub(crate) struct Size {
    pub(super) now: AtomicU64,
    /// The threshold for a rewrite.
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

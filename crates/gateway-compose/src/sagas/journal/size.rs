//! The size of the journal, shared by the writer thread and the table.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// Below this size the file is not rewritten, in bytes.
pub(super) const MIN_REWRITE_BYTES: u64 = 16 * 1024 * 1024;

/// The size of the journal in bytes.
#[derive(Debug)]
pub(crate) struct JournalSize {
    pub(super) now: AtomicU64,
    /// The threshold for a rewrite.
    pub(crate) threshold: AtomicU64,
}

impl JournalSize {
    pub(super) fn new(length: u64) -> Arc<Self> {
        Arc::new(Self { now: length.into(), threshold: MIN_REWRITE_BYTES.into() })
    }

    pub(super) fn now(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }

    pub(super) fn grow(&self, by: usize) {
        self.now.fetch_add(by as u64, Ordering::Relaxed);
    }
}

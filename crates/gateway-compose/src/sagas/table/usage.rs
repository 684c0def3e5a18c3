//! The number and size of open sagas, in total and per caller.

/// Maximum number of open sagas.
pub(super) const MAX_OPEN: usize = 10_000;
/// Maximum size of their inputs and results, in bytes; beyond it no saga starts.
pub(super) const MAX_OPEN_BYTES: usize = 256 * 1024 * 1024;
/// One caller may use this fraction of both limits.
pub(super) const CALLER_FRACTION: usize = 4;

/// The open sagas of a caller, or of all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Usage {
    pub(super) count: usize,
    /// The size of their inputs and results, in bytes.
    pub(super) bytes: usize,
}

impl Usage {
    pub(super) fn add(&mut self, bytes: usize) {
        (self.count, self.bytes) = (self.count + 1, self.bytes.saturating_add(bytes));
    }

    pub(super) fn remove(&mut self, bytes: usize) {
        self.count = self.count.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    /// The sum over all callers. Each caller counts at most its share.
    pub(super) fn total<'a>(shares: impl Iterator<Item = &'a Self>) -> Self {
        shares.fold(Self::default(), |all, share| Self {
            count: all.count + share.count.min(MAX_OPEN / CALLER_FRACTION),
            bytes: all.bytes + share.bytes.min(MAX_OPEN_BYTES / CALLER_FRACTION),
        })
    }

    /// Whether the limit, divided by `part`, is reached.
    pub(super) fn is_full(self, part: usize) -> bool {
        self.count >= MAX_OPEN / part || self.bytes >= MAX_OPEN_BYTES / part
    }
}

//! How many sagas have not ended well, and what they hold: of all, and of each caller.

/// Most sagas that are under way, or need somebody.
pub(super) const MOST_OPEN: usize = 10_000;
/// Most bytes of what they were given and gave, before another one begins.
pub(super) const MOST_OPEN_BYTES: usize = 256 * 1024 * 1024;
/// The part of both that one caller may have.
pub(super) const SHARE: usize = 4;

/// Sagas that have not ended well.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) count: usize,
    /// What they were given and gave.
    pub(super) bytes: usize,
}

impl Held {
    pub(super) fn add(&mut self, bytes: usize) {
        (self.count, self.bytes) = (self.count + 1, self.bytes.saturating_add(bytes));
    }

    pub(super) fn remove(&mut self, bytes: usize) {
        self.count = self.count.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    /// What all callers have, each at most its part.
    pub(super) fn of_all<'a>(shares: impl Iterator<Item = &'a Self>) -> Self {
        shares.fold(Self::default(), |all, share| Self {
            count: all.count + share.count.min(MOST_OPEN / SHARE),
            bytes: all.bytes + share.bytes.min(MOST_OPEN_BYTES / SHARE),
        })
    }

    /// Whether this is as much as may be, or as this part of it.
    pub(super) fn is_full(self, part: usize) -> bool {
        self.count >= MOST_OPEN / part || self.bytes >= MOST_OPEN_BYTES / part
    }
}

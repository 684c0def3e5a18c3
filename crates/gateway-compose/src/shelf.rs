//! A bounded map whose entries expire, keyed by digest.

use std::collections::{BTreeSet, HashMap};

use registry_core::Digest;
use tokio::time::Instant;

/// Maximum number of entries.
pub(super) const MOST: usize = 10_000;
/// Maximum total size of the values as JSON, in bytes.
pub(super) const MOST_BYTES: usize = 64 * 1024 * 1024;

/// A bounded map with expiring entries.
#[derive(Debug)]
pub(super) struct Shelf<T> {
    entries: HashMap<Digest, Entry<T>>,
    /// The entries that expire, the earliest first.
    by_end: BTreeSet<(Instant, Digest)>,
    bytes: usize,
}

#[derive(Debug)]
struct Entry<T> {
    value: T,
    bytes: usize,
    /// The expiry. `None`: the entry stays until it is removed.
    until: Option<Instant>,
}

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Self { entries: HashMap::new(), by_end: BTreeSet::new(), bytes: 0 }
    }
}

impl<T> Shelf<T> {
    /// Returns an entry that has not expired.
    pub(super) fn get_mut(&mut self, key: &Digest, now: Instant) -> Option<&mut T> {
        let entry = self.entries.get_mut(key)?;
        entry.until.is_none_or(|until| until > now).then_some(&mut entry.value)
    }

    /// Inserts or replaces an entry, even beyond the limits.
    pub(super) fn put(&mut self, key: Digest, value: T, bytes: usize, until: Option<Instant>) {
        self.take(&key);
        self.bytes += bytes;
        self.by_end.extend(until.map(|until| (until, key)));
        self.entries.insert(key, Entry { value, bytes, until });
    }

    pub(super) fn take(&mut self, key: &Digest) -> Option<T> {
        let Entry { value, bytes, until } = self.entries.remove(key)?;
        self.bytes -= bytes;
        if let Some(until) = until {
            self.by_end.remove(&(until, *key));
        }
        Some(value)
    }

    pub(super) fn forget_over(&mut self, now: Instant) {
        while let Some(&(until, key)) = self.by_end.first()
            && until <= now
        {
            self.take(&key);
        }
    }

    /// Removes the entry that expires first. `false`: no entry expires.
    pub(super) fn forget_first(&mut self) -> bool {
        let Some(&(_, key)) = self.by_end.first() else { return false };
        self.take(&key);
        true
    }

    /// Whether one more entry of this size fits.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.entries.len() < MOST && self.bytes + bytes <= MOST_BYTES
    }

    #[cfg(test)]
    pub(super) fn size(&self) -> (usize, usize) {
        (self.entries.len(), self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn expired_entries_are_removed_and_free_space() {
        let mut shelf = Shelf::default();
        let now = Instant::now();
        let ends = [None, Some(now), Some(now + Duration::from_secs(1))];
        for (number, until) in (0_u8..).zip(ends) {
            shelf.put(Digest::of(&[number]), number, 10, until);
        }
        assert!(shelf.get_mut(&Digest::of(&[1]), now).is_none(), "the entry has expired");
        shelf.forget_over(now);
        assert_eq!(shelf.size(), (2, 20));
        assert!(shelf.get_mut(&Digest::of(&[1]), now).is_none());
        assert!(shelf.has_room(64 * 1_048_576 - 20) && !shelf.has_room(64 * 1_048_576 - 19));
    }
}

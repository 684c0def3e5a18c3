//! What is remembered until a time, by the digests of keys; as much as there is room for.

use std::collections::{BTreeSet, HashMap};

use registry_core::Digest;
use tokio::time::Instant;

/// Most entries.
pub(super) const MOST: usize = 10_000;
/// Most bytes of them, as JSON.
pub(super) const MOST_BYTES: usize = 64 * 1024 * 1024;

/// A bounded memory.
#[derive(Debug)]
pub(super) struct Shelf<T> {
    entries: HashMap<Digest, Entry<T>>,
    /// Those that end, the first first.
    by_end: BTreeSet<(Instant, Digest)>,
    bytes: usize,
}

#[derive(Debug)]
struct Entry<T> {
    value: T,
    bytes: usize,
    /// `None`: it stays until it is removed.
    until: Option<Instant>,
}

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Self { entries: HashMap::new(), by_end: BTreeSet::new(), bytes: 0 }
    }
}

impl<T> Shelf<T> {
    /// What has this key, if its time is not over.
    pub(super) fn get_mut(&mut self, key: &Digest, now: Instant) -> Option<&mut T> {
        let entry = self.entries.get_mut(key)?;
        entry.until.is_none_or(|until| until > now).then_some(&mut entry.value)
    }

    /// Keeps something, in the place of what had its key. Whoever asks for more room than there is
    /// gets it.
    pub(super) fn put(&mut self, key: Digest, value: T, bytes: usize, until: Option<Instant>) {
        self.take(&key);
        self.bytes += bytes;
        self.by_end.extend(until.map(|until| (until, key)));
        self.entries.insert(key, Entry { value, bytes, until });
    }

    /// Forgets what has this key, and gives it.
    pub(super) fn take(&mut self, key: &Digest) -> Option<T> {
        let Entry { value, bytes, until } = self.entries.remove(key)?;
        self.bytes -= bytes;
        if let Some(until) = until {
            self.by_end.remove(&(until, *key));
        }
        Some(value)
    }

    /// Forgets everything whose time is over.
    pub(super) fn forget_over(&mut self, now: Instant) {
        while let Some(&(until, key)) = self.by_end.first()
            && until <= now
        {
            self.take(&key);
        }
    }

    /// Forgets what ends first; false where nothing ends.
    pub(super) fn forget_first(&mut self) -> bool {
        let Some(&(_, key)) = self.by_end.first() else { return false };
        self.take(&key);
        true
    }

    /// Whether there is room for one more, of so many bytes.
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
    fn what_is_over_is_forgotten_and_makes_room() {
        let mut shelf = Shelf::default();
        let now = Instant::now();
        let ends = [None, Some(now), Some(now + Duration::from_secs(1))];
        for (number, until) in (0_u8..).zip(ends) {
            shelf.put(Digest::compute(&[number]), number, 10, until);
        }
        assert!(shelf.get_mut(&Digest::compute(&[1]), now).is_none(), "it is over already");
        shelf.forget_over(now);
        assert_eq!(shelf.size(), (2, 20));
        assert!(shelf.get_mut(&Digest::compute(&[1]), now).is_none());
        assert!(shelf.has_room(64 * 1_048_576 - 20) && !shelf.has_room(64 * 1_048_576 - 19));
    }
}

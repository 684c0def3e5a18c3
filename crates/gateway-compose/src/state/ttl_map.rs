//! A bounded map whose entries expire, keyed by digest.

use std::collections::{BTreeSet, HashMap};

use registry_core::Digest;
use tokio::time::Instant;

/// Maximum number of entries.
pub(super) const MAX_ENTRIES: usize = 10_000;
/// Maximum total size of the values as JSON, in bytes.
pub(super) const MAX_BYTES: usize = 64 * 1024 * 1024;

/// A bounded map with expiring entries.
#[derive(Debug)]
pub(super) struct TtlMap<T> {
    entries: HashMap<Digest, Entry<T>>,
    /// The entries that expire, the earliest first.
    by_expiry: BTreeSet<(Instant, Digest)>,
    bytes: usize,
}

#[derive(Debug)]
struct Entry<T> {
    value: T,
    bytes: usize,
    /// The expiry. `None`: the entry stays until it is removed.
    expires_at: Option<Instant>,
}

impl<T> Default for TtlMap<T> {
    fn default() -> Self {
        Self { entries: HashMap::new(), by_expiry: BTreeSet::new(), bytes: 0 }
    }
}

impl<T> TtlMap<T> {
    /// Returns an entry that has not expired.
    pub(super) fn get_mut(&mut self, key: &Digest, now: Instant) -> Option<&mut T> {
        let entry = self.entries.get_mut(key)?;
        entry.expires_at.is_none_or(|expires_at| expires_at > now).then_some(&mut entry.value)
    }

    /// Inserts or replaces an entry, even beyond the limits.
    pub(super) fn insert(
        &mut self,
        key: Digest,
        value: T,
        bytes: usize,
        expires_at: Option<Instant>,
    ) {
        self.remove(&key);
        self.bytes += bytes;
        self.by_expiry.extend(expires_at.map(|expires_at| (expires_at, key)));
        self.entries.insert(key, Entry { value, bytes, expires_at });
    }

    pub(super) fn remove(&mut self, key: &Digest) -> Option<T> {
        let Entry { value, bytes, expires_at } = self.entries.remove(key)?;
        self.bytes -= bytes;
        if let Some(expires_at) = expires_at {
            self.by_expiry.remove(&(expires_at, *key));
        }
        Some(value)
    }

    pub(super) fn remove_expired(&mut self, now: Instant) {
        while let Some(&(expires_at, key)) = self.by_expiry.first()
            && expires_at <= now
        {
            self.remove(&key);
        }
    }

    /// Removes the entry that expires first. `false`: no entry expires.
    pub(super) fn evict_first(&mut self) -> bool {
        let Some(&(_, key)) = self.by_expiry.first() else { return false };
        self.remove(&key);
        true
    }

    /// Whether one more entry of this size fits.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.entries.len() < MAX_ENTRIES && self.bytes + bytes <= MAX_BYTES
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
        let mut map = TtlMap::default();
        let now = Instant::now();
        let ends = [None, Some(now), Some(now + Duration::from_secs(1))];
        for (number, expires_at) in (0_u8..).zip(ends) {
            map.insert(Digest::compute(&[number]), number, 10, expires_at);
        }
        assert!(map.get_mut(&Digest::compute(&[1]), now).is_none(), "the entry has expired");
        map.remove_expired(now);
        assert_eq!(map.size(), (2, 20));
        assert!(map.get_mut(&Digest::compute(&[1]), now).is_none());
        assert!(map.has_room(64 * 1_048_576 - 20) && !map.has_room(64 * 1_048_576 - 19));
    }
}

//! Lookups of keys in mostly ascending order.

use std::{cmp::Ordering, iter::Peekable};

use crate::reference::Key;

/// Maximum number of skipped entries before a search, which compares about as many keys.
const STEPS: usize = 16;

/// A position among entries in the order of their keys. A lookup of a key shortly after the last one
/// advances the position by a few entries. Other lookups search from the root of the collection.
pub(crate) struct Ascending<'a, I: Iterator, F> {
    /// The entries from a key on.
    from: F,
    rest: Option<Peekable<I>>,
    last: Option<&'a Key>,
}

impl<'a, V, I, F> Ascending<'a, I, F>
where
    I: Iterator<Item = (&'a Key, V)>,
    F: Fn(&Key) -> I,
{
    pub(crate) fn new(from: F) -> Self {
        Self { from, rest: None, last: None }
    }

    /// Calls `found` with the values of the entries with this key.
    pub(crate) fn each(&mut self, key: &'a Key, mut found: impl FnMut(V)) {
        if self.seek(key)
            && let Some(rest) = &mut self.rest
        {
            let mut entry = rest.next();
            while let Some((_, value)) = entry {
                found(value);
                entry = rest.next_if(|(at, _)| Key::cmp(at, key).is_eq());
            }
        }
    }

    /// The value of the only entry with this key.
    pub(crate) fn find(&mut self, key: &'a Key) -> Option<V> {
        if !self.seek(key) {
            return None;
        }
        Some(self.rest.as_mut()?.next()?.1)
    }

    /// Moves to the first entry with this key. Returns whether there is one.
    fn seek(&mut self, key: &'a Key) -> bool {
        let last = self.last.replace(key);
        if let Some(rest) = &mut self.rest {
            for _ in 0..STEPS {
                match rest.peek().map(|(at, _)| Key::cmp(at, key)) {
                    Some(Ordering::Less) => {
                        rest.next();
                    }
                    Some(Ordering::Equal) => return true,
                    // The last key, and entries before it, precede the position.
                    _ if last.is_some_and(|last| last < key) => return false,
                    _ => break,
                }
            }
        }
        let rest = self.rest.insert((self.from)(key).peekable());
        rest.peek().is_some_and(|(at, _)| Key::cmp(at, key).is_eq())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: usize) -> Key {
        format!("tool/t{number:05}@1.0.0").parse().unwrap()
    }

    #[test]
    fn ascending_finds_all_entries_in_any_order() {
        // Every third key has one to three entries.
        let numbers = (0..300).filter(|number: &usize| number.is_multiple_of(3));
        let entries: Vec<(Key, usize)> = numbers
            .flat_map(|number| (0..=number % 4 % 3).map(move |i| (key(number), i)))
            .collect();
        let from = |key: &Key| {
            let first = entries.partition_point(|(at, _)| at < key);
            entries[first..].iter().map(|(key, value)| (key, *value))
        };
        let keys: Vec<Key> = (0..310).map(key).collect();
        for stride in [1, 2, 3, 7, 48, 51, 100] {
            let mut ascending = Ascending::new(from);
            let up = (0..keys.len()).step_by(stride);
            let order = up.clone().chain(up.rev()).chain([5, 6, 6, 6, 9]);
            for at in order {
                let mut found = Vec::new();
                ascending.each(&keys[at], |value| found.push(value));
                let expected = entries.iter().filter(|(key, _)| *key == keys[at]);
                let expected: Vec<usize> = expected.map(|(_, value)| *value).collect();
                assert_eq!(found, expected, "{} with stride {stride}", keys[at]);
            }
        }
    }

    #[test]
    fn ascending_finds_only_entry_in_any_order() {
        let entries: Vec<(Key, usize)> =
            (0..300).step_by(3).map(|number| (key(number), number)).collect();
        let from = |key: &Key| {
            let first = entries.partition_point(|(at, _)| at < key);
            entries[first..].iter().map(|(key, value)| (key, *value))
        };
        let keys: Vec<Key> = (0..310).map(key).collect();
        let mut ascending = Ascending::new(from);
        for at in [0_usize, 0, 3, 4, 5, 6, 3, 297, 296, 309, 300, 297, 12, 60, 63, 64, 120, 1, 2] {
            let expected = (at.is_multiple_of(3) && at < 300).then_some(at);
            assert_eq!(ascending.find(&keys[at]), expected, "{}", keys[at]);
        }
    }
}

//! Lookups of keys in mostly ascending order.

use std::iter::Peekable;

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

    /// The values of the entries with this key.
    pub(crate) fn of(&mut self, key: &'a Key) -> impl Iterator<Item = V> {
        let ascends = self.last.replace(key).is_some_and(|last| last < key);
        let is_near = ascends && self.rest.as_mut().is_some_and(|rest| skip_to(rest, key));
        if !is_near {
            self.rest = Some((self.from)(key).peekable());
        }
        let rest = &mut self.rest;
        std::iter::from_fn(move || Some(rest.as_mut()?.next_if(|(at, _)| *at == key)?.1))
    }
}

/// Skips entries with smaller keys. Returns whether this key, or its place, was reached.
fn skip_to<'a, V>(rest: &mut Peekable<impl Iterator<Item = (&'a Key, V)>>, key: &Key) -> bool {
    (0..STEPS).any(|_| rest.next_if(|(at, _)| *at < key).is_none())
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
                let found: Vec<usize> = ascending.of(&keys[at]).collect();
                let expected = entries.iter().filter(|(key, _)| *key == keys[at]);
                let expected: Vec<usize> = expected.map(|(_, value)| *value).collect();
                assert_eq!(found, expected, "{} with stride {stride}", keys[at]);
            }
        }
    }

    #[test]
    fn ascending_continues_after_partly_read_entries() {
        let entries = [(key(1), 'a'), (key(1), 'b'), (key(2), 'c')];
        let from = |key: &Key| {
            let first = entries.partition_point(|(at, _)| at < key);
            entries[first..].iter().map(|(key, value)| (key, *value))
        };
        let (one, two) = (key(1), key(2));
        let mut ascending = Ascending::new(from);
        assert_eq!(ascending.of(&one).next(), Some('a'));
        assert_eq!(ascending.of(&two).collect::<String>(), "c");
        assert_eq!(ascending.of(&one).collect::<String>(), "ab");
    }
}

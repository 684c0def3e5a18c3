//! Records in memory under counted ids: `doc-1`, `doc-2`, …

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Records of one kind, in the order they were added.
#[derive(Debug)]
pub struct Records<T> {
    prefix: &'static str,
    items: Vec<T>,
}

impl<T> Records<T> {
    /// No records, with the ids `prefix-1`, `prefix-2`, …
    pub const fn new(prefix: &'static str) -> Self {
        Self { prefix, items: Vec::new() }
    }

    /// Adds the record that `make` builds from the next id.
    pub fn add(&mut self, make: impl FnOnce(String) -> T) -> &T {
        let index = self.items.len();
        let id = self.id(index);
        self.items.push(make(id));
        &self.items[index]
    }

    /// The record with this id.
    pub fn find(&self, id: &str) -> Option<&T> {
        self.index(id).map(|index| &self.items[index])
    }

    /// The record with this id, mutable.
    pub fn find_mut(&mut self, id: &str) -> Option<&mut T> {
        self.index(id).map(|index| &mut self.items[index])
    }

    /// All records, oldest first.
    pub fn iter(&self) -> std::slice::Iter<'_, T> {
        self.items.iter()
    }

    /// All records, oldest first, mutable.
    pub fn iter_mut(&mut self) -> std::slice::IterMut<'_, T> {
        self.items.iter_mut()
    }

    fn id(&self, index: usize) -> String {
        format!("{}-{}", self.prefix, index + 1)
    }

    fn index(&self, id: &str) -> Option<usize> {
        let number: usize = id.rsplit_once('-')?.1.parse().ok()?;
        let index = number.checked_sub(1)?;
        (index < self.items.len() && self.id(index) == id).then_some(index)
    }
}

impl<'a, T> IntoIterator for &'a Records<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a, T> IntoIterator for &'a mut Records<T> {
    type Item = &'a mut T;
    type IntoIter = std::slice::IterMut<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}

/// Locks a state, also after a panic of another call.
pub fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_count_from_one_and_find_their_record() {
        let mut records = Records::new("doc");
        assert_eq!(records.add(|id| id), "doc-1");
        assert_eq!(records.add(|id| id), "doc-2");
        assert_eq!(records.find("doc-2").map(String::as_str), Some("doc-2"));
    }

    #[test]
    fn only_the_exact_id_finds() {
        let mut records = Records::new("doc");
        records.add(|id| id);
        for id in ["doc-0", "doc-2", "doc-01", "doc-+1", "task-1", "doc", "1", ""] {
            assert_eq!(records.find(id), None, "{id:?}");
        }
    }
}

//! Label values from the catalog, limited in number: the first names have their own series, all
//! others share one.

use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use metrics::SharedString;

use foldhash::HashMap;

/// The label of the shared series.
const OTHER: &str = "other";

/// The metrics of each name.
#[derive(Debug)]
pub(super) struct LimitedLabels<T> {
    max: usize,
    make: fn(SharedString) -> T,
    known: RwLock<HashMap<Arc<str>, Arc<T>>>,
    other: OnceLock<Arc<T>>,
}

impl<T> LimitedLabels<T> {
    /// Creates a map for at most `max` names. `make` creates the metrics of a label.
    pub(super) fn new(max: usize, make: fn(SharedString) -> T) -> Self {
        Self { max, make, known: RwLock::default(), other: OnceLock::new() }
    }

    /// Returns the metrics of a name, or the shared ones.
    pub(super) fn get(&self, name: Option<&str>) -> Arc<T> {
        let Some(name) = name else { return self.other() };
        if let Some(known) = self.known.read().unwrap_or_else(PoisonError::into_inner).get(name) {
            return Arc::clone(known);
        }
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= self.max && !known.contains_key(name) {
            return self.other();
        }
        let name: Arc<str> = name.into();
        let made = || Arc::new((self.make)(Arc::clone(&name).into()));
        Arc::clone(known.entry(Arc::clone(&name)).or_insert_with(made))
    }

    fn other(&self) -> Arc<T> {
        Arc::clone(self.other.get_or_init(|| Arc::new((self.make)(OTHER.into()))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_names_share_a_series() {
        let names = LimitedLabels::new(2, |label| label);
        for (name, label) in [("a", "a"), ("b", "b"), ("c", "other"), ("a", "a"), ("c", "other")] {
            assert_eq!(&**names.get(Some(name)), label);
        }
        assert_eq!(&**names.get(None), "other");
    }
}

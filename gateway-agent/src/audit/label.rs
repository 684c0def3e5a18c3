//! Label values from the catalog, limited in number: the first names have their own series, all
//! others share one.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arc_swap::ArcSwap;
use foldhash::HashMap;
use metrics::SharedString;

/// The label of the shared series.
const OTHER: &str = "other";

/// The metrics of each name.
#[derive(Debug)]
pub(super) struct LimitedLabels<T> {
    max: usize,
    make: fn(SharedString) -> T,
    /// Replaced for each new name. A lock would be shared by the calls of all workers.
    known: ArcSwap<HashMap<Arc<str>, Arc<T>>>,
    /// Serializes additions.
    adding: Mutex<()>,
    other: OnceLock<T>,
}

impl<T> LimitedLabels<T> {
    /// Creates a map for at most `max` names. `make` creates the metrics of a label.
    pub(super) fn new(max: usize, make: fn(SharedString) -> T) -> Self {
        let (known, adding) = (ArcSwap::default(), Mutex::default());
        Self { max, make, known, adding, other: OnceLock::new() }
    }

    /// Uses the metrics of a name, or the shared ones.
    pub(super) fn with<R>(&self, name: Option<&str>, count: impl FnOnce(&T) -> R) -> R {
        let Some(name) = name else { return count(self.other()) };
        if let Some(known) = self.known.load().get(name) {
            return count(known);
        }
        match self.added(name) {
            Some(added) => count(&added),
            None => count(self.other()),
        }
    }

    /// Adds a name. `None`: there are too many.
    fn added(&self, name: &str) -> Option<Arc<T>> {
        let _one_at_a_time = self.adding.lock().unwrap_or_else(PoisonError::into_inner);
        let known = self.known.load();
        if let Some(added) = known.get(name) {
            return Some(Arc::clone(added));
        }
        if known.len() >= self.max {
            return None;
        }
        let name: Arc<str> = name.into();
        let added = Arc::new((self.make)(Arc::clone(&name).into()));
        let mut next = HashMap::clone(&known);
        next.insert(name, Arc::clone(&added));
        self.known.store(Arc::new(next));
        Some(added)
    }

    fn other(&self) -> &T {
        self.other.get_or_init(|| (self.make)(OTHER.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_names_share_a_series() {
        let names = LimitedLabels::new(2, |label| label);
        for (name, label) in [("a", "a"), ("b", "b"), ("c", "other"), ("a", "a"), ("c", "other")] {
            names.with(Some(name), |known| assert_eq!(&**known, label));
        }
        names.with(None, |known| assert_eq!(&**known, "other"));
    }
}

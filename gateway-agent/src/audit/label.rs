//! Labels with names of the catalog, bounded: the first so many get a series each, and all others
//! share one.
//!
//! Deliberately absent: giving a place back; a restart does.

use std::{
    collections::HashSet,
    sync::{Arc, PoisonError, RwLock},
};

use metrics::SharedString;

/// What shares a series.
const OTHER: &str = "other";

/// Names that have a series.
#[derive(Debug)]
pub(super) struct Names {
    most: usize,
    known: RwLock<HashSet<Arc<str>>>,
}

impl Names {
    pub(super) fn new(most: usize) -> Self {
        Self { most, known: RwLock::default() }
    }

    /// The name, or what it shares its series with.
    pub(super) fn label(&self, name: Option<&str>) -> SharedString {
        let Some(name) = name else { return OTHER.into() };
        if let Some(known) = self.known.read().unwrap_or_else(PoisonError::into_inner).get(name) {
            return Arc::clone(known).into();
        }
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= self.most && !known.contains(name) {
            return OTHER.into();
        }
        let name: Arc<str> = name.into();
        known.insert(Arc::clone(&name));
        name.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_names_share_a_series() {
        let names = Names::new(2);
        for (name, label) in [("a", "a"), ("b", "b"), ("c", "other"), ("a", "a"), ("c", "other")] {
            assert_eq!(&*names.label(Some(name)), label);
        }
        assert_eq!(&*names.label(None), "other");
    }
}

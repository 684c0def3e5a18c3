//! Maps places of a result to places of the input, after members were moved or dropped from lists.

use std::collections::BTreeMap;

use serde_json::Value;

/// Pointers into a result, with their pointers into the input.
#[derive(Debug, Clone, Default)]
pub(super) struct Origins(BTreeMap<String, String>);

impl Origins {
    /// Creates the map of a result that was at this pointer.
    pub(super) fn new(pointer: &str) -> Self {
        Self(BTreeMap::from([(String::new(), pointer.to_owned())]))
    }

    /// Records that a place and everything below it was moved.
    pub(super) fn moved(&mut self, to: impl Into<String>, from: impl Into<String>) {
        let (to, from) = (to.into(), from.into());
        if self.origin(&to) != from {
            self.0.insert(to, from);
        }
    }

    /// Builds a list at this place from items with their origins.
    pub(super) fn list(&mut self, to: &str, items: Vec<(String, Value)>) -> Vec<Value> {
        let item = |(i, (from, item))| {
            self.moved(format!("{to}/{i}"), from);
            item
        };
        items.into_iter().enumerate().map(item).collect()
    }

    /// Adds the places of a result derived from this one.
    pub(super) fn join(&mut self, later: Self) {
        let places: Vec<_> =
            later.0.into_iter().map(|(to, from)| (to, self.origin(&from))).collect();
        for (to, from) in places {
            self.moved(to, from);
        }
    }

    /// The origin of a place.
    pub(super) fn origin(&self, pointer: &str) -> String {
        let mut end = pointer.len();
        loop {
            let (above, below) = pointer.split_at(end);
            match (self.0.get(above), above.rfind('/')) {
                (Some(from), _) => return format!("{from}{below}"),
                (None, Some(slash)) => end = slash,
                (None, None) => return pointer.to_owned(),
            }
        }
    }
}

//! A bound of the work for one composition: steps that each hold their predecessor twice would
//! double its schema.

use std::cell::Cell;

use serde_json::Value;

/// Most schema nodes that are built for one composition.
const MOST: usize = 500_000;

/// The work that is left.
#[derive(Debug)]
pub(super) struct Work(Cell<usize>);

impl Default for Work {
    fn default() -> Self {
        Self(Cell::new(MOST))
    }
}

impl Work {
    /// Takes some of it; whether that much was left.
    pub(super) fn take(&self, nodes: usize) -> bool {
        let left = self.0.get().checked_sub(nodes);
        self.0.set(left.unwrap_or(0));
        left.is_some()
    }

    /// A copy of a schema, if there is room for it.
    pub(super) fn copy(&self, schema: &Value) -> Option<Value> {
        self.take(count(schema)).then(|| schema.clone())
    }
}

fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum::<usize>(),
        Value::Object(members) => members.values().map(count).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

//! A limit on the schemas built for one composition, because steps that contain their predecessor
//! twice would double the size each time.

use std::cell::Cell;

use serde_json::Value;

/// Maximum number of schema nodes built for one composition.
const MOST: usize = 500_000;

/// The remaining budget.
#[derive(Debug)]
pub(super) struct Work(Cell<usize>);

impl Default for Work {
    fn default() -> Self {
        Self(Cell::new(MOST))
    }
}

impl Work {
    /// Charges this number of nodes; returns whether the budget suffices.
    pub(super) fn take(&self, nodes: usize) -> bool {
        let left = self.0.get().checked_sub(nodes);
        self.0.set(left.unwrap_or(0));
        left.is_some()
    }

    /// Copies a schema if the budget suffices.
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

//! How much the schemas of one composition may come to: steps that each hold what is before them
//! twice would double them.
//!
//! Deliberately absent: comparing them, which has a budget of its own.

use std::cell::Cell;

use serde_json::Value;

use super::Flow;

/// Most values that are copied for one composition.
const MOST: usize = 500_000;

/// What is left of it.
#[derive(Debug)]
pub(super) struct Work(Cell<usize>);

impl Default for Work {
    fn default() -> Self {
        Self(Cell::new(MOST))
    }
}

impl Work {
    /// A copy of a schema, if there is still room for it.
    pub(super) fn copy(&self, schema: &Value) -> Option<Value> {
        let mut left = self.0.get();
        let fits = count(schema, &mut left);
        self.0.set(left);
        fits.then(|| schema.clone())
    }

    /// A copy of what may come, or anything.
    pub(super) fn copied(&self, Flow { schema, is_known }: &Flow) -> Flow {
        let copy = self.copy(schema).map(|schema| Flow { schema, is_known: *is_known });
        copy.unwrap_or_else(Flow::unknown)
    }
}

/// Takes one for each value, and says whether that was enough.
fn count(value: &Value, left: &mut usize) -> bool {
    let Some(less) = left.checked_sub(1) else { return false };
    *left = less;
    match value {
        Value::Array(items) => items.iter().all(|item| count(item, left)),
        Value::Object(members) => members.values().all(|member| count(member, left)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

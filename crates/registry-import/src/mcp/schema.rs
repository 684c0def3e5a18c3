//! Size limits of a live tool's JSON Schema.

use registry_core::{document::canonical_bytes, limits};
use serde_json::Value;

use crate::{Repairs, screening::screen_schema};

/// The repair of a schema that the registry would reject.
pub(super) const LEFT_OUT: &str = "the schema was left out; mend it and add it";

/// The schema with cleaned texts, if it can be used.
pub(super) fn usable(said: &Value, pointer: &str, repairs: &mut Repairs) -> Option<Value> {
    if !said.is_object() {
        repairs.needed(pointer, "a tool's schema must be an object", LEFT_OUT);
        return None;
    }
    if depth(said) > limits::DOCUMENT_DEPTH || canonical_bytes(said).len() > limits::DOCUMENT_BYTES
    {
        repairs.needed(pointer, "the schema is too deep or too big", LEFT_OUT);
        return None;
    }
    Some(screen_schema(repairs, said, pointer))
}

fn depth(value: &Value) -> usize {
    let inner = match value {
        Value::Array(items) => items.iter().map(depth).max(),
        Value::Object(map) => map.values().map(depth).max(),
        _ => return 0,
    };
    1 + inner.unwrap_or_default()
}

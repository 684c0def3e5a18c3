//! Properties of the canonical form.

use proptest::prelude::*;
use registry_core::document::{canonical_bytes, parse_json};
use registry_fixtures::values::json;
use serde_json::Value;

/// The value as seen by an IEEE 754 parser, because RFC 8785 has no other numbers.
fn as_doubles(value: &Value) -> Value {
    match value {
        Value::Number(number) => Value::from(number.as_f64().unwrap()),
        Value::Array(items) => items.iter().map(as_doubles).collect(),
        Value::Object(map) => map.iter().map(|(k, v)| (k.clone(), as_doubles(v))).collect(),
        other => other.clone(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn canonical_form_matches_library(value in json()) {
        let slowly = serde_json_canonicalizer::to_vec(&value).unwrap();
        prop_assert_eq!(canonical_bytes(&value), slowly);
    }

    #[test]
    fn canonical_form_is_idempotent(value in json()) {
        let bytes = canonical_bytes(&value);
        let read = parse_json(&bytes).unwrap();
        prop_assert_eq!(as_doubles(&read), as_doubles(&value));
        prop_assert_eq!(canonical_bytes(&read), bytes.clone());
        let pretty = serde_json::to_vec_pretty(&value).unwrap();
        let reread: Value = serde_json::from_slice(&pretty).unwrap();
        prop_assert_eq!(canonical_bytes(&reread), bytes);
    }
}

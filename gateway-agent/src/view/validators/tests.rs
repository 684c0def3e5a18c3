//! Sharing and eviction of validators.

use super::*;
use crate::view::input::ServedSchema;

fn schema(text: &str) -> ServedSchema {
    ServedSchema { text: text.into(), digest: Digest::compute(text.as_bytes()) }
}

#[test]
fn equal_schemas_share_one_validator() {
    let validators = Validators::default();
    let first = validators.get(&schema(r#"{"type":"object"}"#));
    assert!(Arc::ptr_eq(&first, &validators.get(&schema(r#"{"type":"object"}"#))));
    assert!(!Arc::ptr_eq(&first, &validators.get(&schema(r#"{"type":"string"}"#))));
}

#[test]
fn invalid_schema_reports_reason() {
    let validators = Validators::default();
    for text in [r#"{"type":5}"#, r#"{"$ref":"https://example.com/x"}"#, "{"] {
        assert!(validators.get(&schema(text)).is_err(), "{text}");
    }
}

#[test]
fn first_validators_are_evicted() {
    let validators = Validators::default();
    let numbered = |i: usize| schema(&format!(r#"{{"title":"{i}"}}"#));
    for i in 0..3 * HALF {
        validators.get(&numbered(i));
        let halves = validators.0.load();
        assert!(halves.young.len() <= HALF && halves.old.len() <= HALF);
    }
    let is_held = [0, HALF - 1, HALF, 3 * HALF - 1].map(|i| validators.holds(&numbered(i)));
    assert_eq!(is_held, [false, false, true, true]);
    let before = validators.0.load_full();
    validators.get(&numbered(HALF));
    assert!(Arc::ptr_eq(&before, &validators.0.load_full()), "a use copies nothing");
}

#[test]
fn cyclic_references_are_harmless() {
    let validators = Validators::default();
    for text in [
        r##"{"$ref":"#"}"##,
        r##"{"allOf":[{"$ref":"#"}]}"##,
        r##"{"$defs":{"a":{"$ref":"#/$defs/a"}},"properties":{"x":{"$ref":"#/$defs/a"}}}"##,
    ] {
        let compiled = validators.get(&schema(text));
        let validator = compiled.as_ref().as_ref().unwrap();
        assert!(validator.is_valid(&serde_json::json!({ "x": { "x": 1 } })), "{text}");
    }
}

impl Validators {
    fn holds(&self, schema: &ServedSchema) -> bool {
        let halves = self.0.load();
        halves.young.contains_key(&schema.digest) || halves.old.contains_key(&schema.digest)
    }
}

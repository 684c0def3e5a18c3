//! Tests of schema weights.

use serde_json::{Value, json};

use super::{Weight, weigh};
use crate::limits;

fn is_refused(schema: &Value) -> bool {
    weigh(schema, &mut |_| Some(Weight::ONE)).is_err()
}

/// `d0` … `d30`, each built from its predecessor by `step`.
fn chain(step: impl Fn(Value) -> Value) -> Value {
    let link = |i: usize| match i {
        0 => json!({ "type": "object" }),
        i => step(json!({ "$ref": format!("#/$defs/d{}", i - 1) })),
    };
    let defs: serde_json::Map<_, _> = (0..=30).map(|i| (format!("d{i}"), link(i))).collect();
    json!({ "$ref": "#/$defs/d30", "$defs": defs })
}

#[test]
fn doubling_at_each_level_is_rejected() {
    for step in [
        (|d| json!({ "allOf": [d, d] })) as fn(Value) -> Value,
        |d| json!({ "anyOf": [d, d] }),
        |d| json!({ "oneOf": [d, { "not": d }] }),
        |d| json!({ "$ref": d["$ref"], "if": d }),
        |d| json!({ "dependentSchemas": { "a": d, "b": d } }),
        |d| json!({ "properties": { "a": d }, "patternProperties": { "a": d } }),
        |d| json!({ "allOf": [{ "properties": { "a": d } }, { "properties": { "a": d } }] }),
        |d| json!({ "items": d, "contains": d }),
        |d| json!({ "allOf": [{ "items": d }, { "items": d }], "unevaluatedItems": d }),
    ] {
        assert!(is_refused(&chain(step)), "{}", step(json!("d")));
    }
}

#[test]
fn references_resolve_like_in_compiler() {
    let anchored = |id: &dyn Fn(usize) -> String, keyword: &str, to: &dyn Fn(usize) -> String| {
        let link = |i: usize| match i {
            0 => json!({ "$id": id(0), "$dynamicAnchor": "node", "type": "object" }),
            i => {
                let before = json!({ keyword: to(i - 1) });
                json!({ "$id": id(i), "$dynamicAnchor": "node", "allOf": [before, before] })
            }
        };
        let defs: serde_json::Map<_, _> = (0..=30).map(|i| (format!("d{i}"), link(i))).collect();
        json!({ "$dynamicAnchor": "node", "$ref": to(30), "$defs": defs })
    };
    for (id, keyword, to) in [
        ("http://x.y/k%64", "$ref", "http://x.y/kd"),
        ("http://x.y/a/../kd", "$ref", "HTTP://x.y:80/kd"),
        ("http://x.y/kd", "$dynamicRef", "http://x.y/kd"),
    ] {
        let (id, to) = (|i: usize| format!("{id}{i}"), |i: usize| format!("{to}{i}"));
        assert!(is_refused(&anchored(&id, keyword, &to)), "{}", to(0));
    }
    let (id, to) = (|i: usize| format!("http://x.y/{i}/"), |i: usize| format!("http://x.y/{i}/#"));
    assert!(is_refused(&anchored(&id, "$ref", &to)));
    // Resources with the same last segment are distinct, and `#` is the nearest one.
    let name = |i: usize| json!({ "$id": format!("http://x.y/{i}/v1"), "items": { "$ref": "#" } });
    let all: Vec<_> = (0..20).map(|i| json!({ "$ref": format!("http://x.y/{i}/v1") })).collect();
    let parts: serde_json::Map<_, _> = (0..20).map(|i| (i.to_string(), name(i))).collect();
    let schema = json!({ "allOf": all, "$defs": parts, "unevaluatedProperties": false });
    assert!(!is_refused(&schema));
}

#[test]
fn double_recursion_is_rejected() {
    let me = json!({ "$ref": "#" });
    for schema in [
        json!({ "allOf": [me, me] }),
        json!({ "anyOf": [me, { "not": me }] }),
        json!({ "properties": { "a": me }, "patternProperties": { "a": me } }),
        json!({ "properties": { "x-a": me }, "patternProperties": { "^x-": me } }),
        json!({ "allOf": [{ "properties": { "a": me } }, { "additionalProperties": me }] }),
        json!({ "allOf": [{ "properties": { "a": me } }, { "properties": { "a": me } }] }),
        json!({ "$id": "urn:a", "items": { "$ref": "urn:a" }, "contains": me }),
    ] {
        assert!(is_refused(&schema), "{schema}");
    }
}

#[test]
fn ordinary_recursion_and_sharing_are_accepted() {
    let me = json!({ "$ref": "#" });
    let operator =
        |name: &str| json!({ "properties": { "op": { "const": name }, "l": me, "r": me } });
    let operators: Vec<_> = ["and", "or", "not", "add"].map(operator).to_vec();
    for schema in [
        me.clone(),
        json!({ "allOf": [me] }),
        json!({ "properties": { "left": me, "right": me }, "additionalProperties": me }),
        json!({ "oneOf": operators }),
        json!({ "anyOf": [{ "type": "object", "additionalProperties": me }, { "items": me }] }),
        json!({ "properties": { "a": me }, "unevaluatedProperties": false }),
        json!({ "properties": { "a": me }, "unevaluatedProperties": me }),
        json!({ "allOf": [{ "properties": { "a": me } }], "unevaluatedProperties": me }),
        json!({ "anyOf": [{ "properties": { "a": me } }, { "type": "null" }], "unevaluatedProperties": false }),
        json!({ "$ref": "#/$defs/base", "$defs": { "base": { "properties": { "children": { "items": me } } } },
            "properties": { "parent": me }, "unevaluatedProperties": false }),
        json!({ "allOf": [{ "properties": { "left": me } }, { "properties": { "right": me } }] }),
        json!({ "dependentSchemas": { "a": { "properties": { "l": me } }, "b": { "properties": { "r": me } } } }),
        json!({ "properties": { "node": me }, "patternProperties": { "^x-": me } }),
        json!({ "allOf": [{ "prefixItems": [me] }, { "prefixItems": [{}, me] }] }),
        json!({ "prefixItems": [me], "unevaluatedItems": me }),
        json!({ "anyOf": [{ "items": me }, { "type": "string" }], "unevaluatedItems": false }),
        chain(|d| json!({ "properties": { "a": d, "b": d } })),
        chain(|d| json!({ "allOf": [d] })),
    ] {
        assert!(!is_refused(&schema), "{schema}");
    }
}

#[test]
fn registered_schemas_count_by_their_weight() {
    let two = json!({ "allOf": [{ "$ref": "#A:1.0.0" }, { "$ref": "#A:1.0.0" }] });
    let weight = |here| Weight { here, below: 1 };
    let half = limits::SCHEMA_PATHS / 2;
    assert!(weigh(&two, &mut |_| Some(weight(half - 10))).is_ok());
    assert!(weigh(&two, &mut |_| Some(weight(half))).is_err());
}

#[test]
fn weighing_many_members_takes_bounded_time() {
    // Every node reaches all names of its successors.
    let link = |i: usize| {
        let names: serde_json::Map<_, _> =
            (0..40).map(|name| (format!("n{i}-{name}"), json!({ "type": "object" }))).collect();
        json!({ "$ref": format!("#/$defs/d{}", i + 1), "properties": names })
    };
    let mut defs: serde_json::Map<_, _> = (0..400).map(|i| (format!("d{i}"), link(i))).collect();
    defs.insert("d400".to_owned(), json!(true));
    assert!(!is_refused(&json!({ "$ref": "#/$defs/d0", "$defs": defs })));
}

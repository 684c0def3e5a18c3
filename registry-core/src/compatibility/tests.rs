//! Pairs of schemas and what is said about them.
//!
//! Deliberately absent: random ones, which are property tests.

use serde_json::{Value, json};

use super::{Budget, Side, Verdict, covers};

/// `yes`, `no keyword pointer instance`, or `undecided pointer`.
fn verdict(old: &Value, new: &Value) -> String {
    match covers((old, ""), (new, ""), Side::New, &|_| None, &mut Budget::of_one()) {
        Verdict::Yes => "yes".to_owned(),
        Verdict::No(found) => {
            let instance = found.instance.unwrap_or_default();
            format!("no {} {} {instance}", found.keyword, found.pointer)
        }
        Verdict::Undecided(doubt) => format!("undecided {} {}", doubt.pointer, doubt.reason),
    }
}

#[test]
fn try_it() {
    let pairs = [
        (json!({"type": "integer"}), json!({"type": "number"})),
        (json!({"type": "number"}), json!({"type": "integer"})),
        (json!({"type": "string"}), json!({"type": "string", "maxLength": 5})),
        (
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}),
            json!({"type": "object", "properties": {"a": {"type": ["string", "null"]}}}),
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "string"}}}),
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}),
        ),
        (
            json!({"oneOf": [{"properties": {"k": {"const": 1}}, "required": ["k"]}, {"properties": {"k": {"const": 2}}, "required": ["k"]}]}),
            json!({"oneOf": [{"properties": {"k": {"const": 1}}, "required": ["k"]}, {"properties": {"k": {"const": 2}}, "required": ["k"]}, {"properties": {"k": {"const": 3}}, "required": ["k"]}]}),
        ),
        (json!({"pattern": "^[a-z]+$"}), json!({"pattern": "^[a-z]{1,3}$"})),
        (
            json!({"$defs": {"n": {"properties": {"next": {"$ref": "#/$defs/n"}}}}, "$ref": "#/$defs/n"}),
            json!({"$defs": {"n": {"properties": {"next": {"$ref": "#/$defs/n"}, "x": {"type": "string"}}}}, "$ref": "#/$defs/n"}),
        ),
        (
            json!({"$defs": {"n": {"properties": {"next": {"$ref": "#/$defs/n"}}, "additionalProperties": false}}, "$ref": "#/$defs/n"}),
            json!({"$defs": {"n": {"properties": {"next": {"$ref": "#/$defs/n"}, "x": {"type": "string"}}}}, "$ref": "#/$defs/n"}),
        ),
    ];
    for (old, new) in pairs {
        println!("{} | {}", verdict(&old, &new), verdict(&new, &old));
    }
}

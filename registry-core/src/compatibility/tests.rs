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
fn plain_keywords_are_decided_both_ways() {
    let typed = |kind: &str| json!({ "type": kind });
    assert_eq!(verdict(&typed("integer"), &typed("number")), "yes");
    assert_eq!(verdict(&typed("number"), &typed("integer")), "no type /type 0.5");
    let (text, short) = (typed("string"), json!({ "type": "string", "maxLength": 5 }));
    assert_eq!(verdict(&short, &text), "yes");
    assert_eq!(verdict(&text, &short), "no maxLength /maxLength \"aaaaaa\"");
    let integers = json!({ "type": "integer", "exclusiveMinimum": 0 });
    assert_eq!(verdict(&integers, &json!({ "minimum": 1 })), "yes");
    assert_eq!(
        verdict(&json!({ "enum": [1, "a"] }), &json!({ "type": ["string", "integer"] })),
        "yes"
    );
}

#[test]
fn objects_are_compared_name_by_name() {
    let with = |more: Value| {
        let mut schema = json!({ "type": "object", "properties": { "a": { "type": "string" } } });
        schema.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        schema
    };
    let (plain, needed) = (with(json!({})), with(json!({ "required": ["a"] })));
    assert_eq!(verdict(&needed, &plain), "yes");
    assert_eq!(verdict(&plain, &needed), "no required /required {}");
    let closed = with(json!({ "additionalProperties": false }));
    assert_eq!(verdict(&closed, &plain), "yes");
    assert!(verdict(&plain, &closed).starts_with("no additionalProperties /additionalProperties"));
    // One more optional property is compatible only where it could not be there before.
    let more = json!({ "properties": { "a": { "type": "string" }, "b": { "type": "string" } } });
    assert_eq!(verdict(&closed, &with(more.clone())), "yes");
    assert!(verdict(&plain, &with(more)).starts_with("no type /properties/b/type"));
}

#[test]
fn variants_may_be_added_but_not_taken_away() {
    let variants = |kinds: &[i32]| -> Value {
        let one =
            |kind: &i32| json!({ "properties": { "k": { "const": kind } }, "required": ["k"] });
        let variants: Vec<_> = kinds.iter().map(one).collect();
        json!({ "type": "object", "oneOf": variants })
    };
    assert_eq!(verdict(&variants(&[1, 2]), &variants(&[1, 2, 3])), "yes");
    assert_eq!(verdict(&variants(&[1, 2, 3]), &variants(&[3, 1])), "no oneOf /oneOf {\"k\":2}");
}

#[test]
fn recursive_schemas_are_followed() {
    let list = |closed: bool, more: Value| {
        let mut node = json!({ "properties": { "next": { "$ref": "#/$defs/n" } } });
        node["properties"].as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        if closed {
            node["additionalProperties"] = json!(false);
        }
        json!({ "$defs": { "n": node }, "$ref": "#/$defs/n" })
    };
    let (old, new) = (list(true, json!({})), list(true, json!({ "x": { "type": "string" } })));
    assert_eq!(verdict(&old, &new), "yes");
    let back = verdict(&new, &old);
    assert!(back.starts_with("no additionalProperties /$defs/n/additionalProperties"), "{back}");
}

#[test]
fn patterns_are_told_apart_by_example() {
    let pattern = |text: &str| json!({ "pattern": text });
    assert!(verdict(&pattern("^[a-z]+$"), &pattern("^[a-z]{1,3}$")).starts_with("no pattern"));
    assert!(verdict(&pattern("^(a|b)$"), &pattern("^[ab]$")).starts_with("undecided /pattern"));
}

#[test]
fn formats_matter_where_validators_check_them() {
    let of = |draft: &str, more: Value| {
        let mut schema = json!({ "$schema": draft, "type": "string" });
        schema.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        schema
    };
    let email = json!({ "format": "email" });
    let draft7 = "http://json-schema.org/draft-07/schema#";
    assert!(verdict(&of(draft7, json!({})), &of(draft7, email.clone())).starts_with("no format"));
    assert_eq!(verdict(&of(draft7, email.clone()), &of(draft7, json!({}))), "yes");
    let latest = "https://json-schema.org/draft/2020-12/schema";
    assert_eq!(verdict(&of(latest, json!({})), &of(latest, email)), "yes");
}

#[test]
fn hostile_pairs_end_undecided() {
    let wide = |shift: usize| -> Value {
        let one = |i: usize| {
            let branch = |j: usize| json!({ "required": [format!("p{i}-{}", j + shift)] });
            json!({ "oneOf": (0..6).map(branch).collect::<Vec<_>>() })
        };
        json!({ "type": "object", "allOf": (0..12).map(one).collect::<Vec<_>>() })
    };
    let mut budget = Budget::of_one();
    let (old, new) = (wide(0), wide(1));
    let found = covers((&old, ""), (&new, ""), Side::New, &|_| None, &mut budget);
    assert!(!matches!(found, Verdict::Yes), "{found:?}");
    assert_eq!(
        verdict(&json!({ "not": { "$ref": "#" } }), &json!({ "type": "null" })).split(' ').next(),
        Some("undecided")
    );
}

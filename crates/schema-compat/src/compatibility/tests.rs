//! Tests of schema compatibility.

use serde_json::{Value, json};

use super::{Budget, Side, Verdict, covers};
use crate::name::{Definition, SchemaName};

const DRAFT7: &str = "http://json-schema.org/draft-07/schema#";

/// Formats as `yes`, `no keyword pointer instance`, or `undecided pointer reason`.
fn verdict(old: &Value, new: &Value) -> String {
    verdict_beside(&[], old, new)
}

/// The keyword and the pointer of a rejection.
fn rejection(old: &Value, new: &Value) -> String {
    match covers((old, ""), (new, ""), Side::New, &|_| None, &mut Budget::for_pair()) {
        Verdict::No(found) => {
            format!("{} {}", found.assertion.keyword().unwrap_or_default(), found.pointer)
        }
        other => panic!("not rejected: {other:?}"),
    }
}

/// Like [`verdict`], with registered schemas.
fn verdict_beside(registered: &[(SchemaName, Value)], old: &Value, new: &Value) -> String {
    let find = |wanted: &SchemaName| {
        let (_, schema) = registered.iter().find(|(name, _)| name == wanted)?;
        Some(Definition { schema, pointer: "/schema" })
    };
    match covers((old, ""), (new, ""), Side::New, &find, &mut Budget::for_pair()) {
        Verdict::Yes => "yes".to_owned(),
        Verdict::No(found) => {
            let instance = found.instance.unwrap_or_default();
            let assertion = found.assertion.to_string().replace('`', "");
            format!("no {assertion} {} {instance}", found.pointer)
        }
        Verdict::Undecided(doubt) => format!("undecided {} {}", doubt.pointer, doubt.reason),
    }
}

#[test]
fn simple_keywords_are_decided_in_both_directions() {
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
fn objects_are_compared_by_property() {
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
    assert_eq!(rejection(&plain, &closed), "additionalProperties /additionalProperties");
    // An optional property may be added only if the object was closed.
    let more = json!({ "properties": { "a": { "type": "string" }, "b": { "type": "string" } } });
    assert_eq!(verdict(&closed, &with(more.clone())), "yes");
    assert_eq!(rejection(&plain, &with(more)), "type /properties/b/type");
}

#[test]
fn variants_may_be_added_but_not_removed() {
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
    assert_eq!(rejection(&new, &old), "additionalProperties /$defs/n/additionalProperties");
}

#[test]
fn patterns_are_distinguished_by_example() {
    let pattern = |text: &str| json!({ "pattern": text });
    assert_eq!(rejection(&pattern("^[a-z]+$"), &pattern("^[a-z]{1,3}$")), "pattern /pattern");
    assert!(verdict(&pattern("^(a|b)$"), &pattern("^[ab]$")).starts_with("undecided /pattern"));
}

#[test]
fn new_pattern_is_refuted_by_unmatched_text() {
    let given = [json!({ "type": "string" }), json!({ "type": "string", "minLength": 1 })];
    for pattern in [
        "^[a-z0-9-]+$",
        "^[^/]+$",
        "^\\w+$",
        "^\\S+$",
        "^\\S*$",
        "^[A-Za-z0-9_.-]*$",
        "^[^<>]*$",
        "^.{0,64}$",
        "^[\\s\\S]{0,300}$",
        "^[^\\\\]*$",
        "^[\\x00-\\x7f]*$",
    ] {
        for old in &given {
            let mut new = old.clone();
            new["pattern"] = json!(pattern);
            assert_eq!(rejection(old, &new), "pattern /pattern", "{pattern}: {old}");
            let nested =
                |schema: &Value| json!({ "type": "object", "properties": { "a": schema } });
            let found = rejection(&nested(old), &nested(&new));
            assert_eq!(found, "pattern /properties/a/pattern", "{pattern}: {old}");
        }
    }
}

#[test]
fn patterns_are_distinguished_by_near_misses() {
    let text = |pattern: &str, min: u32, max: u32| json!({ "type": "string", "pattern": pattern, "minLength": min, "maxLength": max });
    for (old, new) in [
        (text("^[a-z0-9-]+$", 1, 63), text("^[a-z0-9]([a-z0-9-]*[a-z0-9])?$", 1, 63)),
        (text("^[0-9]+$", 1, 40), text("^[0-9]{1,30}$", 1, 40)),
        (text("^[a-z]+:", 30, 40), text("^https?:", 30, 40)),
        (text("", 300, 400), text("^[^ ]*$", 300, 400)),
        (text("^[0-9]+$", 1, 500), text("^[0-9]+$", 1, 300)),
    ] {
        let found = verdict(&old, &new);
        assert!(found.starts_with("no "), "{old} {new}: {found}");
    }
    assert_eq!(verdict(&text("^a", 1, 9), &text("^a", 0, 10)), "yes");
}

#[test]
fn keywords_are_reported_as_written() {
    let draft7 = |mut schema: Value| {
        schema["$schema"] = json!(DRAFT7);
        schema
    };
    let tuple = |last: Value| draft7(json!({ "items": [true], "additionalItems": last }));
    let property = |schema: Value| json!({ "properties": { "/": schema } });
    for (old, new, keyword, pointer) in [
        (
            json!({ "dependentSchemas": { "ab": {} } }),
            json!({ "dependentSchemas": { "ab": false } }),
            "dependentSchemas",
            "/dependentSchemas/ab",
        ),
        (json!({}), json!({ "dependencies": { "a": ["b"] } }), "dependencies", "/dependencies"),
        (
            json!({}),
            json!({ "dependentRequired": { "a": ["b"] } }),
            "dependentRequired",
            "/dependentRequired",
        ),
        (json!({}), json!({ "dependencies": { "a": false } }), "dependencies", "/dependencies/a"),
        (property(json!({})), property(json!(false)), "properties", "/properties/~1"),
        (json!({}), json!({ "prefixItems": [{}, false] }), "prefixItems", "/prefixItems/1"),
        (json!({}), json!({ "allOf": [false] }), "allOf", "/allOf/0"),
        (json!({}), json!({ "propertyNames": false }), "propertyNames", "/propertyNames"),
        (tuple(json!({})), tuple(json!(false)), "additionalItems", "/additionalItems"),
        (json!({ "enum": ["a", 1] }), json!({ "minLength": 3 }), "minLength", "/minLength"),
        (json!({ "const": [1] }), json!({ "items": { "type": "null" } }), "items", "/items"),
        (json!({}), json!(false), "the schema", ""),
    ] {
        let found = verdict(&old, &new);
        assert!(found.starts_with(&format!("no {keyword} {pointer} ")), "{old} {new}: {found}");
    }
    let unknown =
        verdict(&json!({ "type": "string", "pattern": "^a{9}b$", "minLength": 11 }), &json!(false));
    assert_eq!(unknown, "undecided  the schema could not be compared");
}

#[test]
fn draft_7_ignores_dependent_required() {
    let schema = json!({
        "$schema": DRAFT7,
        "required": ["a", "b"],
        "dependencies": { "a": ["b"] }, "dependentRequired": { "a": ["c"] },
    });
    let wanted = json!({ "dependentRequired": { "a": ["c"] } });
    assert_eq!(rejection(&schema, &wanted), "dependentRequired /dependentRequired");
}

#[test]
fn parsing_patterns_consumes_budget() {
    let many = |name: usize, end: &str| {
        let one = |i: usize| (format!("^a{name}x{i}{end}"), json!({ "minLength": i }));
        json!({ "patternProperties": (0..190).map(one).collect::<serde_json::Map<_, _>>() })
    };
    let mut budget = Budget::for_batch();
    let compared = (0..40).take_while(|name| {
        let (old, new) = (many(*name, ""), many(*name, "b"));
        covers((&old, ""), (&new, ""), Side::New, &|_| None, &mut budget);
        !budget.is_spent()
    });
    // A proof takes at most 50,000 of the 1,000,000 steps; the rest is used by validators.
    assert!(compared.count() < 15);
}

#[test]
fn exclusive_cases_consume_budget() {
    let case = |i: usize| json!({ "minLength": i % 7 });
    let old = json!({ "oneOf": (0..1_000).map(case).collect::<Vec<_>>() });
    let new = json!({ "pattern": "^|x" });
    let mut budget = Budget::for_batch();
    let compared = (0..30).take_while(|_| {
        covers((&old, ""), (&new, ""), Side::New, &|_| None, &mut budget);
        !budget.is_spent()
    });
    assert!(compared.count() < 25);
}

#[test]
fn batch_budget_suffices_for_thousand_small_comparisons() {
    let member = |kind: Value| json!({ "type": "object", "properties": { "a": { "type": kind } } });
    let (wide, narrow) = (member(json!(["string", "null"])), member(json!("string")));
    let mut budget = Budget::for_batch();
    for _ in 0..1_000 {
        let found = covers((&wide, ""), (&narrow, ""), Side::New, &|_| None, &mut budget);
        assert!(matches!(found, Verdict::No(_)));
    }
}

#[test]
fn format_is_compared_if_validators_check_it() {
    let of = |draft: &str, more: Value| {
        let mut schema = json!({ "$schema": draft, "type": "string" });
        schema.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        schema
    };
    let email = json!({ "format": "email" });
    assert_eq!(rejection(&of(DRAFT7, json!({})), &of(DRAFT7, email.clone())), "format /format");
    assert_eq!(verdict(&of(DRAFT7, email.clone()), &of(DRAFT7, json!({}))), "yes");
    let latest = "https://json-schema.org/draft/2020-12/schema";
    assert_eq!(verdict(&of(latest, json!({})), &of(latest, email)), "yes");
}

#[test]
fn hostile_pairs_are_undecided() {
    let wide = |shift: usize| -> Value {
        let one = |i: usize| {
            let branch = |j: usize| json!({ "required": [format!("p{i}-{}", j + shift)] });
            json!({ "oneOf": (0..6).map(branch).collect::<Vec<_>>() })
        };
        json!({ "type": "object", "allOf": (0..12).map(one).collect::<Vec<_>>() })
    };
    let mut budget = Budget::for_pair();
    let (old, new) = (wide(0), wide(1));
    let found = covers((&old, ""), (&new, ""), Side::New, &|_| None, &mut budget);
    assert!(!matches!(found, Verdict::Yes), "{found:?}");
    assert_eq!(
        verdict(&json!({ "not": { "$ref": "#" } }), &json!({ "type": "null" })).split(' ').next(),
        Some("undecided")
    );
}

/// A schema registered as `A@1.0.0`.
fn registered(schema: &Value) -> [(SchemaName, Value); 1] {
    [document("A", schema)]
}

fn document(name: &str, schema: &Value) -> (SchemaName, Value) {
    (SchemaName::new(name, "1.0.0"), schema.clone())
}

#[test]
fn draft_7_content_is_compared() {
    let text = |more: Value| {
        let mut schema = json!({ "$schema": DRAFT7, "type": "string" });
        schema.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        schema
    };
    let coded = text(json!({ "contentEncoding": "base64" }));
    let both = text(json!({ "contentEncoding": "base64", "contentMediaType": "application/json" }));
    let typed = text(json!({ "contentMediaType": "application/json" }));
    let plain = text(json!({}));
    assert_eq!(rejection(&plain, &coded), "contentEncoding /contentEncoding");
    assert_eq!(rejection(&plain, &typed), "contentMediaType /contentMediaType");
    assert!(verdict(&both, &typed).starts_with("undecided /contentMediaType"));
    for schema in [&coded, &both, &typed] {
        let mut same = schema.clone();
        same["title"] = json!("the same");
        assert_eq!(verdict(schema, &same), "yes");
        assert_eq!(verdict(schema, &plain), "yes");
    }
}

#[test]
fn equivalent_uri_is_resolved() {
    let schema = |id: &str, reference: &str, kind: Value| json!({ "$id": id, "$ref": reference, "$defs": { "q": { "type": kind } } });
    for (id, reference) in [
        ("http://x.y/w/../z", "http://x.y/z#/$defs/q"),
        ("http://X.y/z", "http://x.y/z#/$defs/q"),
        ("http://x.y/z", "http://x.y:80/z#/$defs/q"),
        ("http://x.y/z", "http://x.y/./z#/$defs/q"),
    ] {
        let wide = schema(id, reference, json!(["string", "integer"]));
        let found = verdict(&wide, &schema(id, reference, json!("string")));
        assert!(found.starts_with("no ") || found.starts_with("undecided"), "{id} {reference}");
    }
    let wide = schema("http://x.y/z#", "http://x.y/z#/$defs/q", json!(["string", "null"]));
    let narrow = schema("http://x.y/z#", "http://x.y/z#/$defs/q", json!("string"));
    assert_eq!(verdict(&wide, &narrow), "no type /$defs/q/type null");
    assert_eq!(verdict(&narrow, &wide), "yes");
}

#[test]
fn empty_reference_resolves_to_root() {
    let tree = |reference: &str, kind: &str| json!({ "type": ["object", kind], "properties": { "c": { "$ref": reference } } });
    assert_eq!(verdict(&tree("", "null"), &tree("#", "null")), "yes");
    assert!(verdict(&tree("", "null"), &tree("", "string")).starts_with("no "));
}

#[test]
fn meta_schema_is_equal_unless_impersonated() {
    let schema =
        |reference: &str, title: &str| json!({ "items": { "$ref": reference }, "title": title });
    let latest = "https://json-schema.org/draft/2020-12/schema";
    assert_eq!(verdict(&schema(DRAFT7, "a"), &schema(DRAFT7, "b")), "yes");
    assert!(
        verdict(&schema(latest, "a"), &schema(latest, "b")).starts_with("undecided /items/$ref")
    );
    let same = "http://JSON-SCHEMA.org/draft%2D07/./schema";
    let itself = json!({ "$id": DRAFT7, "$ref": DRAFT7, "type": "object" });
    let official = json!({ "$ref": DRAFT7, "type": "object" });
    assert_ne!(verdict(&itself, &official), "yes");
    for uri in [DRAFT7, same] {
        let mut posing = schema(DRAFT7, "b");
        posing["$defs"] = json!({ "m": { "$id": uri, "type": "string" } });
        let found = verdict(&schema(DRAFT7, "a"), &posing);
        assert!(found.starts_with("no ") || found.starts_with("undecided"), "{uri} {found}");
    }
}

#[test]
fn ambiguous_anchor_is_not_followed() {
    let schema =
        |kind: Value| json!({ "$ref": "#q", "$defs": { "q": { "$anchor": "q", "type": kind } } });
    let (wide, narrow) = (schema(json!(["string", "null"])), schema(json!("string")));
    assert_eq!(verdict(&wide, &narrow), "no type /$defs/q/type null");
    let twice = |mut schema: Value| {
        schema["x-doc"] = json!({ "example": { "$anchor": "q" } });
        schema
    };
    assert_ne!(verdict(&twice(wide), &twice(narrow)), "yes");
}

#[test]
fn subschema_in_other_dialect_is_opaque() {
    let member = |schema: Value| json!({ "properties": { "a": schema } });
    let latest = "https://json-schema.org/draft/2020-12/schema";
    for (old, new) in [
        (
            member(json!({ "type": "array" })),
            member(json!({ "$schema": DRAFT7, "contains": {}, "minContains": 0 })),
        ),
        (
            member(json!({ "$schema": DRAFT7, "unevaluatedProperties": false })),
            member(json!({ "maxProperties": 0 })),
        ),
        (
            member(json!({ "$schema": DRAFT7, "contains": {}, "minContains": 0 })),
            member(json!({ "contains": {}, "minContains": 1, "title": "a" })),
        ),
    ] {
        assert_ne!(verdict(&old, &new), "yes", "{old} {new}");
    }
    let narrow = member(json!({ "$schema": latest, "type": "string" }));
    assert_eq!(verdict(&narrow, &member(json!({ "type": ["string", "null"] }))), "yes");
}

#[test]
fn dynamic_ref_depends_on_referring_schema() {
    let list = json!({
        "type": "array", "items": { "$dynamicRef": "#e" }, "$defs": { "e": { "$dynamicAnchor": "e" } },
    });
    let user = |kind: Value| json!({ "$ref": "#A:1.0.0", "$defs": { "e": { "$dynamicAnchor": "e", "type": kind } } });
    let (wide, narrow) = (user(json!(["string", "null"])), user(json!("string")));
    assert_ne!(verdict_beside(&registered(&list), &wide, &narrow), "yes");
    let plain = json!({ "type": "array", "items": { "$ref": "#/$defs/e" }, "$defs": { "e": {} } });
    assert_eq!(verdict_beside(&registered(&plain), &wide, &narrow), "yes");
}

#[test]
fn names_are_compared_without_constructible_example() {
    let closed = |names: Value| {
        json!({
            "type": "object", "required": ["items"], "additionalProperties": false,
            "properties": { "Id": {}, "No": false, "items": { "type": "array", "minItems": 300 } },
            "propertyNames": names,
        })
    };
    let refused = verdict(&closed(json!({})), &closed(json!({ "pattern": "^[a-z]+$" })));
    assert!(refused.starts_with("undecided /propertyNames"), "{refused}");
    assert_eq!(verdict(&closed(json!({})), &closed(json!({ "enum": ["Id", "items"] }))), "yes");
}

#[test]
fn draft_7_ref_siblings_may_count_as_evaluated() {
    let hidden = json!({
        "$schema": DRAFT7, "$ref": "#/definitions/x", "properties": { "a": {} },
        "definitions": { "x": {} },
    });
    let old = json!({ "$ref": "#A:1.0.0", "unevaluatedProperties": false });
    let new = json!({ "not": { "type": "object", "required": ["a"] } });
    assert_ne!(verdict_beside(&registered(&hidden), &old, &new), "yes");
    // Schemas that differ only in hidden keywords are not equal.
    let shown = json!({
        "$schema": DRAFT7, "$ref": "#/definitions/x", "definitions": { "x": {} },
    });
    let dynamic = json!({
        "$schema": DRAFT7, "$ref": "#/definitions/x", "$dynamicRef": "#/definitions/y",
        "definitions": { "x": {}, "y": { "properties": { "a": {} } } },
    });
    let new = json!({ "$ref": "#B:1.0.0", "unevaluatedProperties": false });
    for hiding in [hidden, dynamic] {
        let both = [document("A", &hiding), document("B", &shown)];
        assert_ne!(verdict_beside(&both, &old, &new), "yes", "{hiding}");
    }
}

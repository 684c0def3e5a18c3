//! Tests of schema compilation.

mod hostile;

use serde_json::{Value, json};

use super::{InvalidSchema, Validator, compile};
use crate::{limits, name::SchemaName};

fn none(_: &SchemaName) -> Option<&'static Value> {
    None
}

fn named(name: &str, schema: &Value) -> (SchemaName, Value) {
    (SchemaName::new(name, "1.0.0"), schema.clone())
}

/// Compiles a schema together with named ones.
fn compile_in(
    named: &[(SchemaName, Value)],
    schema: &Value,
) -> Result<Validator, Vec<InvalidSchema>> {
    compile(schema, &|wanted| Some(&named.iter().find(|(name, _)| name == wanted)?.1))
}

fn compiled(schema: &Value) -> Validator {
    compile(schema, &none).unwrap()
}

fn problems(schema: &Value) -> Vec<String> {
    let problems = compile(schema, &none).unwrap_err();
    problems.iter().map(|p| format!("{}: {p}", p.pointer())).collect()
}

fn violations(validator: &Validator, instance: &Value) -> Vec<String> {
    let violations = validator.validate(instance).unwrap_err();
    violations.into_iter().map(|v| format!("{}: {}", v.pointer, v.message)).collect()
}

#[test]
fn validate_reports_pointer_of_each_violation() {
    let validator = compiled(&json!({
        "properties": { "a": { "items": { "type": "integer" } }, "b/c": { "minLength": 2 } },
        "required": ["d"],
    }));
    assert!(validator.validate(&json!({ "a": [1], "d": 0 })).is_ok());
    assert_eq!(
        violations(&validator, &json!({ "a": [1, "2"], "b/c": "x" })),
        [
            ": \"d\" is a required property",
            "/a/1: \"2\" is not of type \"integer\"",
            "/b~1c: \"x\" is shorter than 2 characters",
        ]
    );
    let many = json!(vec!["x"; 100]);
    let list = compiled(&json!({ "items": { "type": "integer" } }));
    assert_eq!(violations(&list, &many).len(), limits::VIOLATIONS);
    let long = violations(&list, &json!(["y".repeat(10_000)]));
    assert!(long[0].len() < 400, "{}", long[0].len());
}

#[test]
fn missing_member_names_likely_misspelling() {
    let page = |more: Value| {
        let mut schema =
            json!({ "properties": { "title": {}, "pages": {} }, "required": ["title"] });
        schema.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        compiled(&json!({ "properties": { "page": schema } }))
    };
    let hint = "/page: \"title\" is a required property; 'titel' may be a misspelling of it";
    for closed in ["additionalProperties", "unevaluatedProperties"] {
        let validator = page(json!({ closed: false }));
        let found = violations(&validator, &json!({ "page": { "titel": "a", "pages": 1 } }));
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found.iter().any(|violation| violation == hint), "{found:?}");
        let other = violations(&validator, &json!({ "page": { "author": "a" } }));
        assert!(other.iter().all(|violation| !violation.contains("misspelling")), "{other:?}");
    }
    let open = violations(&page(json!({})), &json!({ "page": { "titel": "a" } }));
    assert_eq!(open, ["/page: \"title\" is a required property"]);
}

#[test]
fn each_schema_uses_its_own_dialect() {
    // Draft 7 has no keyword `unevaluatedProperties`.
    let old = json!({ "$schema": "http://json-schema.org/draft-07/schema#",
        "unevaluatedProperties": false });
    let new = json!({ "unevaluatedProperties": false });
    let accepts = |target: &Value, from: Value| {
        compile(&from, &|_| Some(target)).unwrap().is_valid(&json!({ "a": 1 }))
    };
    let from_old = json!({ "$schema": "http://json-schema.org/draft-07/schema#",
        "allOf": [{ "$ref": "#A:1.0.0" }] });
    for from in [json!({ "$ref": "#A:1.0.0" }), from_old] {
        assert!(accepts(&old, from.clone()), "{from}");
        assert!(!accepts(&new, from.clone()) || from.get("$schema").is_some(), "{from}");
    }
}

#[test]
fn referenced_schema_keeps_its_meaning() {
    let integer = |name: &str, value: &str| json!({ name: value, "type": "integer" });
    let here = ["#an", "#/$defs/a"];
    for id in
        ["", "#", "foo", "foo/baz", "/abs", "?q", "./foo#", "r/../q", "http://x.y/r", "urn:x:y"]
    {
        let own = here.map(|fragment| format!("{}{fragment}", id.trim_end_matches('#')));
        let all = own.into_iter().chain(here.map(str::to_owned)).chain([
            "bar".to_owned(),
            "http://x.y:80/r#an".to_owned(),
            "r#/$defs/a".to_owned(),
        ]);
        for reference in all {
            let defs = json!({ "a": integer("$anchor", "an"), "b": integer("$id", "bar") });
            let mut schema = json!({ "$ref": reference, "$defs": defs });
            if !id.is_empty() {
                schema["$id"] = json!(id);
            }
            let alone = compile(&schema, &none).is_ok_and(|alone| alone.is_valid(&json!(1)));
            let user = json!({ "items": { "$ref": "#A:1.0.0" } });
            let from = compile(&user, &|_| Some(&schema));
            assert_eq!(from.is_ok(), alone, "{schema}: {from:?}");
            if let Ok(from) = from {
                assert!(from.is_valid(&json!([1])) && !from.is_valid(&json!(["1"])), "{schema}");
            }
        }
    }
}

#[test]
fn named_references_are_resolved_transitively() {
    let catalog = [
        named("Id", &json!({ "type": "string", "pattern": "^[a-z]+$" })),
        named(
            "Item",
            &json!({
                "type": "object", "properties": { "id": { "$ref": "#Id:1.0.0" } }, "required": ["id"],
            }),
        ),
    ];
    let list = json!({ "items": { "$ref": "#Item:1.0.0" }, "minItems": 1 });
    let validator = compile_in(&catalog, &list).unwrap();
    assert!(validator.is_valid(&json!([{ "id": "abc" }])));
    assert_eq!(
        violations(&validator, &json!([{ "id": "ABC" }])),
        ["/0/id: \"ABC\" does not match \"^[a-z]+$\""]
    );
    let bare = compile_in(&catalog, &json!({ "$ref": "#Item:1.0.0" })).unwrap();
    assert!(bare.is_valid(&json!({ "id": "x" })) && !bare.is_valid(&json!({})));
    let missing = compile_in(&catalog, &json!({ "not": { "$ref": "#Item:2.0.0" } })).unwrap_err();
    assert_eq!(missing[0].pointer(), "/not/$ref");
    insta::assert_snapshot!(missing[0], @"the schema `#Item:2.0.0` is not registered");
}

/// JSON Schema 2020-12, core, section 8.2.3.1, with RFC 3986, section 4.4.
#[test]
fn empty_reference_resolves_to_resource() {
    let own = json!({ "type": "object", "properties": { "c": { "$ref": "" } } });
    let (good, bad) = (json!({ "c": { "c": {} } }), json!({ "c": { "c": 1 } }));
    let catalog = [named("Own", &own)];
    let other = compile_in(&catalog, &json!({ "items": { "$ref": "#Own:1.0.0" } })).unwrap();
    assert!(other.is_valid(&json!([good])) && !other.is_valid(&json!([bad])));
    let own = compiled(&own);
    assert!(own.is_valid(&good) && !own.is_valid(&bad));
}

#[test]
fn ordinary_references_are_resolved_locally() {
    let tree = json!({
        "$defs": { "node": { "properties": { "next": { "$ref": "#/$defs/node" }, "n": { "type": "integer" } } } },
        "$ref": "#/$defs/node",
    });
    assert!(!compiled(&tree).is_valid(&json!({ "next": { "next": { "n": "1" } } })));
    let anchored =
        json!({ "$defs": { "a": { "$anchor": "here", "type": "null" } }, "$ref": "#here" });
    assert!(compiled(&anchored).is_valid(&Value::Null));
    let named = json!({
        "$defs": { "a": { "$id": "https://example.com/a", "type": "null" } },
        "$ref": "https://example.com/a",
    });
    assert!(!compiled(&named).is_valid(&json!(1)));
}

#[test]
fn remote_references_are_rejected() {
    for uri in
        ["http://169.254.169.254/x", "https://example.com/y#/a", "file:///etc/passwd", "other.json"]
    {
        let found = compile(&json!({ "items": { "$ref": uri } }), &none).unwrap_err();
        assert!(
            matches!(&found[..], [InvalidSchema::Remote { pointer, .. }] if pointer == "/items/$ref"),
            "{found:?}"
        );
    }
    for reserved in [
        json!({ "$ref": "registry:/A/1.0.0" }),
        json!({ "$defs": { "a": { "$id": "REGISTRY:/A/1.0.0" } } }),
    ] {
        let found = compile(&reserved, &none).unwrap_err();
        assert!(matches!(found[0], InvalidSchema::Reserved { .. }), "{found:?}");
    }
}

#[test]
fn default_dialect_is_2020_12() {
    let tuple = json!({ "prefixItems": [{ "type": "integer" }] });
    assert!(!compiled(&tuple).is_valid(&json!(["1"])));
    let draft_7 = json!({
        "$schema": "http://json-schema.org/draft-07/schema#", "items": [{ "type": "integer" }],
    });
    assert!(!compiled(&draft_7).is_valid(&json!(["1"])));
    assert!(problems(&json!({ "items": [{ "type": "integer" }] }))[0].starts_with("/items: "));
    for dialect in [json!("https://example.com/d"), json!(7), json!("")] {
        let found = problems(&json!({ "$schema": dialect }));
        assert_eq!(found, [format!("/$schema: the dialect {dialect} is not supported")]);
    }
}

#[test]
fn each_problem_is_reported_once() {
    let found = problems(&json!({ "items": [{ "type": "string" }] }));
    assert_eq!(found.len(), 1, "{found:?}");
    let found = problems(&json!({ "items": [1], "type": "text" }));
    assert!(found.iter().any(|problem| problem.starts_with("/type: ")), "{found:?}");
}

#[test]
fn patterns_are_linear_time_and_limited() {
    assert!(compiled(&json!({ "pattern": "^(a+)+$" })).is_valid(&json!("a".repeat(1000))));
    let evil = "a".repeat(10_000) + "!";
    assert!(!compiled(&json!({ "pattern": "^(a+)+$" })).is_valid(&json!(evil)));
    assert!(problems(&json!({ "pattern": "(?<=a)b" }))[0].starts_with("/pattern: "));
    assert!(!problems(&json!({ "pattern": "a{1,1000}{1,1000}" })).is_empty());
    let many: Vec<_> = (0..=limits::SCHEMA_PATTERNS).map(|_| json!({ "pattern": "a" })).collect();
    assert_eq!(
        problems(&json!({ "anyOf": many })),
        [": the schema has 201 patterns; the maximum is 200"]
    );
}

#[test]
fn long_reference_chains_compile_up_to_limit() {
    let link =
        |i: usize| json!({ "properties": { "x": { "$ref": format!("#S{}:1.0.0", i + 1) } } });
    let schemas: Vec<Value> = (0..2000).map(link).collect();
    let resolve = |last: usize| {
        let schemas = &schemas;
        move |name: &SchemaName| {
            let i: usize = name.name()[1..].parse().ok()?;
            if i >= last { Some(&Value::Bool(true)) } else { schemas.get(i) }
        }
    };
    std::thread::scope(|scope| {
        let small = std::thread::Builder::new().stack_size(2 << 20);
        small.spawn_scoped(scope, || compile(&schemas[0], &resolve(900)).unwrap()).unwrap();
    });
    let found = compile(&schemas[0], &resolve(1500)).unwrap_err();
    insta::assert_snapshot!(
        found[0],
        @"the schema refers to more than 1000 registered schemas, directly or indirectly"
    );
}

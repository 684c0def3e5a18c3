//! Tests of schema bundles.

use std::collections::BTreeMap;

use proptest::prelude::*;
use schema_compat::schema_compile::compile;
use serde_json::json;

use super::*;
use crate::rules::testing::{catalog, schema as registered};

fn bundled(schemas: &[(&str, Value)], schema: &Value) -> Result<Value, Unresolved> {
    let all: BTreeMap<_, _> = schemas.iter().map(|(n, s)| ((*n).to_owned(), s.clone())).collect();
    bundle(schema, &|key| all.get(key.name.as_str()))
}

#[test]
fn bundle_without_references_is_unchanged() {
    for schema in [json!({ "type": "object", "$ref": "#/$defs/a" }), json!(true), json!({})] {
        assert_eq!(bundled(&[], &schema).unwrap(), schema);
    }
}

#[test]
fn bundle_inlines_references_and_moves_recursion_to_defs() {
    let query = json!({ "type": "object", "description": "q", "properties":
        { "filters": { "$ref": "#Filters:1.0.0" }, "own": { "$ref": "#/$defs/own" } },
        "$defs": { "own": { "type": "string" } } });
    let filters = json!({ "type": "object", "properties": { "tag": { "$ref": "#/$defs/tag" },
        "all": { "$ref": "#" }, "any": { "$ref": "" } }, "$defs": { "tag": { "type": "string" } } });
    let schema = json!({ "$ref": "#Query:1.0.0", "description": "mine", "$comment": "c" });
    let result = bundled(&[("Query", query), ("Filters", filters)], &schema).unwrap();
    let expected = json!({
        "type": "object", "description": "mine", "$comment": "c",
        "properties": {
            "filters": { "$ref": "#/$defs/Filters:1.0.0" },
            "own": { "$ref": "#/$defs/own" },
        },
        "$defs": {
            "own": { "type": "string" },
            // Recursive.
            "Filters:1.0.0": {
                "type": "object",
                "properties": {
                    "tag": { "type": "string" },
                    "all": { "$ref": "#/$defs/Filters:1.0.0" },
                    "any": { "$ref": "#/$defs/Filters:1.0.0" },
                },
                "$defs": { "tag": { "type": "string" } },
            },
        },
    });
    assert_eq!(result, expected);
}

#[test]
fn bundle_inlines_non_recursive_schemas() {
    let tag = json!({ "$schema": DIALECT, "type": "string", "title": "Tag" });
    let filter = json!({ "type": "object", "properties": {
        "tag": { "$ref": "#Tag:1.0.0", "title": "mine" }, "more": { "$ref": "#/$defs/more" } },
        "$defs": { "more": { "type": "integer" } } });
    let schema = json!({ "type": "object", "properties": {
        "one": { "$ref": "#Filter:1.0.0" },
        "two": { "$ref": "#Filter:1.0.0", "required": ["tag"] },
        "tags": { "type": "array", "items": { "$ref": "#Tag:1.0.0" } } } });
    let result = bundled(&[("Filter", filter), ("Tag", tag)], &schema).unwrap();
    let inlined = json!({ "type": "object", "properties": {
        "tag": { "type": "string", "title": "mine" }, "more": { "type": "integer" } } });
    let expected = json!({ "type": "object", "properties": {
        "one": inlined,
        "two": { "required": ["tag"], "allOf": [inlined] },
        "tags": { "type": "array", "items": { "type": "string", "title": "Tag" } } } });
    assert_eq!(result, expected);
}

#[test]
fn bundle_over_limits_keeps_references() {
    let two = |next: &Value| json!({ "type": "object", "properties": { "a": next, "b": next } });
    let one = |next: &Value| json!({ "type": "object", "properties": { "a": next } });
    for (shape, length) in [(&two as &dyn Fn(&Value) -> Value, 20), (&one, 60)] {
        let next = |i: usize| json!({ "$ref": format!("#S{i}:1.0.0") });
        let mut schemas: BTreeMap<_, _> =
            (0..length).map(|i| (format!("S{i}"), shape(&next(i + 1)))).collect();
        schemas.insert(format!("S{length}"), json!({ "type": "null" }));
        let result = bundle(&shape(&next(0)), &|key| schemas.get(key.name.as_str())).unwrap();
        assert_eq!(result["$defs"].as_object().unwrap().len(), length + 1);
    }
}

#[test]
fn bundle_keeps_siblings_of_top_reference() {
    let base = json!({ "type": "object", "properties": { "a": {} } });
    let schema = json!({ "$ref": "#Base:1.0.0", "properties": { "b": {} } });
    let result = bundled(&[("Base", base.clone())], &schema).unwrap();
    assert_eq!(result, json!({ "allOf": [base], "properties": { "b": {} } }));
}

#[test]
fn bundle_terminates_on_recursion() {
    let tree = json!({ "type": "object", "properties":
        { "children": { "type": "array", "items": { "$ref": "#Tree:1.0.0" } } } });
    let result = bundled(&[("Tree", tree)], &json!({ "$ref": "#Tree:1.0.0" })).unwrap();
    let again = json!({ "$ref": "#/$defs/Tree:1.0.0" });
    assert_eq!(result["properties"]["children"]["items"], again);
    assert_eq!(result["$defs"]["Tree:1.0.0"]["properties"]["children"]["items"], again);
    let circle = json!({ "$ref": "#Circle:1.0.0" });
    assert!(bundled(&[("Circle", circle.clone())], &circle).is_ok());
}

#[test]
fn bundle_does_not_overwrite_definitions() {
    let schema = json!({ "$ref": "#A:1.0.0", "$defs": { "A:1.0.0": false } , "type": "object"});
    let tree = json!({ "type": "object", "not": { "$ref": "#" } });
    let result = bundled(&[("A", tree)], &schema).unwrap();
    let again = json!({ "type": "object", "not": { "$ref": "#/$defs/A:1.0.0_" } });
    assert_eq!(result["$defs"], json!({ "A:1.0.0": false, "A:1.0.0_": again }));
    assert_eq!(result["$ref"], "#/$defs/A:1.0.0_");
}

#[test]
fn bundle_ignores_data_and_reports_unknown_schemas() {
    let data = json!({ "$ref": "#A:1.0.0" });
    let schema = json!({ "properties": { "p": { "const": data, "default": data } } });
    assert_eq!(bundled(&[], &schema).unwrap(), schema);
    let error = bundled(&[], &json!({ "items": data })).unwrap_err();
    insta::assert_snapshot!(error, @"the schema `#A:1.0.0` is not registered");
}

#[test]
fn bundle_embeds_identified_schemas_as_resources() {
    let point = json!({ "$id": "https://example.com/point", "type": "object",
        "properties": { "x": { "$ref": "#n" } }, "$defs": { "n": { "$anchor": "n", "type": "number" } } });
    let schema = json!({ "type": "object", "properties": { "at": { "$ref": "#Point:1.0.0" } } });
    let result = bundled(&[("Point", point)], &schema).unwrap();
    let validator = compile(&result, &|_| None).unwrap();
    assert!(validator.is_valid(&json!({ "at": { "x": 1 } })));
    assert!(!validator.is_valid(&json!({ "at": { "x": "1" } })));
}

/// Schemas that refer to an integer part of themselves by different names.
fn self_referring() -> Vec<Value> {
    let mut all = Vec::new();
    for (id, name) in [
        ("http://x.y/r", "http://x.y/r"),
        ("http://x.y/r", "http://X.y:80/./r"),
        ("http://x.y/r", "r"),
        ("foo", "foo"),
        ("foo", ""),
        ("urn:x:y", "urn:x:y"),
    ] {
        let part = json!({ "$anchor": "an", "$id": "bar", "type": "integer" });
        let by_pointer = json!({ "$id": id, "$ref": format!("{name}#/$defs/q"), "$defs":
            { "q": { "type": "integer" } } });
        let mut by_anchor = by_pointer.clone();
        by_anchor["$ref"] = json!(format!("{name}#an"));
        by_anchor["$defs"]["q"]["$anchor"] = json!("an");
        all.extend([by_pointer, by_anchor]);
        if !id.starts_with("urn:") {
            all.push(json!({ "$id": id, "$ref": "bar", "$defs": { "q": part } }));
        }
    }
    for dialect in
        ["http://json-schema.org/draft-07/schema#", "http://json-schema.org/draft-04/schema#"]
    {
        let definitions = json!({ "q": { "type": "integer" } });
        let part = json!({ "$ref": "#/definitions/q" });
        all.push(
            json!({ "$schema": dialect, "$ref": "#/definitions/q", "definitions": definitions }),
        );
        all.push(json!({ "$schema": dialect, "allOf": [part], "definitions": definitions }));
    }
    all
}

#[test]
fn bundle_preserves_meaning_of_identified_schemas() {
    let object = json!({ "type": "object", "properties": { "r": { "$ref": "#R:1.0.0" } } });
    let (is, old) = ("$schema", "http://json-schema.org/draft-07/schema#");
    let mut old_object = object.clone();
    old_object[is] = json!(old);
    for schema in self_referring() {
        let resolve = |key: &Key| Some(if key.name.as_str() == "T" { &object } else { &schema });
        for top in [&object, &old_object, &json!({ "$ref": "#T:1.0.0", "minProperties": 1 })] {
            let bundled = bundle(top, &resolve).unwrap();
            let validator = compile(&bundled, &|_| None);
            let validator = validator.unwrap_or_else(|e| panic!("{bundled} {e:?}"));
            assert!(validator.is_valid(&json!({ "r": 1 })), "{bundled}");
            assert!(!validator.is_valid(&json!({ "r": "1" })), "{bundled}");
        }
    }
}

/// Asserts that the bundle and its parts accept the first value and reject the second.
fn assert_means(registered: &Value, schema: &Value, good: &Value, bad: &Value) {
    let bundled = bundle(schema, &|_| Some(registered)).unwrap();
    for validator in [compile(schema, &|_| Some(registered)), compile(&bundled, &|_| None)] {
        let validator = validator.unwrap();
        assert!(validator.is_valid(good), "{bundled} {good}");
        assert!(!validator.is_valid(bad), "{bundled} {bad}");
    }
}

#[test]
fn bundle_preserves_dialects_and_constraints() {
    let old = "http://json-schema.org/draft-07/schema#";
    let tuple = json!({ "prefixItems": [{ "type": "integer" }] });
    let user =
        json!({ "$schema": old, "type": "object", "properties": { "r": { "$ref": "#A:1.0.0" } } });
    assert_means(&tuple, &user, &json!({ "r": [1] }), &json!({ "r": ["1"] }));
    let old_object = json!({ "$schema": old, "type": "object", "properties": { "a": {} } });
    let closed = json!({ "$ref": "#A:1.0.0", "unevaluatedProperties": false });
    assert_means(&old_object, &closed, &json!({ "a": 1 }), &json!({ "b": 1 }));
    let tree = json!({ "type": "object", "properties": { "child": { "$ref": "#" } } });
    let named = json!({ "$ref": "#A:1.0.0", "required": ["name"] });
    let root = json!({ "name": "x", "child": {} });
    assert_means(&tree, &named, &root, &json!({ "child": { "name": "x" } }));
    let tree = json!({ "$id": "http://x.y/tree", "type": "object", "properties":
        { "child": { "$ref": "#A:1.0.0" }, "next": { "$ref": "http://x.y/tree" } } });
    assert_means(
        &tree,
        &json!({ "$ref": "#A:1.0.0" }),
        &json!({ "next": {} }),
        &json!({ "next": 1 }),
    );
}

#[test]
fn bundle_preserves_dynamic_references() {
    let later = "https://json-schema.org/draft/2019-09/schema";
    let tool = |mut more: Value| {
        more["type"] = json!("object");
        more["required"] = json!(["t"]);
        more["properties"] = json!({ "t": { "$ref": "#A:1.0.0" } });
        more
    };
    let (good, bad) = (json!({ "t": { "c": [{}] } }), json!({ "t": { "c": [1] } }));
    for (keyword, more) in [
        ("$recursiveRef", json!({ "$schema": later })),
        ("$recursiveRef", json!({ "$schema": later, "$recursiveAnchor": true })),
        ("$dynamicRef", json!({})),
    ] {
        let mut tree = more.clone();
        tree["type"] = json!("object");
        tree["properties"] = json!({ "c": { "items": { keyword: "#" } } });
        let mut user = more;
        user.as_object_mut().unwrap().remove("$recursiveAnchor");
        assert_means(&tree, &tool(user), &good, &bad);
    }
    let own = json!({ "properties": { "c": { "$dynamicRef": "#/$defs/q" } },
        "$defs": { "q": { "type": "integer" } } });
    let taken = tool(json!({ "$defs": { "q": { "type": "string" } } }));
    assert_means(&own, &taken, &json!({ "t": { "c": 1 } }), &json!({ "t": { "c": "s" } }));
    let named = tool(json!({ "$id": "https://x.example/tool" }));
    assert_means(
        &json!(false),
        &json!({ "$id": "https://x.example/t",
        "properties": { "t": { "$ref": "#A:1.0.0" } } }),
        &json!({}),
        &json!({ "t": 1 }),
    );
    let anything = bundle(&named, &|_| Some(&Value::Bool(true))).unwrap();
    assert!(compile(&anything, &|_| None).unwrap().is_valid(&json!({ "t": 1 })));
}

#[test]
fn bundle_separates_versions_with_same_relative_id() {
    let of = |kind: &str| json!({ "$id": "a.json", "type": kind });
    let (one, two) = (of("integer"), of("string"));
    let both =
        json!({ "properties": { "a": { "$ref": "#A:1.0.0" }, "b": { "$ref": "#A:2.0.0" } } });
    let resolve = |key: &Key| Some(if key.version.to_string() == "1.0.0" { &one } else { &two });
    let validator = compile(&bundle(&both, &resolve).unwrap(), &|_| None).unwrap();
    assert!(validator.is_valid(&json!({ "a": 1, "b": "x" })));
    assert!(!validator.is_valid(&json!({ "a": "x" })) && !validator.is_valid(&json!({ "b": 1 })));
}

/// Up to four schemas that refer to each other, themselves and their own parts.
fn web() -> impl Strategy<Value = Vec<(String, Value)>> {
    let part = prop_oneof![
        Just(json!({ "type": "string" })),
        Just(json!({ "type": "integer", "minimum": 3 })),
        Just(json!({ "const": { "$ref": "#S0:1.0.0" } })),
        (0..4_u8).prop_map(|i| json!({ "$ref": format!("#S{i}:1.0.0") })),
        Just(json!({ "$ref": "#" })),
    ];
    let leaf = prop_oneof![3 => part.clone(), 1 => Just(json!({ "$ref": "#/$defs/own" }))];
    let schema =
        proptest::collection::btree_map("[ab]", leaf, 0..3).prop_flat_map(move |properties| {
            part.clone().prop_map(move |own| {
                json!({ "type": "object", "properties": properties,
                    "required": properties.keys().collect::<Vec<_>>(), "$defs": { "own": own } })
            })
        });
    proptest::collection::vec(schema, 4..5).prop_map(|schemas| {
        schemas.into_iter().enumerate().map(|(i, schema)| (format!("S{i}"), schema)).collect()
    })
}

fn instance() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<i8>().prop_map(Value::from),
        Just(json!("text")),
        Just(json!({ "$ref": "#S0:1.0.0" })),
    ];
    leaf.prop_recursive(4, 16, 2, |inner| {
        proptest::collection::btree_map("[ab]", inner, 0..3).prop_map(|map| json!(map))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn bundle_is_equivalent_and_self_contained(
        web in web(), instances in proptest::collection::vec(instance(), 8)
    ) {
        // A schema that is nothing but a reference cycle has no meaning to compare.
        let batch: Vec<_> = web.iter().map(|(name, schema)| registered(name, schema)).collect();
        let catalog = catalog(&batch);
        let top = json!({ "$ref": "#S0:1.0.0" });
        let Ok(before) = compile(&top, &|name| catalog.json_schema(name)) else { return Ok(()) };
        let all: BTreeMap<_, _> = web.iter().cloned().collect();
        let result = bundle(&top, &|key| all.get(key.name.as_str())).unwrap();
        prop_assert_eq!(&result["type"], "object");
        let after = compile(&result, &|_| None).unwrap();
        for instance in &instances {
            prop_assert_eq!(before.is_valid(instance), after.is_valid(instance), "{}", instance);
        }
        prop_assert_eq!(bundle(&top, &|key| all.get(key.name.as_str())).unwrap(), result);
    }
}

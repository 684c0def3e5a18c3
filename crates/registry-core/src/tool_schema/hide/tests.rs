//! Tests of hidden arguments.

use schema_compat::schema_compile::compile;
use serde_json::json;

use super::*;

fn hidden(schema: Value, fields: &[&str]) -> Value {
    let fields: Vec<_> = fields.iter().map(|field| HiddenField::parse(field)).collect();
    let mut schema = schema;
    hide(&mut schema, &fields);
    schema
}

#[test]
fn hide_removes_field_from_properties_and_required() {
    let schema = json!({ "type": "object", "properties": { "a": {}, "b": {} },
        "required": ["a", "b"], "dependentRequired": { "a": ["b"], "b": ["a"] } });
    assert_eq!(
        hidden(schema.clone(), &["a"]),
        json!({ "type": "object", "properties": { "b": {} }, "required": ["b"],
            "dependentRequired": { "b": [] } })
    );
    let none = hidden(schema, &["a", "b"]);
    assert_eq!(none, json!({ "type": "object", "properties": {}, "dependentRequired": {} }));
}

#[test]
fn hide_follows_dotted_paths() {
    let schema = json!({ "properties": {
        "a": { "properties": { "x": {}, "y": {} }, "required": ["x"] }, "x": {} } });
    let expected = json!({ "properties": { "a": { "properties": { "y": {} } }, "x": {} } });
    assert_eq!(hidden(schema.clone(), &["a.x"]), expected);
    assert_eq!(hidden(schema.clone(), &["a.z", "b.x", "x.y"]), schema, "nothing to hide");
}

#[test]
fn hide_modifies_branches_but_not_conditions() {
    let has = json!({ "properties": { "a": {} }, "required": ["a"] });
    let schema = json!({ "allOf": [has], "anyOf": [has], "oneOf": [has], "then": has, "else": has,
        "dependentSchemas": { "b": has }, "if": has, "not": has });
    let result = hidden(schema, &["a"]);
    let gone = json!({ "properties": {} });
    for place in ["/allOf/0", "/anyOf/0", "/oneOf/0", "/then", "/else", "/dependentSchemas/b"] {
        assert_eq!(result.pointer(place), Some(&gone), "{place}");
    }
    assert_eq!(result["if"], has);
    assert_eq!(result["not"], has);
}

#[test]
fn hide_copies_shared_schema() {
    let schema = json!({
        "properties": { "one": { "$ref": "#/$defs/F" }, "two": { "$ref": "#/$defs/F" } },
        "$defs": { "F": { "type": "object", "properties": { "a": {}, "b": {} }, "required": ["a"] } },
    });
    let result = hidden(schema.clone(), &["one.a"]);
    let changed = json!({ "type": "object", "properties": { "b": {} } });
    assert_eq!(result["properties"]["one"], changed);
    assert_eq!(result["properties"]["two"], json!({ "$ref": "#/$defs/F" }));
    assert_eq!(result["$defs"], schema["$defs"]);
}

#[test]
fn hide_keeps_siblings_of_references() {
    let schema = json!({
        "properties": { "f": { "$ref": "#/$defs/F", "properties": { "c": { "type": "string" } } } },
        "$defs": { "F": { "properties": { "a": {}, "b": { "type": "integer" } }, "required": ["a"] } },
    });
    let result = hidden(schema, &["f.a"]);
    let validator = compile(&result, &|_| None).unwrap();
    assert!(validator.is_valid(&json!({ "f": { "b": 1, "c": "x" } })));
    assert!(!validator.is_valid(&json!({ "f": { "b": "1" } })));
    assert!(!validator.is_valid(&json!({ "f": { "c": 1 } })));
    assert!(!result.to_string().contains("\"a\""));
}

#[test]
fn hide_removes_unused_definitions() {
    let schema = json!({
        "properties": { "secret": { "$ref": "#/$defs/Secret" }, "open": { "$ref": "#/$defs/Open" } },
        "$defs": { "Secret": { "$ref": "#/$defs/Inner" }, "Inner": {},
            "Open": { "items": { "$ref": "#/$defs/Part" } }, "Part": {} },
    });
    let result = hidden(schema, &["secret"]);
    let left: Vec<_> = result["$defs"].as_object().unwrap().keys().collect();
    assert_eq!(left, ["Open", "Part"]);
}

#[test]
fn hide_handles_empty_reference() {
    let schema = json!({ "properties": { "next": { "$ref": "" }, "x": {} } });
    let next = json!({ "properties": { "next": { "$ref": "" } } });
    assert_eq!(hidden(schema, &["next.x"])["properties"]["next"], next);
}

#[test]
fn hide_terminates_on_cycles() {
    let schema = json!({ "$ref": "#/$defs/A", "$defs": {
        "A": { "allOf": [{ "$ref": "#/$defs/A" }], "properties": { "x": {} } } } });
    let result = hidden(schema, &["x", "x.y"]);
    assert!(result.is_object());
    let schema = json!({ "properties": { "next": { "$ref": "#" }, "x": {} } });
    assert!(hidden(schema, &["next.next.next.x"]).is_object());
}

#[test]
fn hide_limits_followed_references() {
    let mut defs = Map::new();
    for i in 0..60 {
        let next = json!({ "$ref": format!("#/$defs/{}", i + 1) });
        defs.insert(i.to_string(), json!({ "allOf": [next, next] }));
    }
    defs.insert("60".to_owned(), json!({ "properties": { "x": {} } }));
    let result = hidden(json!({ "$ref": "#/$defs/0", "$defs": defs }), &["x"]);
    assert!(result.to_string().len() < 1_000_000);
}

#[test]
fn hidden_field_finds_and_inserts_values() {
    let path = HiddenField::parse("a.b/c");
    assert_eq!(path.pointer(), "/a/b~1c");
    let mut arguments = json!({ "a": { "x": 1 } }).as_object().unwrap().clone();
    assert_eq!(path.find(&arguments), None);
    assert!(path.insert(&mut arguments, json!(2)) && !path.is_obstructed(&arguments));
    assert_eq!(path.find(&arguments), Some(&json!(2)));
    for (other, is_obstructed) in [(json!(5), true), (json!([]), true), (Value::Null, false)] {
        let mut arguments = Map::from_iter([("a".to_owned(), other.clone())]);
        assert_eq!(path.is_obstructed(&arguments), is_obstructed, "{other}");
        assert!(!path.insert(&mut arguments, json!(2)));
        assert_eq!(arguments["a"], other);
    }
    let mut nothing = Map::new();
    assert!(!path.is_obstructed(&nothing) && path.insert(&mut nothing, json!(2)));
    assert_eq!(Value::Object(nothing), json!({ "a": { "b/c": 2 } }));
}

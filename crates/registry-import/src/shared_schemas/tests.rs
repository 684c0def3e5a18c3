//! Shared and unchanged schemas. `tests/properties` proves the equivalence.

use registry_core::version::Version;
use serde_json::{Value, json};

use super::{SharedSchemas, shared};

fn factored(schemas: &[Value]) -> SharedSchemas {
    let tool =
        |(i, schema): (usize, &Value)| json!({ "name": format!("t{i}"), "inputSchema": schema });
    let tools = schemas.iter().enumerate().map(tool).collect();
    shared(tools, "svc", &Version::parse("1.0.0").unwrap())
}

fn names(factored: &SharedSchemas) -> Vec<&str> {
    factored.schemas.iter().filter_map(|schema| schema["name"].as_str()).collect()
}

fn input(factored: &SharedSchemas, i: usize) -> &Value {
    &factored.tools[i]["inputSchema"]
}

fn address() -> Value {
    json!({ "type": "object", "properties": { "street": { "type": "string" }, "city": {} } })
}

#[test]
fn equal_objects_share_schema_named_after_property() {
    let found = factored(&[
        json!({ "type": "object", "properties": { "home_address": address() } }),
        json!({ "type": "object", "properties": { "to": { "type": "array", "items": address() } } }),
        json!({ "type": "object", "properties": { "x": { "default": address() } } }),
    ]);
    assert_eq!(names(&found), ["svc.HomeAddress"]);
    assert_eq!(found.schemas[0]["schema"], address());
    let reference = json!({ "$ref": "#svc.HomeAddress:1.0.0" });
    assert_eq!(input(&found, 0)["properties"]["home_address"], reference);
    assert_eq!(input(&found, 1)["properties"]["to"]["items"], reference);
    assert_eq!(input(&found, 2)["properties"]["x"]["default"], address(), "a default is data");
}

#[test]
fn inner_schema_is_shared_only_if_used_elsewhere() {
    let person = json!({ "type": "object", "properties": { "name": {}, "address": address() } });
    let whole = json!({ "type": "object", "properties": { "who": person, "why": {} } });
    let twice = factored(&[whole.clone(), whole.clone()]);
    assert_eq!(names(&twice), ["svc.T0Input"]);
    assert_eq!(*input(&twice, 1), json!({ "$ref": "#svc.T0Input:1.0.0" }));
    let other = json!({ "type": "object", "properties": { "where": address() } });
    let more = factored(&[whole.clone(), whole, other]);
    assert_eq!(names(&more), ["svc.T0Input", "svc.Where"]);
    let inner = &more.schemas[0]["schema"]["properties"]["who"]["properties"]["address"];
    assert_eq!(*inner, json!({ "$ref": "#svc.Where:1.0.0" }));
}

#[test]
fn equal_definitions_are_shared_before_their_users() {
    let schema = |more: &str| {
        json!({ "type": "object",
            "properties": { more: { "$ref": "#/$defs/Order" }, "p": { "$ref": "#/$defs/Prio", "title": "P" } },
            "$defs": {
                "Prio": { "enum": ["low", "high"] },
                "Order": { "type": "object", "properties": { "prio": { "$ref": "#/$defs/Prio" } } },
                "Tree": { "properties": { "next": { "$ref": "#/$defs/Tree" } } },
                "More": { "title": more },
            } })
    };
    let found = factored(&[schema("a"), schema("b")]);
    assert_eq!(names(&found), ["svc.Order", "svc.Prio"]);
    let prio = json!({ "$ref": "#svc.Prio:1.0.0" });
    assert_eq!(found.schemas[0]["schema"]["properties"]["prio"], prio);
    let first = input(&found, 0);
    assert_eq!(first["properties"]["a"], json!({ "$ref": "#svc.Order:1.0.0" }));
    assert_eq!(first["$defs"]["Prio"], prio, "a reference with siblings still points there");
    assert_eq!(first["properties"]["p"]["$ref"], "#/$defs/Prio");
    assert!(first["$defs"].get("Order").is_none());
    assert!(first["$defs"]["Tree"]["properties"].is_object(), "a cycle stays");
}

#[test]
fn shared_schema_keeps_its_dialect() {
    let schema = |name: &str| {
        json!({ "$schema": "http://json-schema.org/draft-07/schema#",
            "type": "object", "properties": { name: address() } })
    };
    let found = factored(&[schema("a"), schema("b")]);
    assert_eq!(found.schemas[0]["schema"]["$schema"], "http://json-schema.org/draft-07/schema#");
    let mixed = json!({ "type": "object", "properties": { "c": address() } });
    assert_eq!(names(&factored(&[schema("a"), mixed])), <[&str; 0]>::default());
}

#[test]
fn context_dependent_schemas_stay_unchanged() {
    let with = |more: Value| {
        let mut schema = json!({ "type": "object", "properties": { "a": address() } });
        schema.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        schema
    };
    for more in [
        json!({ "$id": "https://example.com/x" }),
        json!({ "allOf": [{ "$anchor": "x" }] }),
        json!({ "$dynamicRef": "#x" }),
        json!({ "not": { "$ref": "other.json" } }),
        json!({ "if": { "$ref": "#/properties/a/properties/city" } }),
        json!({ "title": "t", "properties": { "a": { "type": "object",
            "properties": { "x": { "x-mcp-header": "A", "type": "string" }, "y": {} } } } }),
    ] {
        let found = factored(&[with(more.clone()), with(more.clone())]);
        assert_eq!(names(&found), <[&str; 0]>::default(), "{more}");
        assert_eq!(*input(&found, 0), with(more));
    }
    let once = factored(&[with(json!({}))]);
    assert_eq!(names(&once), <[&str; 0]>::default());
}

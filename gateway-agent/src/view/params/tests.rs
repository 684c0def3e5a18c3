//! Valid and invalid annotations.

use serde_json::json;

use super::*;

fn settled(schema: &Value) -> (Vec<String>, Value) {
    let mut schema = schema.clone();
    let found = remove_invalid(&mut schema);
    let show = |param: ParamHeader| format!("{} {}", param.header, param.path.join("/"));
    (found.into_iter().map(show).collect(), schema)
}

#[test]
fn annotations_are_found_at_any_depth() {
    let schema = json!({ "properties": {
        "region": { "type": "string", "x-mcp-header": "Region" },
        "deep": { "type": "object", "properties": {
            "count": { "type": "integer", "x-mcp-header": "Count" },
            "flag": { "type": "boolean", "x-mcp-header": "Flag" } } } } });
    let (found, after) = settled(&schema);
    let expected =
        ["mcp-param-region region", "mcp-param-count deep/count", "mcp-param-flag deep/flag"];
    assert_eq!(found, expected);
    assert_eq!(after, schema);
}

#[test]
fn invalid_annotations_are_removed() {
    let broken = [
        json!({ "type": "string", "x-mcp-header": "" }),
        json!({ "type": "string", "x-mcp-header": "a b" }),
        json!({ "type": "string", "x-mcp-header": "a\r\nb" }),
        json!({ "type": "string", "x-mcp-header": "größe" }),
        json!({ "type": "string", "x-mcp-header": 5 }),
        json!({ "type": "number", "x-mcp-header": "N" }),
        json!({ "type": "object", "x-mcp-header": "N" }),
        json!({ "type": ["string", "null"], "x-mcp-header": "N" }),
        json!({ "x-mcp-header": "N" }),
        json!({ "type": "array", "items": { "type": "string", "x-mcp-header": "N" } }),
        json!({ "oneOf": [{ "type": "string", "x-mcp-header": "N" }] }),
        json!({ "if": { "properties": { "p": { "type": "string", "x-mcp-header": "N" } } } }),
    ];
    for property in broken {
        let (found, after) = settled(&json!({ "properties": { "p": property } }));
        assert!(found.is_empty(), "{property}");
        assert!(!after.to_string().contains(KEYWORD), "{property}");
    }
    let (found, after) = settled(&json!({ "type": "string", "x-mcp-header": "Root",
        "$defs": { "d": { "type": "string", "x-mcp-header": "N" } } }));
    assert!(found.is_empty() && !after.to_string().contains(KEYWORD));
}

#[test]
fn duplicate_names_are_removed() {
    let (found, after) = settled(&json!({ "properties": {
        "a": { "type": "string", "x-mcp-header": "Same" },
        "b": { "type": "string", "x-mcp-header": "sAME" },
        "c": { "type": "string", "x-mcp-header": "Other" } } }));
    assert_eq!(found, ["mcp-param-other c"]);
    assert!(!after.to_string().to_lowercase().contains("same"));
}

#[test]
fn data_keeps_its_members() {
    let schema = json!({ "properties": { "p": { "default": { "x-mcp-header": "data" } } } });
    assert_eq!(settled(&schema).1, schema);
}

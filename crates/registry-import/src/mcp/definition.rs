//! The types of a tool definition (2026-07-28, schema.ts, `Tool`). Clients that check types reject
//! a whole list because of one invalid definition.

use registry_core::{decode::describe, entity::tool::expected_annotation_type};
use serde_json::Value;

/// The first member of a tool definition with a wrong type.
pub fn invalid_member(tool: &Value) -> Option<String> {
    let Some(members) = tool.as_object() else { return Some(wrong("the tool", "an object", tool)) };
    let member = |name: &str| members.get(name).map(|value| (name.to_owned(), value));
    let annotations = members.get("annotations").and_then(Value::as_object);
    let annotations = annotations.into_iter().flatten().filter_map(|(name, value)| {
        let expected = expected_annotation_type(name, value)?;
        Some(((format!("annotations.{name}"), value), expected))
    });
    let texts = ["title", "description"].into_iter().filter_map(member);
    let objects = ["inputSchema", "outputSchema", "annotations", "execution", "_meta"];
    let objects = objects.into_iter().filter_map(member);
    let text = texts.filter(|(_, value)| !value.is_string()).map(|found| (found, "a string"));
    let object = objects.filter(|(_, value)| !value.is_object()).map(|found| (found, "an object"));
    let list = member("icons").filter(|(_, value)| !value.is_array());
    let all = text.chain(object).chain(annotations);
    let mut all = all.chain(list.map(|found| (found, "a list")));
    if let Some(((name, value), wanted)) = all.next() {
        return Some(wrong(&format!("`{name}`"), wanted, value));
    }
    let input = members.get("inputSchema")?;
    let kind = input.get("type").and_then(Value::as_str);
    (kind != Some("object")).then(|| "`inputSchema.type` is not \"object\"".to_owned())
}

fn wrong(what: &str, wanted: &str, found: &Value) -> String {
    format!("{what} is {}, not {wanted}", describe(found))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn wrong_types_are_named() {
        let input = json!({ "type": "object" });
        for (tool, expected) in [
            (json!(7), "not an object"),
            (json!({ "title": 1 }), "`title` is"),
            (json!({ "inputSchema": [] }), "`inputSchema` is"),
            (json!({ "inputSchema": { "type": "objekt" } }), "`inputSchema.type`"),
            (json!({ "annotations": { "readOnlyHint": "yes" } }), "`annotations.readOnlyHint` is"),
            (json!({ "annotations": { "title": 7 } }), "`annotations.title` is"),
            (json!({ "inputSchema": input, "icons": {} }), "`icons` is"),
            (json!({ "inputSchema": input, "_meta": "x" }), "`_meta` is"),
        ] {
            let found = invalid_member(&tool).unwrap_or_default();
            assert!(found.contains(expected), "{tool}: {found}");
        }
        let good =
            json!({ "name": "t", "inputSchema": input, "annotations": { "readOnlyHint": true } });
        assert_eq!(invalid_member(&good), None);
    }
}

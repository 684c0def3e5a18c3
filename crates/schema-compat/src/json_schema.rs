//! Traversal of a JSON Schema: its subschemas, and its references to named schemas.
//!
//! Members with data (`const`, `enum`, `default`, `examples`) are skipped. Names in `properties`
//! and similar members are not keywords.

use serde_json::{Map, Value};

use crate::{name::SchemaName, pointer::Location};

/// The content of a member of a schema object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemberContent {
    /// Schemas under names that are not keywords.
    Named,
    /// Data that may look like a schema.
    Data,
    /// A schema, a list of schemas, or the plain value of a keyword.
    Other,
}

/// The keywords with references.
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

/// The content of the member with this name.
pub fn member_content(name: &str) -> MemberContent {
    match name {
        "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas"
        | "dependencies" => MemberContent::Named,
        "const" | "enum" | "default" | "examples" => MemberContent::Data,
        _ => MemberContent::Other,
    }
}

/// Visits the direct subschemas of a schema, or of a list of schemas.
pub fn each_part<'a>(value: &'a Value, visit: &mut dyn FnMut(&'a Value)) {
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                match (member_content(name), value) {
                    (MemberContent::Data, _) => {}
                    (MemberContent::Named, Value::Object(named)) => {
                        named.values().for_each(&mut *visit);
                    }
                    _ => visit(value),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(visit),
        _ => {}
    }
}

/// Whether a schema contains references.
pub fn has_references(schema: &Value) -> bool {
    let mut found = false;
    each_object(schema, &mut |map| {
        found |= REFERENCES.iter().any(|name| map.contains_key(*name));
    });
    found
}

/// Visits every schema object, outermost first.
pub fn each_object(schema: &Value, visit: &mut dyn FnMut(&Map<String, Value>)) {
    each_object_at(schema, Location::ROOT, &mut |map, _| visit(map));
}

/// Like [`each_object`], with the location of each.
pub fn each_object_at(
    schema: &Value,
    at: Location<'_>,
    visit: &mut dyn FnMut(&Map<String, Value>, Location<'_>),
) {
    match schema {
        Value::Object(map) => {
            visit(map, at);
            for (name, value) in map {
                match (member_content(name), value) {
                    (MemberContent::Data, _) => {}
                    (MemberContent::Named, Value::Object(named)) => {
                        let at = at.member(name);
                        for (name, value) in named {
                            each_object_at(value, at.member(name), visit);
                        }
                    }
                    _ => each_object_at(value, at.member(name), visit),
                }
            }
        }
        Value::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                each_object_at(item, at.index(i), visit);
            }
        }
        _ => {}
    }
}

/// A copy of a schema with `change` applied to every schema object, innermost first.
pub fn map_objects(schema: &Value, change: &mut dyn FnMut(&mut Map<String, Value>)) -> Value {
    match schema {
        Value::Object(map) => {
            let mut copy = Map::new();
            for (name, value) in map {
                let value = match (member_content(name), value) {
                    (MemberContent::Data, _) => value.clone(),
                    (MemberContent::Named, Value::Object(named)) => {
                        let copied = named.iter().map(|(n, v)| (n.clone(), map_objects(v, change)));
                        Value::Object(copied.collect())
                    }
                    _ => map_objects(value, change),
                };
                copy.insert(name.clone(), value);
            }
            change(&mut copy);
            Value::Object(copy)
        }
        Value::Array(items) => {
            Value::Array(items.iter().map(|item| map_objects(item, change)).collect())
        }
        other => other.clone(),
    }
}

/// Calls `found` for every reference to a named schema with the location of the `$ref`.
pub fn each_reference(
    schema: &Value,
    at: Location<'_>,
    found: &mut dyn FnMut(SchemaName, Location<'_>),
) {
    each_object_at(schema, at, &mut |map, at| {
        if let Some(Value::String(text)) = map.get("$ref")
            && let Some(name) = SchemaName::parse(text)
        {
            found(name, at.member("$ref"));
        }
    });
}

/// The `$ref` of a schema object. An empty one is equivalent to `#` and returned as such.
pub fn reference_of(map: &Map<String, Value>) -> Option<&str> {
    let text = map.get("$ref")?.as_str()?;
    Some(if text.is_empty() { "#" } else { text })
}

/// The schema with named references replaced by the compiler's URIs, and empty references by `#`,
/// because the compiler does not support empty ones.
pub fn with_uris(schema: &Value, uri_of: &dyn Fn(&SchemaName) -> String) -> Value {
    map_objects(schema, &mut |map| {
        let Some(Value::String(text)) = map.get_mut("$ref") else { return };
        if text.is_empty() {
            "#".clone_into(text);
        } else if let Some(name) = SchemaName::parse(text) {
            *text = uri_of(&name);
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn references(schema: &Value) -> Vec<String> {
        let mut found = Vec::new();
        each_reference(schema, Location::ROOT, &mut |name, at| {
            found.push(format!("{at} {}", name.reference()));
        });
        found
    }

    #[test]
    fn each_reference_reports_location_at_any_depth() {
        let schema = json!({
            "$defs": { "a/b": { "$ref": "#A:1.0.0" } },
            "items": [{ "anyOf": [{ "$ref": "#B:2.0.0" }, { "$ref": "#/$defs/a" }] }],
            "not": { "$ref": "#C:latest" },
        });
        assert_eq!(
            references(&schema),
            ["/$defs/a~1b/$ref #A:1.0.0", "/items/0/anyOf/0/$ref #B:2.0.0", "/not/$ref #C:latest"]
        );
    }

    #[test]
    fn data_and_property_names_are_not_references() {
        let data = json!({ "$ref": "#A:1.0.0" });
        let schema = json!({
            "const": data, "enum": [data], "default": data, "examples": [data],
            "dependencies": { "enum": { "$ref": "#B:1.0.0" }, "default": ["enum"] },
            "properties": { "default": { "$ref": "#B:1.0.0" }, "$ref": { "type": "string" } },
        });
        assert_eq!(
            references(&schema),
            ["/dependencies/enum/$ref #B:1.0.0", "/properties/default/$ref #B:1.0.0"]
        );
        let uris = with_uris(&schema, &SchemaName::uri);
        assert_eq!(uris["const"], data);
        assert_eq!(uris["properties"]["default"]["$ref"], "registry:/B/1.0.0/");
    }
}

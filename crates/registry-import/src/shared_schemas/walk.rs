//! Walks and rewrites a schema only where the standard defines subschemas.
//!
//! This is stricter than `json_schema`, which looks everywhere to find all references: a shared
//! value must really be a schema.

use serde_json::{Map, Value};

enum Place {
    One,
    Named,
}

fn place(keyword: &str) -> Option<Place> {
    match keyword {
        "additionalItems"
        | "additionalProperties"
        | "contains"
        | "else"
        | "if"
        | "items"
        | "not"
        | "propertyNames"
        | "then"
        | "unevaluatedItems"
        | "unevaluatedProperties"
        | "allOf"
        | "anyOf"
        | "oneOf"
        | "prefixItems" => Some(Place::One),
        "$defs" | "definitions" | "dependencies" | "dependentSchemas" | "patternProperties"
        | "properties" => Some(Place::Named),
        _ => None,
    }
}

/// Visits every subschema with its place, outermost first. `false` skips its inside.
pub(super) fn walk<'a>(
    schema: &'a Value,
    path: &mut Vec<String>,
    visit: &mut dyn FnMut(&'a Value, &[String]) -> bool,
) {
    if visit(schema, path) {
        walk_inside(schema, path, visit);
    }
}

/// Visits the subschemas inside a schema.
pub(super) fn walk_inside<'a>(
    schema: &'a Value,
    path: &mut Vec<String>,
    visit: &mut dyn FnMut(&'a Value, &[String]) -> bool,
) {
    let Value::Object(map) = schema else { return };
    for (keyword, value) in map {
        path.push(keyword.clone());
        match (place(keyword), value) {
            (Some(Place::One), Value::Array(items)) => {
                for (i, item) in items.iter().enumerate() {
                    path.push(i.to_string());
                    walk(item, path, visit);
                    path.pop();
                }
            }
            (Some(Place::One), one) => walk(one, path, visit),
            (Some(Place::Named), Value::Object(named)) => {
                for (name, member) in named {
                    path.push(name.clone());
                    walk(member, path, visit);
                    path.pop();
                }
            }
            _ => {}
        }
        path.pop();
    }
}

/// A copy of the schema. Each subschema is replaced by the value that `replace` returns, if any.
pub(super) fn rewrite(
    schema: &Value,
    path: &mut Vec<String>,
    replace: &mut dyn FnMut(&Value, &[String]) -> Option<Value>,
) -> Value {
    match replace(schema, path) {
        Some(other) => other,
        None => rewrite_inside(schema, path, replace),
    }
}

/// A copy with only the inside rewritten.
pub(super) fn rewrite_inside(
    schema: &Value,
    path: &mut Vec<String>,
    replace: &mut dyn FnMut(&Value, &[String]) -> Option<Value>,
) -> Value {
    let Value::Object(map) = schema else { return schema.clone() };
    let mut copy = Map::new();
    for (keyword, value) in map {
        path.push(keyword.clone());
        let value = match (place(keyword), value) {
            (Some(Place::One), Value::Array(items)) => {
                let items = items.iter().enumerate().map(|(i, item)| {
                    path.push(i.to_string());
                    let item = rewrite(item, path, replace);
                    path.pop();
                    item
                });
                Value::Array(items.collect())
            }
            (Some(Place::One), one) => rewrite(one, path, replace),
            (Some(Place::Named), Value::Object(named)) => {
                let members = named.iter().map(|(name, member)| {
                    path.push(name.clone());
                    let member = rewrite(member, path, replace);
                    path.pop();
                    (name.clone(), member)
                });
                Value::Object(members.collect())
            }
            _ => value.clone(),
        };
        path.pop();
        copy.insert(keyword.clone(), value);
    }
    Value::Object(copy)
}

//! Recognizes schemas that compile without compiling them.
//!
//! Most schemas have only common keywords, whose values are easy to check. Compilation validates a schema
//! against its meta-schema and builds a validator, which takes many times longer.

use std::collections::HashSet;

use serde_json::Value;

use crate::limits;

/// Dialects with the same syntax of the checked keywords. Drafts 4 and 6 restrict `enum`.
const DIALECTS: [&str; 3] = [
    "http://json-schema.org/draft-07/schema#",
    "https://json-schema.org/draft/2019-09/schema",
    "https://json-schema.org/draft/2020-12/schema",
];
const TYPES: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];

/// Whether a schema has only keywords that are checked here: no references, no URIs and no patterns.
/// Such a schema compiles, also where another one refers to it. Other schemas may compile, too.
pub fn is_basic(schema: &Value) -> bool {
    let Value::Object(map) = schema else { return schema.is_boolean() };
    let is_known = |dialect: &Value| DIALECTS.iter().any(|known| dialect == known);
    // Without references, a schema has at most one path to a location per subschema.
    let mut room = limits::SCHEMA_PATHS;
    map.iter().all(|(keyword, value)| match keyword.as_str() {
        "$schema" => is_known(value),
        keyword => is_basic_member(keyword, value, &mut room),
    })
}

fn is_basic_part(schema: &Value, room: &mut u64) -> bool {
    *room = room.saturating_sub(1);
    if *room == 0 {
        return false;
    }
    let Value::Object(map) = schema else { return schema.is_boolean() };
    map.iter().all(|(keyword, value)| is_basic_member(keyword, value, room))
}

fn is_basic_member(keyword: &str, value: &Value, room: &mut u64) -> bool {
    match keyword {
        "type" => match value {
            Value::Array(types) => {
                let is_new = |at: usize| !types[..at].contains(&types[at]);
                !types.is_empty() && types.iter().all(is_type) && (0..types.len()).all(is_new)
            }
            one => is_type(one),
        },
        "properties" => {
            value.as_object().is_some_and(|map| map.values().all(|part| is_basic_part(part, room)))
        }
        "items" | "additionalProperties" | "not" => is_basic_part(value, room),
        "allOf" | "anyOf" | "oneOf" => value.as_array().is_some_and(|parts| {
            !parts.is_empty() && parts.iter().all(|part| is_basic_part(part, room))
        }),
        "required" => value.as_array().is_some_and(|names| {
            let mut known = HashSet::new();
            names.iter().all(|name| name.as_str().is_some_and(|name| known.insert(name)))
        }),
        "enum" => value.as_array().is_some_and(|options| !options.is_empty()),
        "const" | "default" => true,
        "examples" => value.is_array(),
        "title" | "description" | "$comment" | "format" => value.is_string(),
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => value.is_number(),
        "multipleOf" => value.as_f64().is_some_and(|step| step > 0.0),
        "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties" => {
            value.is_u64()
        }
        "uniqueItems" | "deprecated" | "readOnly" | "writeOnly" => value.is_boolean(),
        _ => false,
    }
}

fn is_type(value: &Value) -> bool {
    value.as_str().is_some_and(|name| TYPES.contains(&name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema_compile::{compile, problems_if_referred_to};

    #[test]
    fn basic_schemas_compile() {
        let common = json!({
            "type": "object", "title": "t", "description": "d", "$comment": "c",
            "properties": {
                "a": { "type": ["string", "null"], "minLength": 1, "maxLength": 9, "format": "uri" },
                "b": { "type": "array", "items": { "enum": [1, 1, {}] }, "uniqueItems": true },
                "c": { "const": { "$ref": "#" }, "default": { "$id": "x" }, "examples": [{}] },
                "d": { "minimum": 0.5, "exclusiveMaximum": 9, "multipleOf": 0.1 },
                "$ref": { "anyOf": [{}, true], "oneOf": [false], "allOf": [{ "not": {} }] },
            },
            "required": ["a", "b"], "additionalProperties": false, "maxProperties": 3,
            "readOnly": true, "deprecated": false,
        });
        let with_dialect = |dialect: &&str| {
            let mut schema = common.clone();
            schema["$schema"] = json!(dialect);
            schema
        };
        let dialects = DIALECTS.iter().map(with_dialect);
        for schema in dialects.chain([common.clone(), json!({}), json!(true), json!(false)]) {
            assert!(is_basic(&schema), "{schema}");
            assert!(compile(&schema, &|_| None).is_ok(), "{schema}");
            assert!(problems_if_referred_to(&schema).is_empty(), "{schema}");
        }
    }

    #[test]
    fn schema_with_other_keywords_or_values_is_not_basic() {
        for schema in [
            json!(1),
            json!([]),
            json!({ "type": "strin" }),
            json!({ "type": [] }),
            json!({ "type": ["null", "null"] }),
            json!({ "properties": { "a": 1 } }),
            json!({ "properties": [] }),
            json!({ "items": [{}] }),
            json!({ "anyOf": [] }),
            json!({ "allOf": [{ "not": "x" }] }),
            json!({ "required": ["a", "a"] }),
            json!({ "required": [1] }),
            json!({ "enum": [] }),
            json!({ "examples": 1 }),
            json!({ "title": 1 }),
            json!({ "maximum": "1" }),
            json!({ "multipleOf": 0 }),
            json!({ "minLength": -1 }),
            json!({ "maxItems": 1.5 }),
            json!({ "uniqueItems": 1 }),
            json!({ "pattern": "a" }),
            json!({ "patternProperties": {} }),
            json!({ "$ref": "#A:1.0.0" }),
            json!({ "$id": "https://example.com/a" }),
            json!({ "x": { "$anchor": "a" } }),
            json!({ "$schema": "http://json-schema.org/draft-04/schema#" }),
            json!({ "items": { "$schema": DIALECTS[0] } }),
        ] {
            assert!(!is_basic(&schema), "{schema}");
        }
    }

    #[test]
    fn schema_with_too_many_parts_is_not_basic() {
        let parts = |count| json!({ "allOf": vec![true; count] });
        let most = usize::try_from(limits::SCHEMA_PATHS).unwrap() - 1;
        assert!(is_basic(&parts(most)) && compile(&parts(most), &|_| None).is_ok());
        assert!(!is_basic(&parts(most + 1)));
    }
}

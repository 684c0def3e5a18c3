//! The shape of a schema: the JSON Schema is in `schema`.

use serde_json::{Map, Value};

use super::Entry;
use crate::Repairs;

/// The keywords of JSON Schema, draft 4 to 2020-12, without those that are also fields of an entity
/// (`description`, `deprecated`) and `$comment`.
const KEYWORDS: [&str; 59] = [
    "$anchor",
    "$defs",
    "$dynamicAnchor",
    "$dynamicRef",
    "$id",
    "$recursiveAnchor",
    "$recursiveRef",
    "$ref",
    "$schema",
    "$vocabulary",
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "const",
    "contains",
    "contentEncoding",
    "contentMediaType",
    "contentSchema",
    "default",
    "definitions",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "else",
    "enum",
    "examples",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "if",
    "items",
    "maxContains",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minContains",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "not",
    "oneOf",
    "pattern",
    "patternProperties",
    "prefixItems",
    "properties",
    "propertyNames",
    "readOnly",
    "required",
    "then",
    "title",
    "type",
    "unevaluatedItems",
    "unevaluatedProperties",
    "uniqueItems",
    "writeOnly",
];

impl Entry {
    pub(super) fn shape_schema(&mut self, repairs: &mut Repairs) {
        self.rename(repairs, "definition", "schema");
        self.rename(repairs, "jsonSchema", "schema");
        if self.map.contains_key("schema") {
            for keyword in KEYWORDS.iter().filter(|keyword| self.map.contains_key(**keyword)) {
                let what = format!("`{keyword}` is next to `schema`, where it has no effect");
                repairs.needed(
                    self.at(keyword),
                    what,
                    "move it into `schema` if it belongs to the schema",
                );
            }
            return;
        }
        let own: Map<String, Value> =
            KEYWORDS.iter().filter_map(|keyword| self.map.remove_entry(*keyword)).collect();
        if own.is_empty() {
            repairs.needed(&self.pointer, "a schema without `schema`", "write it");
        } else {
            let what = "the JSON Schema is next to `name`";
            repairs.made(&self.pointer, what, "it is in `schema`");
            self.origins.moved("/schema", self.pointer.as_str());
            self.map.insert("schema".to_owned(), own.into());
        }
    }
}

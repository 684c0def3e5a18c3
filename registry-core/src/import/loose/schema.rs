//! The shape of a schema: its JSON Schema is in `schema`, not beside it.
//!
//! Deliberately absent: the JSON Schema itself.

use serde_json::{Map, Value};

use super::Entry;
use crate::import::Repairs;

/// What begins a JSON Schema.
const KEYWORDS: [&str; 17] = [
    "$defs",
    "$id",
    "$ref",
    "$schema",
    "additionalProperties",
    "allOf",
    "anyOf",
    "const",
    "definitions",
    "enum",
    "format",
    "items",
    "oneOf",
    "pattern",
    "properties",
    "required",
    "type",
];

impl Entry {
    pub(super) fn shape_schema(&mut self, repairs: &mut Repairs) {
        self.rename(repairs, "definition", "schema");
        self.rename(repairs, "jsonSchema", "schema");
        if self.map.contains_key("schema") {
            return;
        }
        let own: Map<String, Value> =
            KEYWORDS.iter().filter_map(|keyword| self.map.remove_entry(*keyword)).collect();
        if own.is_empty() {
            repairs.needed(&self.pointer, "a schema without `schema`", "write it");
        } else {
            let what = "the JSON Schema is beside `name`";
            repairs.made(&self.pointer, what, "it is in `schema`");
            self.map.insert("schema".to_owned(), own.into());
        }
    }
}

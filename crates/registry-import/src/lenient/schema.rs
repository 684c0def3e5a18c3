//! The shape of a schema: the JSON Schema is in `schema`.

use schema_compat::keyword::KEYWORDS;
use serde_json::{Map, Value};

use super::Entry;
use crate::Repairs;

/// Keywords that are also fields of an entity or of any object.
const FIELDS: [&str; 3] = ["$comment", "deprecated", "description"];

/// The keywords that only JSON Schemas have.
fn keywords() -> impl Iterator<Item = &'static str> {
    KEYWORDS.into_iter().filter(|keyword| !FIELDS.contains(keyword))
}

impl Entry {
    pub(super) fn shape_schema(&mut self, repairs: &mut Repairs) {
        self.rename(repairs, "definition", "schema");
        self.rename(repairs, "jsonSchema", "schema");
        if self.map.contains_key("schema") {
            for keyword in keywords().filter(|keyword| self.map.contains_key(*keyword)) {
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
            keywords().filter_map(|keyword| self.map.remove_entry(keyword)).collect();
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

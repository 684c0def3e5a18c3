//! The shape of a tool: `source` or `spec`, and its schemas.
//!
//! Deliberately absent: versions, and what its server says.

use serde_json::{Map, Value, json};

use super::Entry;
use crate::{
    decode::describe,
    document::pointer_join,
    import::{Repairs, repair::put},
};

/// The patterns of compositions, which older files put beside the name.
const PATTERNS: [&str; 6] = ["filter", "mapEach", "pipeline", "saga", "scatterGather", "schemaMap"];

impl Entry {
    pub(super) fn shape_tool(&mut self, repairs: &mut Repairs) {
        self.shape_implementation(repairs);
        for (from, to) in [
            ("input_schema", "inputSchema"),
            ("parameters", "inputSchema"),
            ("input", "inputSchema"),
            ("output_schema", "outputSchema"),
            ("output", "outputSchema"),
            ("dependencies", "depends"),
            ("composition", "spec"),
        ] {
            self.rename(repairs, from, to);
        }
        self.shape_spec(repairs);
        self.shape_source(repairs);
    }

    fn shape_implementation(&mut self, repairs: &mut Repairs) {
        let at = self.at("implementation");
        match self.map.remove("implementation") {
            Some(Value::Object(implementation)) => {
                let what = "`source` and `spec` stand in the tool itself";
                repairs.made(&at, what, "they were moved there");
                for (name, value) in implementation {
                    put(&mut self.map, repairs, &pointer_join(&at, &name), (name, value));
                }
            }
            Some(other) => {
                let what = format!("an `implementation` that is {}", describe(&other));
                repairs.needed(at, what, "it is in `metadata`; write `source` or `spec`");
                self.map.insert("implementation".to_owned(), other);
            }
            None => {}
        }
    }

    fn shape_spec(&mut self, repairs: &mut Repairs) {
        if self.map.contains_key("spec") {
            return;
        }
        let found = PATTERNS.iter().find(|name| self.map.get(**name).is_some_and(Value::is_object));
        if let Some((name, pattern)) = found.and_then(|name| self.map.remove_entry(*name)) {
            let what = format!("the pattern `{name}` is beside `name`");
            repairs.made(self.at(&name), what, "it is in `spec`");
            self.map.insert("spec".to_owned(), json!({ name: pattern }));
        }
    }

    fn shape_source(&mut self, repairs: &mut Repairs) {
        let mut source = match self.map.remove("source") {
            Some(Value::Object(source)) => source,
            Some(Value::String(server)) => {
                repairs.made(self.at("source"), "a source as a text", "it is `source.server`");
                Map::from_iter([("server".to_owned(), Value::String(server))])
            }
            Some(other) => {
                self.map.insert("source".to_owned(), other);
                return;
            }
            None => Map::new(),
        };
        let is_composed = self.map.contains_key("spec");
        for field in ["server", "target", "serverVersion", "tool", "defaults", "hideFields"] {
            if is_composed && source.is_empty() {
                break;
            }
            if let Some(value) = self.map.remove(field) {
                let what = format!("`{field}` is beside `source`");
                repairs.made(self.at(field), what, "it is in `source`");
                put(&mut source, repairs, &self.at(field), (field.to_owned(), value));
            }
        }
        if let Some(target) = source.remove("target") {
            if source.get("server").is_none_or(|server| *server == target) {
                let at = format!("{}/target", self.at("source"));
                repairs.made(at, "`target` is written `server`", "it was renamed");
                source.insert("server".to_owned(), target);
            } else {
                let at = format!("{}/target", self.at("source"));
                let what = format!("`target` says {target}, but `server` says otherwise");
                repairs.needed(at, what, "`server` was kept");
            }
        }
        if let Some(version) = source.remove("version") {
            let at = format!("{}/version", self.at("source"));
            if source.get("serverVersion").is_none_or(|said| *said == version) {
                repairs.made(at, "`version` is written `serverVersion`", "it was renamed");
                source.insert("serverVersion".to_owned(), version);
            } else {
                let what = format!("`version` says {version}, but `serverVersion` says otherwise");
                repairs.needed(at, what, "`serverVersion` was kept");
            }
        }
        if source.is_empty() {
            return;
        }
        if !source.contains_key("tool") {
            let what = "the source does not name its tool";
            repairs.made(self.at("source"), what, "the tool's own name is used");
            source.insert("tool".to_owned(), self.name().into());
        }
        self.map.insert("source".to_owned(), source.into());
    }
}

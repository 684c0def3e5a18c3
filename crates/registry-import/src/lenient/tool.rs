//! The shape of a tool: `source` or `spec`, and its schemas.

use registry_core::{decode::describe, entity::tool::expected_annotation_type};
use schema_compat::pointer::pointer_join;
use serde_json::{Map, Value, json};

use super::Entry;
use crate::{
    Repairs,
    repair::{put, quoted},
};

/// The composition patterns, which older files have at the top level of the tool.
const PATTERNS: [&str; 6] = ["filter", "mapEach", "pipeline", "saga", "scatterGather", "schemaMap"];

impl Entry {
    pub(super) fn shape_tool(&mut self, repairs: &mut Repairs) {
        self.shape_implementation(repairs);
        if self.map.get("output").is_some_and(|output| output.get("mappings").is_some()) {
            self.rename(repairs, "output", "outputTransform");
        }
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
        self.shape_annotations(repairs);
    }

    /// Hints with the words of YAML 1.1, which are texts in YAML 1.2, become booleans.
    fn shape_annotations(&mut self, repairs: &mut Repairs) {
        let at = self.at("annotations");
        let Some(Value::Object(annotations)) = self.map.get_mut("annotations") else { return };
        for (name, value) in annotations {
            let word = value.as_str().map(str::to_ascii_lowercase);
            let meant = match word.as_deref() {
                Some("true" | "yes" | "on") => true,
                Some("false" | "no" | "off") => false,
                _ => continue,
            };
            if expected_annotation_type(name, value).is_some() {
                let what = format!("`{name}` is {}", describe(value));
                let how = format!("{meant} is written");
                repairs.corrected(pointer_join(&at, name), what, &how);
                *value = meant.into();
            }
        }
    }

    fn shape_implementation(&mut self, repairs: &mut Repairs) {
        let at = self.at("implementation");
        match self.map.remove("implementation") {
            Some(Value::Object(implementation)) => {
                for field in implementation {
                    let (to, from) = (pointer_join("", &field.0), pointer_join(&at, &field.0));
                    let what = format!("{} belongs to the tool itself", quoted(&field.0));
                    if put(&mut self.map, repairs, &from, field) {
                        repairs.made(&from, what, "it was moved");
                        self.origins.moved(to, from);
                    }
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
            let what = format!("the pattern `{name}` is next to `name`");
            repairs.made(self.at(&name), what, "it is in `spec`");
            self.origins.moved(pointer_join("/spec", &name), self.at(&name));
            self.map.insert("spec".to_owned(), json!({ name: pattern }));
        }
    }

    fn shape_source(&mut self, repairs: &mut Repairs) {
        let mut source = match self.map.remove("source") {
            Some(Value::Object(source)) => source,
            Some(Value::String(server)) => {
                repairs.made(self.at("source"), "a source as a text", "it is `source.server`");
                self.origins.moved("/source/server", self.at("source"));
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
                let at = self.at(field);
                if put(&mut source, repairs, &at, (field.to_owned(), value)) {
                    let what = format!("`{field}` is next to `source`");
                    repairs.made(&at, what, "it is in `source`");
                    self.origins.moved(format!("/source/{field}"), at);
                }
            }
        }
        for (from, to) in [("target", "server"), ("version", "serverVersion")] {
            let Some(value) = source.remove(from) else { continue };
            let at = self.origins.origin(&format!("/source/{from}"));
            if source.get(to).is_none_or(|said| *said == value) {
                repairs.made(&at, format!("`{from}` is written `{to}`"), "it was renamed");
                source.insert(to.to_owned(), value);
                self.origins.moved(format!("/source/{to}"), at);
            } else {
                let what = format!("`{from}` says {value}, but `{to}` says otherwise");
                repairs.needed(at, what, format!("`{to}` was kept"));
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

//! One tool of a live server as a document.

use registry_core::{
    decode::describe,
    document::Document,
    entity::{
        TaskSupport,
        tool::{expected_annotation_type, is_reserved_meta_key},
    },
    kind::Kind,
};
use schema_compat::pointer::pointer_join;
use serde_json::{Map, Value, json};

use super::{Common, kept, schema};
use crate::{
    repair::quoted,
    screening::{screen_text, screened_members},
};

/// Members of a tool with their own screening.
const OWN: [&str; 5] = ["name", "title", "description", "inputSchema", "outputSchema"];

impl Common {
    /// The document of a tool. `None`: the registry would reject it in any form.
    pub(super) fn tool<'a>(
        &mut self,
        tool: &Map<String, Value>,
        name: &str,
        others: impl Iterator<Item = &'a str>,
        pointer: &str,
    ) -> Option<Value> {
        let tool = &Value::Object(screened_members(&mut self.repairs, tool, pointer, &OWN));
        let mut document = Map::new();
        let mut put = |name: &str, value: Value| document.insert(name.to_owned(), value);
        put("name", name.into());
        put("version", self.version.to_string().into());
        put(
            "source",
            json!({
                "server": self.server.as_str(),
                "serverVersion": self.version.to_string(),
                "tool": tool["name"],
            }),
        );
        if let Some(title) = tool["title"].as_str() {
            let at = format!("{pointer}/title");
            put("title", screen_text(&mut self.repairs, title, &at, []).into());
        }
        if let Some(description) = tool["description"].as_str() {
            let at = format!("{pointer}/description");
            put("description", screen_text(&mut self.repairs, description, &at, others).into());
        }
        for field in ["inputSchema", "outputSchema"] {
            let said = tool.get(field).filter(|schema| !schema.is_null());
            let at = format!("{pointer}/{field}");
            if let Some(schema) = said.and_then(|said| schema::usable(said, &at, &mut self.repairs))
            {
                put(field, schema);
            }
        }
        for (name, value) in [
            ("annotations", self.annotations(tool, pointer)),
            ("execution", self.execution(tool, pointer)),
            ("_meta", self.meta(tool, pointer)),
            ("metadata", kept(tool, &["icons"])),
        ] {
            if !value.is_empty() {
                document.insert(name.to_owned(), value.into());
            }
        }
        self.acceptable(document, pointer)
    }

    /// The tool's `annotations` without those of a wrong type, such as `null`.
    fn annotations(&mut self, tool: &Value, pointer: &str) -> Map<String, Value> {
        let mut annotations = tool["annotations"].as_object().cloned().unwrap_or_default();
        annotations.retain(|name, value| {
            let Some(expected) = expected_annotation_type(name, value) else { return true };
            let at = pointer_join(&format!("{pointer}/annotations"), name);
            let what = format!("`{name}` is {}, not {expected}", describe(value));
            self.repairs.made(at, what, "it was left out");
            false
        });
        annotations
    }

    /// The tool's `execution`, unless MCP does not define its value.
    fn execution(&mut self, tool: &Value, pointer: &str) -> Map<String, Value> {
        let execution = tool["execution"].as_object().cloned().unwrap_or_default();
        if TaskSupport::from_execution(&execution).is_some() {
            return execution;
        }
        let at = format!("{pointer}/execution/taskSupport");
        let what = "MCP defines only \"forbidden\", \"optional\" and \"required\"";
        self.repairs.needed(
            at,
            what,
            "`execution` was left out; report it to the server's authors",
        );
        Map::new()
    }

    /// The tool's `_meta` without reserved keys.
    fn meta(&mut self, tool: &Value, pointer: &str) -> Map<String, Value> {
        let mut meta = tool["_meta"].as_object().cloned().unwrap_or_default();
        meta.retain(|key, _| {
            let is_kept = !is_reserved_meta_key(key);
            // Gateways add their own keys to each tool, which need no report.
            if !is_kept && !key.starts_with("registry/") {
                let at = pointer_join(&format!("{pointer}/_meta"), key);
                let what = format!("the key {} is reserved for MCP or the gateway", quoted(key));
                self.repairs.made(at, what, "it was left out");
            }
            is_kept
        });
        meta
    }

    /// The document, without the parts that exceed the registry's limits.
    fn acceptable(&mut self, mut document: Map<String, Value>, pointer: &str) -> Option<Value> {
        for field in ["", "metadata", "_meta", "outputSchema", "inputSchema", "annotations"] {
            if !field.is_empty() && document.remove(field).is_none() {
                continue;
            }
            let value = Value::Object(document.clone());
            let Err(problems) = Document::parse(Kind::Tool, &value) else { return Some(value) };
            let what = problems.first().map_or_else(String::new, |found| found.message.clone());
            self.repairs.needed(pointer, what, "the excess was left out");
        }
        self.repairs.needed(pointer, "the registry would reject it", "the tool was left out");
        None
    }
}

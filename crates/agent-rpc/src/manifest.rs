//! The manifest of tools for the context of a model, in the forms of model providers.
//!
//! Model providers reject unknown members, so a category and examples are part of the description
//! there. Each form has the names of [`tool_name`](crate::tool_name).

use std::borrow::Cow;

use gateway_protocol::jsonrpc::{Object, ObjectWriter};
use serde_json::{Value, json};

use crate::tool_name::provider_name;

/// Maximum characters of a description in the API of `OpenAI`.
const OPENAI_CHARACTERS: usize = 1024;
/// Maximum number of examples of a tool.
const EXAMPLES: usize = 16;

/// The form of a manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// The entries of `tools/list`.
    Mcp,
    /// Functions of `OpenAI`, with JSON Schema.
    OpenAi,
    /// Tools of Anthropic.
    Anthropic,
    /// Function declarations of Gemini, with JSON Schema.
    Gemini,
}

impl Format {
    /// The names of all forms.
    pub const NAMES: [(&str, Self); 4] = [
        ("mcp", Self::Mcp),
        ("openai", Self::OpenAi),
        ("anthropic", Self::Anthropic),
        ("gemini", Self::Gemini),
    ];

    /// The form with this name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::NAMES.into_iter().find(|(name, _)| *name == text).map(|(_, format)| format)
    }
}

/// A tool of a manifest.
#[derive(Debug)]
pub struct ManifestTool<'a> {
    /// The name in calls.
    pub name: &'a str,
    /// The description for the model.
    pub description: Option<Cow<'a, str>>,
    /// JSON Schema of the arguments, as JSON text.
    pub input_schema: &'a str,
    /// The category.
    pub category: Option<String>,
    /// Examples of calls or of requests that need the tool.
    pub examples: Vec<String>,
    /// The entry of `tools/list`.
    pub listed: &'a Object<'a>,
}

impl ManifestTool<'_> {
    /// Reads the examples of a tool. Those that are no strings are shown as JSON.
    pub fn read_examples(examples: &Value) -> Vec<String> {
        let shown = |example: &Value| match example {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        examples.as_array().into_iter().flatten().take(EXAMPLES).map(shown).collect()
    }

    /// The description with category and examples.
    fn described(&self) -> String {
        let mut text = self.description.as_deref().unwrap_or_default().to_owned();
        let mut line = |line: &str| {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(line);
        };
        if let Some(category) = &self.category {
            line(&format!("Category: {category}"));
        }
        for example in &self.examples {
            line(&format!("Example: {example}"));
        }
        text
    }

    /// The entry of `tools/list` with category and examples.
    fn entry(&self) -> String {
        let mut entry = ObjectWriter::with_capacity(512);
        let is_other = |name: &str| !matches!(name, "category" | "examples");
        for member in self.listed.members().iter().filter(|member| is_other(&member.name)) {
            entry.member(&member.name, member.value.get());
        }
        if let Some(category) = &self.category {
            entry.string("category", category);
        }
        if !self.examples.is_empty() {
            entry.raw("examples", &json!(self.examples).to_string());
        }
        entry.finish_string()
    }

    fn definition(&self, form: &str, schema: &str, description: &str) -> String {
        let mut definition = ObjectWriter::with_capacity(self.input_schema.len() + 256);
        definition.string("name", form);
        if !description.is_empty() {
            definition.string("description", description);
        }
        definition.raw(schema, self.input_schema);
        definition.finish_string()
    }
}

/// Writes a manifest, tool by tool.
#[derive(Debug)]
pub struct ManifestWriter {
    format: Format,
    tools: String,
    /// The names that have another form in the manifest.
    names: ObjectWriter,
}

impl ManifestWriter {
    /// Creates an empty manifest.
    pub fn new(format: Format) -> Self {
        Self { format, tools: String::new(), names: ObjectWriter::with_capacity(64) }
    }

    /// Adds a tool.
    pub fn add(&mut self, tool: &ManifestTool<'_>) {
        let form = provider_name(tool.name);
        let entry = match self.format {
            Format::Mcp => tool.entry(),
            Format::OpenAi => {
                let description = shortened(tool.described());
                let function = tool.definition(&form, "parameters", &description);
                format!(r#"{{"type":"function","function":{function}}}"#)
            }
            Format::Anthropic => tool.definition(&form, "input_schema", &tool.described()),
            Format::Gemini => tool.definition(&form, "parametersJsonSchema", &tool.described()),
        };
        if !self.tools.is_empty() {
            self.tools.push(',');
        }
        self.tools.push_str(&entry);
        if self.format != Format::Mcp && form != tool.name {
            self.names.string(&form, tool.name);
        }
    }

    /// The manifest: `tools` for the request to the provider, and `names` of tools by their names
    /// there.
    pub fn finish(self) -> String {
        let Self { format, tools, names } = self;
        match format {
            Format::Mcp => format!(r#"{{"tools":[{tools}]}}"#),
            Format::OpenAi | Format::Anthropic => {
                format!(r#"{{"tools":[{tools}],"names":{}}}"#, names.finish_string())
            }
            Format::Gemini => format!(
                r#"{{"tools":[{{"functionDeclarations":[{tools}]}}],"names":{}}}"#,
                names.finish_string()
            ),
        }
    }
}

/// A description within the limit of `OpenAI`.
fn shortened(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(OPENAI_CHARACTERS) {
        text.truncate(end);
        text.pop();
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;

    /// The manifest of one tool.
    fn written(format: &str, name: &str, more: &Value) -> Value {
        let mut entry = json!({ "name": name, "inputSchema": { "type": "object" } });
        let more = more.as_object().unwrap();
        let category = more.get("category").and_then(Value::as_str).map(str::to_owned);
        let examples = ManifestTool::read_examples(more.get("examples").unwrap_or(&Value::Null));
        let description = more.get("description").and_then(Value::as_str).map(str::to_owned);
        if let Some(description) = &description {
            entry["description"] = description.as_str().into();
        }
        let raw = RawValue::from_string(entry.to_string()).unwrap();
        let listed = Object::parse(&raw).unwrap();
        let mut writer = ManifestWriter::new(Format::parse(format).unwrap());
        writer.add(&ManifestTool {
            name,
            description: description.map(Cow::Owned),
            input_schema: r#"{"type":"object"}"#,
            category,
            examples,
            listed: &listed,
        });
        serde_json::from_str(&writer.finish()).unwrap()
    }

    #[test]
    fn each_form_has_schema_description_and_names() {
        let more = json!({ "description": "Says it.", "category": "demo", "examples": ["say hi", { "n": 1 }] });
        let schema = json!({ "type": "object" });
        let described = "Says it.\nCategory: demo\nExample: say hi\nExample: {\"n\":1}";
        let names = json!({ "a_dot_b": "a.b" });
        assert_eq!(
            written("mcp", "a.b", &more),
            json!({ "tools": [{ "name": "a.b", "description": "Says it.", "inputSchema": schema,
                "category": "demo", "examples": ["say hi", "{\"n\":1}"] }] })
        );
        assert_eq!(
            written("openai", "a.b", &more),
            json!({ "tools": [{ "type": "function", "function": { "name": "a_dot_b",
                "description": described, "parameters": schema } }], "names": names })
        );
        assert_eq!(
            written("anthropic", "a.b", &more),
            json!({ "tools": [{ "name": "a_dot_b", "description": described,
                "input_schema": schema }], "names": names })
        );
        assert_eq!(
            written("gemini", "a.b", &more),
            json!({ "tools": [{ "functionDeclarations": [{ "name": "a_dot_b",
                "description": described, "parametersJsonSchema": schema }] }], "names": names })
        );
        assert_eq!(
            written("anthropic", "plain", &json!({})),
            json!({ "tools": [{ "name": "plain", "input_schema": schema }], "names": {} })
        );
    }

    #[test]
    fn descriptions_for_openai_are_bounded() {
        let long = "ö".repeat(3000);
        let manifest = written("openai", "t", &json!({ "description": long }));
        let description = manifest["tools"][0]["function"]["description"].as_str().unwrap();
        assert_eq!(description.chars().count(), OPENAI_CHARACTERS);
        assert!(description.ends_with('…'));
        let manifest = written("openai", "t", &json!({ "description": "ö".repeat(1024) }));
        assert_eq!(manifest["tools"][0]["function"]["description"], "ö".repeat(1024));
    }

    #[test]
    fn examples_are_bounded() {
        let many: Vec<_> = (0..100).map(Value::from).collect();
        assert_eq!(ManifestTool::read_examples(&many.into()).len(), EXAMPLES);
        assert!(ManifestTool::read_examples(&json!("x")).is_empty());
        assert_eq!(Format::parse("MCP"), None);
    }
}

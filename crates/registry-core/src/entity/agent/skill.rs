//! A skill of an A2A agent, and its view as a tool in compositions.

use schema_compat::pointer::Location;
use serde::Serialize;
use serde_json::{Value, json};

use super::Agent;
use crate::{
    decode::Problems,
    entity::tool::{Implementation, Tool, ToolSource},
    media_type::essence,
    open_json,
};

/// A capability of an agent.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Skill {
    /// The id, unique within the agent.
    pub id: String,
    /// The display name.
    pub name: String,
    /// The description for people and models.
    pub description: String,
    /// Keywords for search.
    pub tags: Vec<String>,
    /// Example requests.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<String>,
    /// Accepted media types; absent means the agent's defaults.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub input_modes: Vec<String>,
    /// Produced media types; absent means the agent's defaults.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub output_modes: Vec<String>,
    /// JSON Schema of the input data.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "open_json::serialize")]
    pub input_schema: Option<Value>,
    /// JSON Schema of the output data.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "open_json::serialize")]
    pub output_schema: Option<Value>,
}

impl Skill {
    /// The skill as a tool with the agent as its server. A skill that takes text instead of data
    /// has the argument `text`.
    pub fn as_tool(&self, agent: &Agent) -> Tool {
        let text = || {
            json!({ "type": "object", "properties": { "text": { "type": "string" } },
                "required": ["text"], "additionalProperties": false })
        };
        let input_schema = self.input_schema.clone().or_else(|| self.takes_text(agent).then(text));
        Tool {
            name: agent.name.clone(),
            version: agent.version.clone(),
            title: Some(self.name.clone()),
            description: Some(self.description.clone()),
            implementation: Implementation::Source(ToolSource {
                server: agent.name.clone(),
                server_version: agent.version.clone(),
                tool: self.id.clone(),
                defaults: None,
                hide_fields: Vec::new(),
            }),
            depends: Vec::new(),
            input_schema,
            output_schema: self.output_schema.clone(),
            output_transform: None,
            annotations: None,
            execution: None,
            meta: None,
            metadata: None,
        }
    }

    /// Whether it takes text rather than data: it has no input schema and does not accept JSON.
    pub fn takes_text(&self, agent: &Agent) -> bool {
        self.input_schema.is_none() && !may_be_json(&self.input_modes, &agent.default_input_modes)
    }

    /// Whether its output must not be parsed as JSON: it has no output schema and does not produce
    /// JSON.
    pub fn gives_text(&self, agent: &Agent) -> bool {
        let (own, default) = (&self.output_modes, &agent.default_output_modes);
        self.output_schema.is_none() && !may_be_json(own, default)
    }

    pub(super) fn read(problems: &Problems, value: Value, at: Location<'_>) -> Option<Self> {
        let mut fields = problems.owned_object(value, at)?;
        let (id, name) = (fields.required_string("id"), fields.required_string("name"));
        let description = fields.required_string("description");
        let (tags, examples) = (fields.strings("tags"), fields.strings("examples"));
        let (input_modes, output_modes) =
            (fields.strings("inputModes"), fields.strings("outputModes"));
        let (input_schema, output_schema) =
            (fields.json_schema("inputSchema"), fields.json_schema("outputSchema"));
        fields.finish();
        Some(Self {
            id: id?,
            name: name?,
            description: description?,
            tags,
            examples,
            input_modes,
            output_modes,
            input_schema,
            output_schema,
        })
    }
}

/// Whether JSON is among a skill's own media types, or the agent's if the skill has none.
fn may_be_json(own: &[String], default: &[String]) -> bool {
    let modes = if own.is_empty() { default } else { own };
    modes.iter().any(|mode| {
        let essence = essence(mode).to_ascii_lowercase();
        matches!(essence.as_str(), "*/*" | "application/*")
            || essence.ends_with("/json")
            || essence.ends_with("+json")
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::{Entity, Kind};

    #[test]
    fn skill_without_schema_uses_text_unless_json_declared() {
        let skill = |more: Value| {
            let mut skill = json!({ "id": "s", "name": "S", "description": "d", "tags": [] });
            skill.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let card = json!({
                "name": "team/a", "version": "1.2.0", "description": "d", "url": "u",
                "protocolVersion": "1", "defaultInputModes": ["text/plain"],
                "defaultOutputModes": [], "skills": [skill], "capabilities": {},
            });
            let Ok(Entity::Agent(agent)) = Entity::parse(Kind::Agent, &card) else { panic!() };
            let skill = agent.skill("s").unwrap();
            (skill.takes_text(&agent), skill.as_tool(&agent), skill.gives_text(&agent))
        };
        let (takes_text, tool, gives_text) = skill(json!({}));
        assert!(takes_text && gives_text);
        assert_eq!((tool.name.as_str(), tool.version.to_string().as_str()), ("team/a", "1.2.0"));
        assert_eq!(tool.input_schema.unwrap()["required"], json!(["text"]));
        let schemas = json!({ "inputSchema": { "minProperties": 1 }, "outputSchema": {} });
        let (takes_text, tool, gives_text) = skill(schemas.clone());
        assert!(!takes_text && !gives_text);
        let own = (schemas["inputSchema"].clone(), schemas["outputSchema"].clone());
        assert_eq!((tool.input_schema.unwrap(), tool.output_schema.unwrap()), own);
        for mode in [
            "application/json",
            "application/geo+json",
            "Application/JSON; charset=utf-8",
            "text/json",
            "application/vnd.x+json ;v=1",
            "application/*",
            "*/*",
        ] {
            let (takes_text, tool, gives_text) =
                skill(json!({ "inputModes": ["text/plain", mode] }));
            assert!(!takes_text && gives_text && tool.input_schema.is_none(), "{mode}");
            let (takes_text, _, gives_text) = skill(json!({ "outputModes": [mode, "text/plain"] }));
            assert!(takes_text && !gives_text, "{mode}");
        }
        for mode in ["image/png", "text/*", "application/jsonx", "text/plain; format=json"] {
            let (takes_text, _, gives_text) =
                skill(json!({ "inputModes": [mode], "outputModes": [mode] }));
            assert!(takes_text && gives_text, "{mode}");
        }
    }
}

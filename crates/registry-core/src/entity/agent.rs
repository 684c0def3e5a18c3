//! An A2A agent: its card and, in the `urn:agentgateway:sbom` extension, its dependencies.
//!
//! The fields are those of A2A's `AgentCard`.

mod capabilities;
mod skill;

use std::collections::HashSet;

use schema_compat::pointer::Location;
use serde::Serialize;
use serde_json::{Map, Value};

pub use capabilities::{Capabilities, Extension, ExtensionParams, SBOM_EXTENSION};
pub use skill::Skill;

use crate::{
    decode::Problems, entity::tool::Dependency, kind::Kind, name::Name, open_json, version::Version,
};

/// The place of an agent's dependencies, which compositions have at their top level.
const DEPENDS_IN_EXTENSION: [(&str, &str); 1] = [(
    "depends",
    "write the dependencies in `capabilities.extensions[].params.depends` of the extension \
     `urn:agentgateway:sbom`",
)];

/// A registered A2A agent.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Agent {
    /// The name, optionally with a namespace: `team/name`.
    pub name: Name,
    /// The exact version.
    pub version: Version,
    /// The description for people and models.
    pub description: String,
    /// The URL of its A2A endpoint.
    pub url: String,
    /// The A2A protocol version of that endpoint.
    pub protocol_version: String,
    /// Accepted media types, unless a skill overrides them.
    pub default_input_modes: Vec<String>,
    /// Produced media types, unless a skill overrides them.
    pub default_output_modes: Vec<String>,
    /// The agent's skills.
    pub skills: Vec<Skill>,
    /// Optional protocol features and extensions.
    pub capabilities: Capabilities,
    /// The organization that operates the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<Provider>,
    /// A2A security requirements, preserved unchanged.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "open_json::serialize")]
    pub security: Vec<Value>,
    /// A2A security schemes, preserved unchanged.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "open_json::serialize")]
    pub security_schemes: Option<Map<String, Value>>,
    /// Open metadata: owner, repository …
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "open_json::serialize")]
    pub metadata: Option<Map<String, Value>>,
}

/// The organization that operates an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Provider {
    /// The organization's name.
    pub organization: String,
    /// The organization's URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

impl Agent {
    /// The dependencies, with the JSON pointer of their list.
    pub fn depends(&self) -> (&[Dependency], String) {
        self.capabilities
            .extensions
            .iter()
            .enumerate()
            .find_map(|(i, extension)| match &extension.params {
                ExtensionParams::Sbom(depends) => {
                    let at = format!("/capabilities/extensions/{i}/params/depends");
                    Some((depends.as_slice(), at))
                }
                ExtensionParams::Open(_) => None,
            })
            .unwrap_or_default()
    }

    /// The extensions of A2A: all but the one with the dependencies, which is for the registry.
    pub fn protocol_extensions(&self) -> impl Iterator<Item = &Extension> {
        self.capabilities.extensions.iter().filter(|extension| extension.uri != SBOM_EXTENSION)
    }

    /// Calls `found` with each list of dependencies and its location.
    pub(crate) fn each_dependency_list(&self, found: &mut dyn FnMut(&[Dependency], Location<'_>)) {
        self.capabilities.each_dependency_list(Location::ROOT.member("capabilities"), found);
    }

    /// The skill with this id.
    pub fn skill(&self, id: &str) -> Option<&Skill> {
        self.skills.iter().find(|skill| skill.id == id)
    }

    pub(crate) fn read(problems: &Problems, value: Value, at: Location<'_>) -> Option<Self> {
        let mut fields = problems.owned_object(value, at)?;
        let (name, version) = (fields.name(Kind::Agent, "name"), fields.version("version"));
        let description = fields.required_string("description");
        let url = fields.required_string("url");
        let protocol_version = fields.required_string("protocolVersion");
        for member in ["defaultInputModes", "defaultOutputModes", "skills", "capabilities"] {
            fields.require(member);
        }
        let capabilities = fields
            .take("capabilities")
            .and_then(|value| Capabilities::read(problems, value, fields.at("capabilities")));
        let (input_modes, output_modes) =
            (fields.strings("defaultInputModes"), fields.strings("defaultOutputModes"));
        let mut ids = HashSet::new();
        let skills =
            fields.take_list("skills", |value, at| read_skill(problems, value, at, &mut ids));
        let provider = fields
            .get("provider")
            .and_then(|value| Provider::read(problems, value, fields.at("provider")));
        let security = fields.take_list("security", |value, _| Some(value));
        let security_schemes = fields.open_object("securitySchemes");
        let metadata = fields.open_object("metadata");
        fields.finish_with(&DEPENDS_IN_EXTENSION);
        Some(Self {
            name: name?,
            version: version?,
            description: description?,
            url: url?,
            protocol_version: protocol_version?,
            default_input_modes: input_modes,
            default_output_modes: output_modes,
            skills,
            capabilities: capabilities?,
            provider,
            security,
            security_schemes,
            metadata,
        })
    }
}

/// Reads a skill and reports a duplicate id.
fn read_skill(
    problems: &Problems,
    value: Value,
    at: Location<'_>,
    seen: &mut HashSet<String>,
) -> Option<Skill> {
    let skill = Skill::read(problems, value, at)?;
    if !seen.insert(skill.id.clone()) {
        let message = format!("the skill id `{}` is used twice", skill.id);
        problems.invalid(at.member("id"), message, "give each skill a unique id");
    }
    Some(skill)
}

impl Provider {
    fn read(problems: &Problems, value: &Value, at: Location<'_>) -> Option<Self> {
        let fields = problems.object(value, at)?;
        let organization = fields.required_string("organization");
        let url = fields.optional_string("url");
        fields.finish();
        Some(Self { organization: organization?, url })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::{Entity, Kind};

    fn problems(skills: &Value, extensions: &Value) -> Vec<String> {
        let card = json!({
            "name": "a", "version": "1.0.0", "description": "d", "url": "u",
            "protocolVersion": "1", "defaultInputModes": [], "defaultOutputModes": [],
            "skills": skills, "capabilities": { "extensions": extensions },
        });
        let problems = Entity::parse(Kind::Agent, &card).err().unwrap_or_default();
        problems.iter().map(|d| format!("{}: {}", d.pointer, d.message)).collect()
    }

    #[test]
    fn agent_rejects_duplicate_skill_ids() {
        let skill = |id: &str| json!({ "id": id, "name": "S", "description": "d", "tags": [] });
        let skills = json!([skill("s"), 7, skill("t"), skill("s")]);
        assert_eq!(
            problems(&skills, &json!([])),
            [
                "/skills/1: expected an object, got the number 7",
                "/skills/3/id: the skill id `s` is used twice",
            ]
        );
    }

    #[test]
    fn agent_names_place_of_dependencies() {
        let card = json!({
            "name": "a", "version": "1.0.0", "description": "d", "url": "u",
            "protocolVersion": "1", "defaultInputModes": [], "defaultOutputModes": [],
            "skills": [], "capabilities": {}, "depends": [],
        });
        let problems = Entity::parse(Kind::Agent, &card).err().unwrap_or_default();
        let [problem] = problems.as_slice() else { panic!("{problems:?}") };
        let help = problem.help.as_deref().unwrap_or_default();
        assert!(help.contains("`capabilities.extensions[].params.depends`"), "{help}");
    }

    #[test]
    fn agent_rejects_repeated_or_invalid_sbom_extension() {
        let uri = "urn:agentgateway:sbom";
        let twice = json!([{ "uri": uri }, { "uri": uri, "params": { "depends": [] } }]);
        assert_eq!(
            problems(&json!([]), &twice),
            ["/capabilities/extensions: \
              the extension urn:agentgateway:sbom is declared more than once"]
        );
        let extra = json!([{ "uri": uri, "params": { "depends": [], "licence": "x" } }]);
        assert_eq!(
            problems(&json!([]), &extra),
            ["/capabilities/extensions/0/params/licence: unknown field `licence`"]
        );
        let other = json!([{ "uri": "urn:other", "params": { "anything": 1 } }]);
        assert_eq!(problems(&json!([]), &other), Vec::<String>::new());
    }
}

//! An A2A agent: its card and, in the `urn:agentgateway:sbom` extension, what it depends on.
//!
//! The card's fields are those of A2A's `AgentCard`. Deliberately absent: fetching live cards.

use std::collections::HashSet;

use serde::{Serialize, Serializer, ser::SerializeMap};
use serde_json::{Map, Value};

use crate::{
    decode::{At, Problems},
    entity::tool::Dependency,
    name::Name,
    reference::Kind,
    version::Version,
};

/// The extension that declares an agent's dependencies.
pub const SBOM_EXTENSION: &str = "urn:agentgateway:sbom";

/// A registered A2A agent.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Agent {
    /// Its name, perhaps with a namespace: `team/name`.
    pub name: Name,
    /// Its exact version.
    pub version: Version,
    /// What it does.
    pub description: String,
    /// Where it answers.
    pub url: String,
    /// The A2A protocol version that it speaks.
    pub protocol_version: String,
    /// Media types that it takes unless a skill says otherwise.
    pub default_input_modes: Vec<String>,
    /// Media types that it gives unless a skill says otherwise.
    pub default_output_modes: Vec<String>,
    /// What it can do.
    pub skills: Vec<Skill>,
    /// Optional protocol features, and the extensions.
    pub capabilities: Capabilities,
    /// Who runs it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<Provider>,
    /// A2A security requirements, kept as they are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub security: Vec<Value>,
    /// A2A security schemes, kept as they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub security_schemes: Option<Map<String, Value>>,
    /// Open information: owner, repository …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
}

/// One thing that an agent can do.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Skill {
    /// Its id, unique within the agent.
    pub id: String,
    /// Its name for people.
    pub name: String,
    /// What it does.
    pub description: String,
    /// Words to find it by.
    pub tags: Vec<String>,
    /// Example requests.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<String>,
    /// Media types that it takes; without them the agent's defaults.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub input_modes: Vec<String>,
    /// Media types that it gives; without them the agent's defaults.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub output_modes: Vec<String>,
    /// JSON Schema of the data it takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_schema: Option<Value>,
    /// JSON Schema of the data it gives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
}

/// Optional protocol features of an agent.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Capabilities {
    /// Streams its answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub streaming: Option<bool>,
    /// Pushes task updates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub push_notifications: Option<bool>,
    /// Keeps the history of task states.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state_transition_history: Option<bool>,
    /// Protocol extensions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<Extension>,
}

/// A protocol extension of an agent.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Extension {
    /// What identifies it.
    pub uri: String,
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether clients must understand it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required: Option<bool>,
    /// Its parameters.
    #[serde(skip_serializing_if = "ExtensionParams::is_empty")]
    pub params: ExtensionParams,
}

/// The parameters of an extension.
#[derive(Debug, Clone, PartialEq)]
pub enum ExtensionParams {
    /// Of `urn:agentgateway:sbom`: what the agent depends on.
    Sbom(Vec<Dependency>),
    /// Of any other extension: kept as they are.
    Open(Map<String, Value>),
}

impl ExtensionParams {
    fn is_empty(&self) -> bool {
        matches!(self, Self::Open(map) if map.is_empty())
    }
}

impl Serialize for ExtensionParams {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Open(map) => map.serialize(serializer),
            Self::Sbom(depends) => {
                let mut map = serializer.serialize_map(Some(1))?;
                map.serialize_entry("depends", depends)?;
                map.end()
            }
        }
    }
}

/// Who runs an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Provider {
    /// The organization.
    pub organization: String,
    /// Its address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

impl Agent {
    /// What it depends on, with the JSON pointer of the list.
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

    /// Calls `found` with what it depends on and the place of the list.
    pub(crate) fn each_dependency_list(&self, found: &mut dyn FnMut(&[Dependency], At<'_>)) {
        let (capabilities, extensions) = (At::ROOT.member("capabilities"), "extensions");
        let list = capabilities.member(extensions);
        for (i, extension) in self.capabilities.extensions.iter().enumerate() {
            if let ExtensionParams::Sbom(depends) = &extension.params {
                let extension = list.index(i);
                found(depends, extension.member("params").member("depends"));
            }
        }
    }

    /// The skill with this id.
    pub fn skill(&self, id: &str) -> Option<&Skill> {
        self.skills.iter().find(|skill| skill.id == id)
    }

    pub(crate) fn read(problems: &Problems, value: &Value, at: At<'_>) -> Option<Self> {
        let fields = problems.object(value, at)?;
        let (name, version) = (fields.name(Kind::Agent, "name"), fields.version("version"));
        let description = fields.required_string("description");
        let url = fields.required_string("url");
        let protocol_version = fields.required_string("protocolVersion");
        for list in ["defaultInputModes", "defaultOutputModes", "skills"] {
            fields.require(list);
        }
        let capabilities = fields
            .require("capabilities")
            .and_then(|value| Capabilities::read(problems, value, fields.at("capabilities")));
        let (input_modes, output_modes) =
            (fields.strings("defaultInputModes"), fields.strings("defaultOutputModes"));
        let skills = fields.list("skills", |value, at| Skill::read(problems, value, at));
        report_repeated_skills(problems, &skills);
        let provider = fields
            .get("provider")
            .and_then(|value| Provider::read(problems, value, fields.at("provider")));
        let security = fields.list("security", |value, _| Some(value.clone()));
        let security_schemes = fields.open_object("securitySchemes");
        let metadata = fields.open_object("metadata");
        fields.finish();
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

fn report_repeated_skills(problems: &Problems, skills: &[Skill]) {
    let mut seen = HashSet::new();
    for (i, skill) in skills.iter().enumerate() {
        if !seen.insert(&skill.id) {
            let (list, message) =
                (At::ROOT.member("skills"), format!("the skill id `{}` is used twice", skill.id));
            let item = list.index(i);
            problems.invalid(item.member("id"), message, "give each skill an id of its own");
        }
    }
}

impl Skill {
    fn read(problems: &Problems, value: &Value, at: At<'_>) -> Option<Self> {
        let fields = problems.object(value, at)?;
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

impl Capabilities {
    fn read(problems: &Problems, value: &Value, at: At<'_>) -> Option<Self> {
        let fields = problems.object(value, at)?;
        let capabilities = Self {
            streaming: fields.optional_bool("streaming"),
            push_notifications: fields.optional_bool("pushNotifications"),
            state_transition_history: fields.optional_bool("stateTransitionHistory"),
            extensions: fields.list("extensions", |value, at| Extension::read(problems, value, at)),
        };
        let is_sbom = |extension: &&Extension| extension.uri == SBOM_EXTENSION;
        if capabilities.extensions.iter().filter(is_sbom).count() > 1 {
            let message = format!("the extension {SBOM_EXTENSION} is declared more than once");
            problems.invalid(fields.at("extensions"), message, "put all `depends` into one");
        }
        fields.finish();
        Some(capabilities)
    }
}

impl Extension {
    fn read(problems: &Problems, value: &Value, at: At<'_>) -> Option<Self> {
        let fields = problems.object(value, at)?;
        let uri = fields.required_string("uri");
        let description = fields.optional_string("description");
        let required = fields.optional_bool("required");
        let params = match (fields.get("params"), uri.as_deref()) {
            (Some(params), Some(SBOM_EXTENSION)) => {
                ExtensionParams::read_sbom(problems, params, fields.at("params"))
            }
            (None, Some(SBOM_EXTENSION)) => ExtensionParams::Sbom(Vec::new()),
            _ => ExtensionParams::Open(fields.open_object("params").unwrap_or_default()),
        };
        fields.finish();
        Some(Self { uri: uri?, description, required, params })
    }
}

impl ExtensionParams {
    fn read_sbom(problems: &Problems, value: &Value, at: At<'_>) -> Self {
        let depends = problems.object(value, at).map(|fields| {
            let depends = fields.list("depends", |v, at| Dependency::read(problems, v, at));
            fields.finish();
            depends
        });
        Self::Sbom(depends.unwrap_or_default())
    }
}

impl Provider {
    fn read(problems: &Problems, value: &Value, at: At<'_>) -> Option<Self> {
        let fields = problems.object(value, at)?;
        let organization = fields.required_string("organization");
        let url = fields.optional_string("url");
        fields.finish();
        Some(Self { organization: organization?, url })
    }
}

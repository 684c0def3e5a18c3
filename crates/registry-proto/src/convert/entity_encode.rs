//! Writes entities.

mod policy;

use registry_core::{
    Entity,
    entity::{
        Agent, Capabilities, Dependency, Exposure, Extension, ExtensionParams, Implementation,
        Provider, Provision, Schema, Server, Skill, Tool, ToolSource,
    },
};
use serde_json::{Map, Value};

use crate::v1::{self, agent_extension::Params};

type Open = Option<Map<String, Value>>;

/// An open object as JSON text.
fn open_text(map: &Open) -> Option<String> {
    map.as_ref().map(map_text)
}

fn map_text(map: &Map<String, Value>) -> String {
    // A map of strings to JSON values always serializes.
    serde_json::to_string(map).unwrap_or_default()
}

fn value_text(value: Option<&Value>) -> Option<String> {
    value.map(Value::to_string)
}

impl From<&Entity> for v1::Entity {
    fn from(entity: &Entity) -> Self {
        let kind = match entity {
            Entity::Schema(schema) => v1::entity::Kind::Schema(schema.into()),
            Entity::Server(server) => v1::entity::Kind::Server(server.into()),
            Entity::Tool(tool) => v1::entity::Kind::Tool((&**tool).into()),
            Entity::Agent(agent) => v1::entity::Kind::Agent((&**agent).into()),
            Entity::Policy(policy) => v1::entity::Kind::Policy((&**policy).into()),
        };
        Self { kind: Some(kind) }
    }
}

impl From<&Schema> for v1::Schema {
    fn from(schema: &Schema) -> Self {
        let Schema { name, version, description, schema, metadata } = schema;
        Self {
            name: name.to_string(),
            version: version.to_string(),
            description: description.clone(),
            schema: schema.to_string(),
            metadata: open_text(metadata),
        }
    }
}

impl From<&Server> for v1::Server {
    fn from(server: &Server) -> Self {
        let Server { name, version, description, provides, exposes, metadata } = server;
        let provision = |Provision { tool, version }: &Provision| v1::ToolProvision {
            tool: tool.to_string(),
            version: version.to_string(),
        };
        Self {
            name: name.to_string(),
            version: version.to_string(),
            description: description.clone(),
            provides: provides.iter().map(provision).collect(),
            exposes: exposes.iter().map(|one| v1::ServerExposure::from(*one).into()).collect(),
            metadata: open_text(metadata),
        }
    }
}

impl From<Exposure> for v1::ServerExposure {
    fn from(exposure: Exposure) -> Self {
        match exposure {
            Exposure::Prompts => Self::Prompts,
            Exposure::Resources => Self::Resources,
        }
    }
}

impl From<&Tool> for v1::Tool {
    fn from(tool: &Tool) -> Self {
        let Tool {
            name,
            version,
            title,
            description,
            implementation,
            depends,
            input_schema,
            output_schema,
            output_transform,
            annotations,
            execution,
            meta,
            metadata,
        } = tool;
        Self {
            name: name.to_string(),
            version: version.to_string(),
            title: title.clone(),
            description: description.clone(),
            implementation: Some(implementation.into()),
            depends: depends.iter().map(v1::Dependency::from).collect(),
            input_schema: value_text(input_schema.as_ref()),
            output_schema: value_text(output_schema.as_ref()),
            output_transform: value_text(output_transform.as_ref()),
            annotations: open_text(annotations),
            metadata: open_text(metadata),
            execution: open_text(execution),
            meta: open_text(meta),
        }
    }
}

impl From<&Implementation> for v1::tool::Implementation {
    fn from(implementation: &Implementation) -> Self {
        match implementation {
            Implementation::Source(source) => Self::Source(source.into()),
            Implementation::Spec(spec) => Self::Spec(spec.to_string()),
        }
    }
}

impl From<&ToolSource> for v1::ToolSource {
    fn from(source: &ToolSource) -> Self {
        let ToolSource { server, server_version, tool, defaults, hide_fields } = source;
        Self {
            server: server.to_string(),
            server_version: server_version.to_string(),
            tool: tool.clone(),
            defaults: open_text(defaults),
            hide_fields: hide_fields.clone(),
        }
    }
}

impl From<&Dependency> for v1::Dependency {
    fn from(dependency: &Dependency) -> Self {
        let Dependency { target, name, version, skill } = dependency;
        let key = v1::EntityKey {
            kind: v1::EntityKind::from(target.kind()).into(),
            name: name.to_string(),
            version: version.to_string(),
        };
        Self { key: Some(key), skill: skill.clone() }
    }
}

impl From<&Agent> for v1::Agent {
    fn from(agent: &Agent) -> Self {
        let Agent {
            name,
            version,
            description,
            url,
            protocol_version,
            default_input_modes,
            default_output_modes,
            skills,
            capabilities,
            provider,
            security,
            security_schemes,
            metadata,
        } = agent;
        Self {
            name: name.to_string(),
            version: version.to_string(),
            description: description.clone(),
            url: url.clone(),
            protocol_version: protocol_version.clone(),
            default_input_modes: default_input_modes.clone(),
            default_output_modes: default_output_modes.clone(),
            skills: skills.iter().map(v1::AgentSkill::from).collect(),
            capabilities: Some(capabilities.into()),
            provider: provider.as_ref().map(v1::AgentProvider::from),
            security: security.iter().map(Value::to_string).collect(),
            security_schemes: open_text(security_schemes),
            metadata: open_text(metadata),
        }
    }
}

impl From<&Skill> for v1::AgentSkill {
    fn from(skill: &Skill) -> Self {
        let Skill {
            id,
            name,
            description,
            tags,
            examples,
            input_modes,
            output_modes,
            input_schema,
            output_schema,
        } = skill;
        Self {
            id: id.clone(),
            name: name.clone(),
            description: description.clone(),
            tags: tags.clone(),
            examples: examples.clone(),
            input_modes: input_modes.clone(),
            output_modes: output_modes.clone(),
            input_schema: value_text(input_schema.as_ref()),
            output_schema: value_text(output_schema.as_ref()),
        }
    }
}

impl From<&Capabilities> for v1::AgentCapabilities {
    fn from(capabilities: &Capabilities) -> Self {
        let Capabilities { streaming, push_notifications, state_transition_history, extensions } =
            capabilities;
        Self {
            streaming: *streaming,
            push_notifications: *push_notifications,
            state_transition_history: *state_transition_history,
            extensions: extensions.iter().map(v1::AgentExtension::from).collect(),
        }
    }
}

impl From<&Extension> for v1::AgentExtension {
    fn from(extension: &Extension) -> Self {
        let Extension { uri, description, required, params } = extension;
        let params = match params {
            ExtensionParams::Sbom(depends) => {
                let depends = depends.iter().map(v1::Dependency::from).collect();
                Some(Params::Sbom(v1::AgentDependencies { depends }))
            }
            ExtensionParams::Open(map) if map.is_empty() => None,
            ExtensionParams::Open(map) => Some(Params::Json(map_text(map))),
        };
        Self { uri: uri.clone(), description: description.clone(), required: *required, params }
    }
}

impl From<&Provider> for v1::AgentProvider {
    fn from(Provider { organization, url }: &Provider) -> Self {
        Self { organization: organization.clone(), url: url.clone() }
    }
}

//! Reads entities. A typed message is converted to JSON, which the strict reader of the domain parses.
//!
//! Unset fields are omitted.

mod policy;

use std::{cell::RefCell, fmt};

use registry_core::{Code, Diagnostic, Document, Kind, document::parse_json, entity::Exposure};
use serde_json::{Map, Value};

pub use self::policy::{InvalidApproval, policy_approval};
use crate::v1::{self, agent_extension::Params, tool::Implementation};

/// Reads an entity, or returns all its problems with their JSON pointers. [`super::batch`] adds the index of the
/// change.
pub fn document(entity: v1::Entity) -> Result<Document, Vec<Diagnostic>> {
    let v1::Entity { kind } = entity;
    let texts = Texts::default();
    let (kind, value) = match kind.ok_or_else(unset)? {
        v1::entity::Kind::Schema(schema) => (Kind::Schema, schema_value(&texts, schema)),
        v1::entity::Kind::Server(server) => (Kind::Server, server_value(&texts, server)),
        v1::entity::Kind::Tool(tool) => (Kind::Tool, tool_value(&texts, tool)),
        v1::entity::Kind::Agent(agent) => (Kind::Agent, agent_value(&texts, agent)),
        v1::entity::Kind::Policy(policy) => (Kind::Policy, policy::value(&texts, policy)),
    };
    let parsed = Document::from_value(kind, value);
    let mut problems = texts.0.into_inner();
    match parsed {
        Ok(document) if problems.is_empty() => Ok(document),
        Ok(_) => Err(problems),
        Err(others) => {
            problems.extend(others);
            Err(problems)
        }
    }
}

/// Reads a document from JSON text.
pub fn json_document(document: &v1::JsonDocument) -> Result<Document, Vec<Diagnostic>> {
    let v1::JsonDocument { kind, json } = document;
    let invalid = |message: String, help: &str| {
        vec![Diagnostic::error(Code::DocumentInvalid, "", message).with_help(help)]
    };
    let kind = super::kind(*kind)
        .map_err(|e| invalid(e.to_string(), "set the kind next to the document"))?;
    let value = parse_json(json)
        .map_err(|e| invalid(format!("the document is {e}"), "send UTF-8 JSON text"))?;
    Document::from_value(kind, value)
}

impl From<&Document> for v1::JsonDocument {
    fn from(document: &Document) -> Self {
        let kind = v1::EntityKind::from(document.key().kind).into();
        Self { kind, json: document.bytes().clone() }
    }
}

fn unset() -> Vec<Diagnostic> {
    let message = "the entity is empty: none of schema, server, tool, agent and policy is set";
    vec![Diagnostic::error(Code::DocumentInvalid, "", message).with_help("set one of them")]
}

/// Collects fields with invalid JSON text.
#[derive(Default)]
struct Texts(RefCell<Vec<Diagnostic>>);

impl Texts {
    /// The value of a field of JSON text. Invalid text becomes an empty object, which has the right type in every
    /// such field.
    fn parse(&self, text: &str, at: fmt::Arguments<'_>) -> Value {
        parse_json(text.as_bytes()).unwrap_or_else(|e| {
            let message = format!("`{at}` is {e}");
            let found = Diagnostic::error(Code::DocumentInvalid, at.to_string(), message);
            let found = found.with_help("this field holds JSON as text; check it there");
            self.0.borrow_mut().push(found);
            Value::Object(Map::new())
        })
    }

    fn optional(&self, text: Option<String>, at: fmt::Arguments<'_>) -> Value {
        text.map_or(Value::Null, |text| self.parse(&text, at))
    }
}

fn object<const N: usize>(members: [(&str, Value); N]) -> Value {
    let is_set = |(_, value): &(&str, Value)| !value.is_null();
    let set = members.into_iter().filter(is_set);
    Value::Object(set.map(|(name, value)| (name.to_owned(), value)).collect())
}

fn list<T>(items: Vec<T>, value: impl FnMut(T) -> Value) -> Value {
    Value::Array(items.into_iter().map(value).collect())
}

fn indexed<T>(items: Vec<T>, mut value: impl FnMut(usize, T) -> Value) -> Value {
    Value::Array(items.into_iter().enumerate().map(|(i, item)| value(i, item)).collect())
}

fn schema_value(texts: &Texts, schema: v1::Schema) -> Value {
    let v1::Schema { name, version, description, schema, metadata } = schema;
    let schema = Some(schema).filter(|text| !text.is_empty());
    object([
        ("name", name.into()),
        ("version", version.into()),
        ("description", description.into()),
        ("schema", texts.optional(schema, format_args!("/schema"))),
        ("metadata", texts.optional(metadata, format_args!("/metadata"))),
    ])
}

fn server_value(texts: &Texts, server: v1::Server) -> Value {
    let v1::Server { name, version, description, provides, metadata, exposes } = server;
    object([
        ("name", name.into()),
        ("version", version.into()),
        ("description", description.into()),
        (
            "provides",
            list(provides, |v1::ToolProvision { tool, version }| {
                object([("tool", tool.into()), ("version", version.into())])
            }),
        ),
        ("exposes", list(exposes, |number| exposure_value(number).into())),
        ("metadata", texts.optional(metadata, format_args!("/metadata"))),
    ])
}

/// The text of an exposure. The reader of documents rejects the text of an unknown number.
fn exposure_value(number: i32) -> String {
    match v1::ServerExposure::try_from(number) {
        Ok(v1::ServerExposure::Prompts) => Exposure::Prompts.as_str().to_owned(),
        Ok(v1::ServerExposure::Resources) => Exposure::Resources.as_str().to_owned(),
        Ok(v1::ServerExposure::Unspecified) | Err(_) => number.to_string(),
    }
}

fn tool_value(texts: &Texts, tool: v1::Tool) -> Value {
    let v1::Tool {
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
        metadata,
        execution,
        meta,
    } = tool;
    let (source, spec) = match implementation {
        Some(Implementation::Source(source)) => (source_value(texts, source), Value::Null),
        Some(Implementation::Spec(spec)) => {
            (Value::Null, texts.parse(&spec, format_args!("/spec")))
        }
        None => (Value::Null, Value::Null),
    };
    object([
        ("name", name.into()),
        ("version", version.into()),
        ("title", title.into()),
        ("description", description.into()),
        ("source", source),
        ("spec", spec),
        ("depends", list(depends, dependency_value)),
        ("inputSchema", texts.optional(input_schema, format_args!("/inputSchema"))),
        ("outputSchema", texts.optional(output_schema, format_args!("/outputSchema"))),
        ("outputTransform", texts.optional(output_transform, format_args!("/outputTransform"))),
        ("annotations", texts.optional(annotations, format_args!("/annotations"))),
        ("execution", texts.optional(execution, format_args!("/execution"))),
        ("_meta", texts.optional(meta, format_args!("/_meta"))),
        ("metadata", texts.optional(metadata, format_args!("/metadata"))),
    ])
}

fn source_value(texts: &Texts, source: v1::ToolSource) -> Value {
    let v1::ToolSource { server, server_version, tool, defaults, hide_fields } = source;
    object([
        ("server", server.into()),
        ("serverVersion", server_version.into()),
        ("tool", tool.into()),
        ("defaults", texts.optional(defaults, format_args!("/source/defaults"))),
        ("hideFields", hide_fields.into()),
    ])
}

fn dependency_value(dependency: v1::Dependency) -> Value {
    let v1::Dependency { key, skill } = dependency;
    let v1::EntityKey { kind, name, version } = key.unwrap_or_default();
    let target = match super::filter_kind(kind) {
        Ok(kind) => kind.map(|kind| kind.as_str().to_owned()),
        Err(_) => Some(kind.to_string()),
    };
    object([
        ("type", target.into()),
        ("name", name.into()),
        ("version", version.into()),
        ("skill", skill.into()),
    ])
}

fn agent_value(texts: &Texts, agent: v1::Agent) -> Value {
    let v1::Agent {
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
    object([
        ("name", name.into()),
        ("version", version.into()),
        ("description", description.into()),
        ("url", url.into()),
        ("protocolVersion", protocol_version.into()),
        ("defaultInputModes", default_input_modes.into()),
        ("defaultOutputModes", default_output_modes.into()),
        ("skills", indexed(skills, |i, skill| skill_value(texts, i, skill))),
        ("capabilities", capabilities.map(|c| capabilities_value(texts, c)).into()),
        ("provider", provider.map(provider_value).into()),
        (
            "security",
            indexed(security, |i, text| texts.parse(&text, format_args!("/security/{i}"))),
        ),
        ("securitySchemes", texts.optional(security_schemes, format_args!("/securitySchemes"))),
        ("metadata", texts.optional(metadata, format_args!("/metadata"))),
    ])
}

fn skill_value(texts: &Texts, i: usize, skill: v1::AgentSkill) -> Value {
    let v1::AgentSkill {
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
    let input = texts.optional(input_schema, format_args!("/skills/{i}/inputSchema"));
    let output = texts.optional(output_schema, format_args!("/skills/{i}/outputSchema"));
    object([
        ("id", id.into()),
        ("name", name.into()),
        ("description", description.into()),
        ("tags", tags.into()),
        ("examples", examples.into()),
        ("inputModes", input_modes.into()),
        ("outputModes", output_modes.into()),
        ("inputSchema", input),
        ("outputSchema", output),
    ])
}

fn capabilities_value(texts: &Texts, capabilities: v1::AgentCapabilities) -> Value {
    let v1::AgentCapabilities {
        streaming,
        push_notifications,
        state_transition_history,
        extensions,
    } = capabilities;
    object([
        ("streaming", streaming.into()),
        ("pushNotifications", push_notifications.into()),
        ("stateTransitionHistory", state_transition_history.into()),
        ("extensions", indexed(extensions, |i, e| extension_value(texts, i, e))),
    ])
}

fn extension_value(texts: &Texts, i: usize, extension: v1::AgentExtension) -> Value {
    let v1::AgentExtension { uri, description, required, params } = extension;
    let params = match params {
        Some(Params::Sbom(v1::AgentDependencies { depends })) => {
            object([("depends", list(depends, dependency_value))])
        }
        Some(Params::Json(text)) => {
            texts.parse(&text, format_args!("/capabilities/extensions/{i}/params"))
        }
        None => Value::Null,
    };
    object([
        ("uri", uri.into()),
        ("description", description.into()),
        ("required", required.into()),
        ("params", params),
    ])
}

fn provider_value(v1::AgentProvider { organization, url }: v1::AgentProvider) -> Value {
    object([("organization", organization.into()), ("url", url.into())])
}

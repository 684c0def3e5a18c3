//! A tool: real or virtual (`source`) or composed (`spec`), and its dependencies.

mod execution;
mod hints;
mod meta;
mod source;

use schema_compat::pointer::Location;
use serde::Serialize;
use serde_json::{Map, Value};

use self::source::Placement;
pub use self::{
    execution::TaskSupport,
    hints::{ANNOTATIONS, Hints, ToolEffect, expected_annotation_type},
    meta::is_reserved_meta_key,
    source::ToolSource,
};
use crate::{
    decode::{OwnedFields, Problems},
    diagnostic::{Code, Diagnostic},
    kind::Kind,
    name::Name,
    open_json,
    reference::Key,
    version::Version,
};

/// A registered tool.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Tool {
    /// The name used in calls.
    pub name: Name,
    /// The exact version.
    pub version: Version,
    /// The display title; absent means the upstream's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The description for the model; absent means the upstream's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The implementation: exactly one of `source` and `spec`.
    #[serde(flatten)]
    pub implementation: Implementation,
    /// The tools and agents that a composition uses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub depends: Vec<Dependency>,
    /// JSON Schema of the arguments; absent means the upstream's.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "open_json::serialize")]
    pub input_schema: Option<Value>,
    /// JSON Schema of the structured result.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "open_json::serialize")]
    pub output_schema: Option<Value>,
    /// Projection of the upstream's result, in the composition grammar.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "open_json::serialize")]
    pub output_transform: Option<Value>,
    /// MCP tool annotations (`readOnlyHint` …); absent means the upstream's.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "open_json::serialize")]
    pub annotations: Option<Map<String, Value>>,
    /// Execution properties (MCP `Tool.execution`: `taskSupport`); absent means the upstream's.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "open_json::serialize")]
    pub execution: Option<Map<String, Value>>,
    /// Metadata of the definition (MCP `Tool._meta`), such as the interface of an MCP App; absent
    /// means the upstream's.
    #[serde(
        rename = "_meta",
        skip_serializing_if = "Option::is_none",
        serialize_with = "open_json::serialize"
    )]
    pub meta: Option<Map<String, Value>>,
    /// Open metadata: owner, tags …
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "open_json::serialize")]
    pub metadata: Option<Map<String, Value>>,
}

/// The implementation of a tool.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Implementation {
    /// One tool of an MCP server.
    Source(ToolSource),
    /// A composition; the validation rules check its grammar.
    Spec(#[serde(serialize_with = "open_json::serialize")] Value),
}

/// A dependency of a tool or an agent.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct Dependency {
    /// The kind of target.
    #[serde(rename = "type")]
    pub target: DependencyTarget,
    /// The target's name.
    pub name: Name,
    /// The target's exact version.
    pub version: Version,
    /// The agent's skill; required for agents, absent for tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skill: Option<String>,
}

/// The kind of a dependency's target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DependencyTarget {
    /// A tool.
    Tool,
    /// A skill of an agent.
    Agent,
}

impl DependencyTarget {
    /// The corresponding entity kind.
    pub fn kind(self) -> Kind {
        match self {
            Self::Tool => Kind::Tool,
            Self::Agent => Kind::Agent,
        }
    }
}

impl Dependency {
    /// The key of the target.
    pub fn key(&self) -> Key {
        Key::new(self.target.kind(), self.name.clone(), self.version.clone())
    }

    pub(crate) fn read(problems: &Problems, value: &Value, at: Location<'_>) -> Option<Self> {
        let fields = problems.object(value, at)?;
        let target = match fields.required_string("type").as_deref() {
            Some("tool") => Some(DependencyTarget::Tool),
            Some("agent") => Some(DependencyTarget::Agent),
            Some(other) => {
                let message = format!("`{other}` is not a dependency type");
                problems.invalid(fields.at("type"), message, "write \"tool\" or \"agent\"");
                None
            }
            None => None,
        };
        let name = fields.name(target.map_or(Kind::Agent, DependencyTarget::kind), "name");
        let version = fields.version("version");
        let skill = fields.optional_string("skill");
        if skill.is_some() && target == Some(DependencyTarget::Tool) {
            problems.invalid(fields.at("skill"), "a tool has no skills", "remove `skill`");
        }
        fields.finish();
        Some(Self { target: target?, name: name?, version: version?, skill })
    }
}

impl Tool {
    pub(crate) fn read(problems: &Problems, value: Value, at: Location<'_>) -> Option<Self> {
        let mut fields = problems.owned_object(value, at)?;
        let (name, version) = (fields.name(Kind::Tool, "name"), fields.version("version"));
        let (title, description) =
            (fields.optional_string("title"), fields.optional_string("description"));
        let implementation = Implementation::read(&mut fields);
        let depends = fields.list("depends", |value, at| Dependency::read(problems, value, at));
        let (input_schema, output_schema) =
            (fields.json_schema("inputSchema"), fields.json_schema("outputSchema"));
        let output_transform = fields.open_object("outputTransform").map(Value::Object);
        let annotations = fields.open_object("annotations");
        let (execution, meta) = (execution::read(&mut fields), meta::read(&mut fields));
        let metadata = fields.open_object("metadata");
        fields.finish();
        Some(Self {
            name: name?,
            version: version?,
            title,
            description,
            implementation: implementation?,
            depends,
            input_schema,
            output_schema,
            output_transform,
            annotations,
            execution,
            meta,
            metadata,
        })
    }

    /// The upstream tool, unless the tool is a composition.
    pub fn source(&self) -> Option<&ToolSource> {
        match &self.implementation {
            Implementation::Source(source) => Some(source),
            Implementation::Spec(_) => None,
        }
    }
}

impl Implementation {
    fn read(fields: &mut OwnedFields<'_>) -> Option<Self> {
        let problems = fields.problems();
        let outside = Placement::read(fields);
        match (fields.take("source"), fields.open_object("spec")) {
            (Some(source), None) => {
                ToolSource::read(problems, source, fields.at("source"), outside).map(Self::Source)
            }
            (None, Some(spec)) => {
                for name in outside.given() {
                    let message = format!("`{name}` applies only to a tool with `source`");
                    let help = "remove it; the tools of the composition have their own";
                    problems.invalid(fields.at(name), message, help);
                }
                Some(Self::Spec(Value::Object(spec)))
            }
            (source, _) => {
                let has = if source.is_some() { "both `source` and `spec`" } else { "neither" };
                let message =
                    format!("a tool needs exactly one of `source` and `spec`, but has {has}");
                let at = fields.here().to_string();
                problems.push(
                    Diagnostic::error(Code::ImplementationAmbiguous, at, message).with_help(
                        "keep `source` for an upstream tool or `spec` for a composition",
                    ),
                );
                None
            }
        }
    }
}

//! A tool: real or virtual (`source`) or composed (`spec`), and what it depends on.
//!
//! Deliberately absent: the grammar of `spec`, which has a module of its own.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::{
    decode::{At, Fields, Problems},
    diagnostic::{Code, Diagnostic},
    name::Name,
    reference::{Key, Kind},
    version::Version,
};

/// A registered tool.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Tool {
    /// Its name, as agents call it.
    pub name: Name,
    /// Its exact version.
    pub version: Version,
    /// A title for people; without one the upstream's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it does, for the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// How it is done: exactly one of `source` and `spec`.
    #[serde(flatten)]
    pub implementation: Implementation,
    /// What a composition uses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub depends: Vec<Dependency>,
    /// JSON Schema of the arguments; without one the upstream's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_schema: Option<Value>,
    /// JSON Schema of the structured result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// How the upstream's result is projected, by the composition grammar.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_transform: Option<Value>,
    /// MCP tool annotations (`readOnlyHint` …); without them the upstream's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Map<String, Value>>,
    /// Open information: owner, tags …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
}

/// How a tool is done.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Implementation {
    /// By one tool of an MCP server.
    Source(ToolSource),
    /// By a composition; its grammar is checked by the rules.
    Spec(Value),
}

/// The upstream tool behind a real or virtual tool.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolSource {
    /// The registered server.
    pub server: Name,
    /// The server's exact version.
    pub server_version: Version,
    /// The tool's name on that server.
    pub tool: String,
    /// Values for arguments that the caller leaves out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub defaults: Option<Map<String, Value>>,
    /// Arguments that callers neither see nor may send; dotted paths reach nested objects.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hide_fields: Vec<String>,
}

impl ToolSource {
    /// The server version that it points to.
    pub fn server_key(&self) -> Key {
        Key::new(Kind::Server, self.server.clone(), self.server_version.clone())
    }
}

/// One thing that a tool or an agent depends on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Dependency {
    /// Whether a tool or an agent.
    #[serde(rename = "type")]
    pub target: DependencyTarget,
    /// Its name.
    pub name: Name,
    /// Its exact version.
    pub version: Version,
    /// The agent's skill; needed for agents, absent for tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skill: Option<String>,
}

/// What may be depended on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DependencyTarget {
    /// A tool.
    Tool,
    /// A skill of an agent.
    Agent,
}

impl DependencyTarget {
    /// The kind that it stands for.
    pub fn kind(self) -> Kind {
        match self {
            Self::Tool => Kind::Tool,
            Self::Agent => Kind::Agent,
        }
    }
}

impl Dependency {
    /// The entity that is depended on.
    pub fn key(&self) -> Key {
        Key::new(self.target.kind(), self.name.clone(), self.version.clone())
    }

    pub(crate) fn read(problems: &Problems, value: &Value, at: At<'_>) -> Option<Self> {
        let fields = problems.object(value, at)?;
        let target = match fields.required_string("type").as_deref() {
            Some("tool") => Some(DependencyTarget::Tool),
            Some("agent") => Some(DependencyTarget::Agent),
            Some(other) => {
                let message = format!("`{other}` is not a type of dependency");
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
    pub(crate) fn read(problems: &Problems, value: &Value, at: At<'_>) -> Option<Self> {
        let fields = problems.object(value, at)?;
        let (name, version) = (fields.name(Kind::Tool, "name"), fields.version("version"));
        let (title, description) =
            (fields.optional_string("title"), fields.optional_string("description"));
        let implementation = Implementation::read(&fields);
        let depends = fields.list("depends", |value, at| Dependency::read(problems, value, at));
        let (input_schema, output_schema) =
            (fields.json_schema("inputSchema"), fields.json_schema("outputSchema"));
        let output_transform = fields.open_object("outputTransform").map(Value::Object);
        let annotations = fields.open_object("annotations");
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
            metadata,
        })
    }

    /// The upstream behind it, unless it is composed.
    pub fn source(&self) -> Option<&ToolSource> {
        match &self.implementation {
            Implementation::Source(source) => Some(source),
            Implementation::Spec(_) => None,
        }
    }
}

impl Implementation {
    fn read<'a>(fields: &'a Fields<'a>) -> Option<Self> {
        let problems = fields.problems();
        let beside = Placement { defaults: fields.open_object("defaults"), hidden: hidden(fields) };
        match (fields.get("source"), fields.open_object("spec")) {
            (Some(source), None) => {
                ToolSource::read(problems, source, fields.at("source"), beside).map(Self::Source)
            }
            (None, Some(spec)) => Some(Self::Spec(Value::Object(spec))),
            (source, _) => {
                let has = if source.is_some() { "both `source` and `spec`" } else { "neither" };
                let message =
                    format!("a tool needs exactly one of `source` and `spec`, it has {has}");
                let at = fields.here().to_string();
                problems
                    .push(Diagnostic::error(Code::ImplementationAmbiguous, at, message).with_help(
                        "keep `source` for one upstream tool, `spec` for a composition",
                    ));
                None
            }
        }
    }
}

/// `defaults` and `hideFields` where older files put them: beside `source`.
struct Placement {
    defaults: Option<Map<String, Value>>,
    hidden: Option<Vec<String>>,
}

fn hidden<'a>(fields: &'a Fields<'a>) -> Option<Vec<String>> {
    fields.get("hideFields").map(|_| fields.strings("hideFields"))
}

impl ToolSource {
    fn read(problems: &Problems, value: &Value, at: At<'_>, beside: Placement) -> Option<Self> {
        let fields = problems.object(value, at)?;
        let server = Self::read_server(&fields);
        let server_version = fields.version("serverVersion");
        let tool = fields.required_string("tool");
        let inside =
            Placement { defaults: fields.open_object("defaults"), hidden: hidden(&fields) };
        let defaults = one_of(problems, fields.at("defaults"), inside.defaults, beside.defaults);
        let hidden = one_of(problems, fields.at("hideFields"), inside.hidden, beside.hidden);
        fields.finish();
        Some(Self {
            server: server?,
            server_version: server_version?,
            tool: tool?,
            defaults: defaults.filter(|map| !map.is_empty()),
            hide_fields: hidden.unwrap_or_default(),
        })
    }
}

impl ToolSource {
    /// The server's name: `server`, or `target` as older files write it.
    fn read_server<'a>(fields: &'a Fields<'a>) -> Option<Name> {
        let Some(target) = fields.get("target") else {
            return fields.name(Kind::Server, "server");
        };
        let target = fields.problems().name(Kind::Server, target, fields.at("target"));
        if fields.get("server").is_none() {
            return target;
        }
        let server = fields.name(Kind::Server, "server");
        if let (Some(server), Some(target)) = (&server, &target)
            && server != target
        {
            let message = format!("`target` says `{target}`, but `server` says `{server}`");
            fields.problems().invalid(fields.at("target"), message, "keep `server` only");
        }
        server
    }
}

/// Takes the value from inside `source` or from beside it; both must agree.
fn one_of<T: PartialEq>(
    problems: &Problems,
    at: At<'_>,
    inside: Option<T>,
    beside: Option<T>,
) -> Option<T> {
    if let (Some(inside), Some(beside)) = (&inside, &beside)
        && inside != beside
    {
        let message = "given inside `source` and beside it, with different values";
        problems.invalid(at, message, "keep the one inside `source`");
    }
    inside.or(beside)
}

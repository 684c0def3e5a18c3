//! Operations of a step: a call of a tool or of an agent's skill, or a nested pattern.

use std::fmt;

use schema_compat::pointer::Location;
use serde_json::Value;

use super::{Spec, read::Reader};
use crate::{
    entity::{Dependency, DependencyTarget},
    kind::Kind,
    name::Name,
};

/// One operation of a composition.
#[derive(Debug, Clone, PartialEq)]
pub enum Operation {
    /// A call: `{ tool: { name } }`, `{ tool: "name" }`, or `{ agent: { name, skill } }`.
    Call(Target),
    /// A nested pattern: `{ pattern: SPEC }`.
    Pattern(Box<Spec>),
}

/// The target of a call.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// A tool.
    Tool(Name),
    /// A skill of an agent.
    Agent {
        /// The agent's name.
        name: Name,
        /// The skill's id.
        skill: String,
    },
}

impl Target {
    /// The entry in `depends` that determines the version of this target.
    pub fn declared_in<'d>(&self, depends: &'d [Dependency]) -> Option<&'d Dependency> {
        depends.iter().find(|entry| match self {
            Self::Tool(name) => entry.target == DependencyTarget::Tool && entry.name == *name,
            Self::Agent { name, skill } => {
                entry.target == DependencyTarget::Agent
                    && entry.name == *name
                    && entry.skill.as_ref() == Some(skill)
            }
        })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tool(name) => name.fmt(f),
            Self::Agent { name, skill } => write!(f, "{name}/{skill}"),
        }
    }
}

/// A call in a composition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Use {
    /// JSON pointer inside of the spec.
    pub pointer: String,
    /// The called target.
    pub target: Target,
}

/// The remedy for a version in a call.
const VERSION_IN_DEPENDS: [(&str, &str); 1] =
    [("version", "remove the version, which the entry in `depends` selects")];

impl Operation {
    pub(super) fn read(reader: &Reader, value: &Value, at: Location<'_>) -> Option<Self> {
        let (name, body) = reader.variant(value, at, "operation", &["tool", "agent", "pattern"])?;
        Self::read_body(reader, name, body, at.member(name))
    }

    /// Reads the value of `tool`, `agent` or `pattern`.
    pub(super) fn read_body(
        reader: &Reader,
        name: &str,
        body: &Value,
        at: Location<'_>,
    ) -> Option<Self> {
        match (name, body) {
            ("tool", Value::String(_)) => read_tool(reader, body, (at, at)).map(Self::Call),
            ("tool", _) => {
                let fields = reader.problems.object(body, at)?;
                let name = fields.require("name");
                let tool = name.and_then(|name| read_tool(reader, name, (fields.at("name"), at)));
                fields.finish_with(&VERSION_IN_DEPENDS);
                tool.map(Self::Call)
            }
            ("agent", _) => {
                let fields = reader.problems.object(body, at)?;
                let name = fields.name(Kind::Agent, "name");
                let skill = fields.required_string("skill");
                fields.finish_with(&VERSION_IN_DEPENDS);
                let (name, skill) = (name?, skill?);
                let agent = Target::Agent { name, skill };
                reader.calls(at, agent.clone());
                Some(Self::Call(agent))
            }
            _ => Spec::read(reader, body, at).map(|spec| Self::Pattern(Box::new(spec))),
        }
    }
}

/// Reads the name of a called tool. The locations are those of the name and the call.
pub(super) fn read_tool(
    reader: &Reader,
    value: &Value,
    (name_at, call_at): (Location<'_>, Location<'_>),
) -> Option<Target> {
    let tool = Target::Tool(reader.problems.name(Kind::Tool, value, name_at)?);
    reader.calls(call_at, tool.clone());
    Some(tool)
}

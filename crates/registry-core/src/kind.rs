//! Kinds of entities.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::visible::escape_invisible;

/// The kinds of entities in the order of their dependencies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A reusable JSON Schema.
    Schema,
    /// An MCP server and the tools that it provides.
    Server,
    /// A real, virtual or composed tool.
    Tool,
    /// An A2A agent and its dependencies.
    Agent,
    /// Requirements for calls.
    Policy,
}

impl Kind {
    /// All kinds in order.
    pub const ALL: [Self; 5] = [Self::Schema, Self::Server, Self::Tool, Self::Agent, Self::Policy];

    /// The kind in lower case: `tool`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Schema => "schema",
            Self::Server => "server",
            Self::Tool => "tool",
            Self::Agent => "agent",
            Self::Policy => "policy",
        }
    }

    /// The plural in lower case: `tools`.
    pub fn plural(self) -> &'static str {
        match self {
            Self::Schema => "schemas",
            Self::Server => "servers",
            Self::Tool => "tools",
            Self::Agent => "agents",
            Self::Policy => "policies",
        }
    }

    /// Whether names of this kind may have a `namespace/` prefix.
    pub fn has_namespaces(self) -> bool {
        matches!(self, Self::Server | Self::Agent)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The text is not a kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a kind; the kinds are schema, server, tool, agent and policy")]
pub struct InvalidKind(String);

impl FromStr for Kind {
    type Err = InvalidKind;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.as_str() == text || kind.plural() == text)
            .ok_or_else(|| InvalidKind(escape_invisible(text)))
    }
}

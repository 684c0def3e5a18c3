//! An MCP server and the tool versions that it provides.

use schema_compat::pointer::Location;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::{decode::Problems, kind::Kind, name::Name, open_json, version::Version};

/// A registered MCP server.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Server {
    /// The name, optionally with a namespace: `team/name`.
    pub name: Name,
    /// The exact version.
    pub version: Version,
    /// The description for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The tool versions that the server provides.
    pub provides: Vec<Provision>,
    /// Further features that gateways expose to callers with access to one of its tools.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub exposes: Vec<Exposure>,
    /// Open metadata: owner, repository …
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "open_json::serialize")]
    pub metadata: Option<Map<String, Value>>,
}

/// A feature of a server other than tools, whose items are not registered individually.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Exposure {
    /// Prompts.
    Prompts,
    /// Resources and resource templates.
    Resources,
}

impl Exposure {
    /// All features.
    pub const ALL: [Self; 2] = [Self::Prompts, Self::Resources];

    /// The name in documents.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Prompts => "prompts",
            Self::Resources => "resources",
        }
    }

    fn read(problems: &Problems, value: &Value, at: Location<'_>) -> Option<Self> {
        let text = problems.string(value, at)?;
        let found = Self::ALL.into_iter().find(|e| e.as_str() == text);
        if found.is_none() {
            let message = format!("`{text}` is not a feature that a server can expose");
            problems.invalid(at, message, "write \"prompts\" or \"resources\"");
        }
        found
    }
}

/// A tool version that a server provides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Provision {
    /// The tool's registered name.
    pub tool: Name,
    /// The tool's exact version.
    pub version: Version,
}

impl Server {
    pub(crate) fn read(problems: &Problems, value: Value, at: Location<'_>) -> Option<Self> {
        let mut fields = problems.owned_object(value, at)?;
        let (name, version) = (fields.name(Kind::Server, "name"), fields.version("version"));
        let description = fields.optional_string("description");
        fields.require("provides");
        let provides = fields.list("provides", |value, at| Provision::read(problems, value, at));
        let exposes = fields.list("exposes", |value, at| Exposure::read(problems, value, at));
        let metadata = fields.open_object("metadata");
        fields.finish();
        Some(Self { name: name?, version: version?, description, provides, exposes, metadata })
    }
}

impl Provision {
    fn read(problems: &Problems, value: &Value, at: Location<'_>) -> Option<Self> {
        let fields = problems.object(value, at)?;
        let (tool, version) = (fields.name(Kind::Tool, "tool"), fields.version("version"));
        fields.finish();
        Some(Self { tool: tool?, version: version? })
    }
}

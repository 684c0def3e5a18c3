//! An MCP server and the tool versions that it provides.

use schema_compat::pointer::At;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::{decode::Problems, kind::Kind, name::Name, version::Version};

/// A registered MCP server.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Server {
    /// Its name, perhaps with a namespace: `team/name`.
    pub name: Name,
    /// Its exact version.
    pub version: Version,
    /// What it is for, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The tool versions that it provides.
    pub provides: Vec<Provision>,
    /// What else of it gateways pass on to callers who may use one of its tools.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub exposes: Vec<Exposure>,
    /// Open information: owner, repository …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
}

/// What a server has besides tools, and what is not registered one by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Exposure {
    /// Its prompts.
    Prompts,
    /// Its resources and resource templates.
    Resources,
}

impl Exposure {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Prompts, Self::Resources];

    /// The name in documents.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Prompts => "prompts",
            Self::Resources => "resources",
        }
    }

    fn read(problems: &Problems, value: &Value, at: At<'_>) -> Option<Self> {
        let text = problems.string(value, at)?;
        let found = Self::ALL.into_iter().find(|e| e.as_str() == text);
        if found.is_none() {
            let message = format!("`{text}` is nothing that a server exposes");
            problems.invalid(at, message, "write \"prompts\" or \"resources\"");
        }
        found
    }
}

/// One tool version that a server provides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Provision {
    /// The tool's registered name.
    pub tool: Name,
    /// The tool's exact version.
    pub version: Version,
}

impl Server {
    pub(crate) fn read(problems: &Problems, value: &Value, at: At<'_>) -> Option<Self> {
        let fields = problems.object(value, at)?;
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
    fn read(problems: &Problems, value: &Value, at: At<'_>) -> Option<Self> {
        let fields = problems.object(value, at)?;
        let (tool, version) = (fields.name(Kind::Tool, "tool"), fields.version("version"));
        fields.finish();
        Some(Self { tool: tool?, version: version? })
    }
}

//! The answer of `agent::help`.

use registry_core::media_type::essence;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::media::Modality;

/// A description of an agent.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Help {
    /// How the agent is called.
    #[serde(rename = "type")]
    pub kind: AgentType,
    /// The description for people and models.
    #[serde(default)]
    pub description: String,
    /// The version.
    #[serde(default)]
    pub version: String,
    /// The tools or skills that the caller may use.
    #[serde(default)]
    pub methods: Vec<Method>,
    /// The kinds of values that the agent accepts.
    #[serde(default)]
    pub modalities: Vec<Modality>,
    /// The modules that the agent supports.
    #[serde(default)]
    pub mcp: Modules,
}

/// How an agent is called. The gateway sends no `stdio`, because its child processes are servers of
/// MCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AgentType {
    /// A child process with the generic `input`.
    Stdio,
    /// An agent of A2A, or a data agent.
    Http,
    /// A server of MCP over any transport.
    Mcp,
}

impl AgentType {
    /// The value of `type`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stdio => "stdio",
            Self::Http => "http",
            Self::Mcp => "mcp",
        }
    }
}

/// A tool or a skill.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Method {
    /// The name after `agent::`.
    pub name: String,
    /// The description for people and models.
    #[serde(default)]
    pub description: String,
    /// The JSON Schema of the arguments.
    #[serde(rename = "inputSchema", default, skip_serializing_if = "Option::is_none")]
    pub input_schema: Option<Box<RawValue>>,
}

/// The modules of an agent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[expect(clippy::struct_excessive_bools, reason = "the members of the specification")]
pub struct Modules {
    /// `resources.list` and `resources.get`.
    pub resources: bool,
    /// `prompts.list` and `prompts.get`.
    pub prompts: bool,
    /// `tools.list` and `tools.call`.
    pub tools: bool,
    /// `sampling.start` and `sampling.step`.
    pub sampling: bool,
}

/// An item of `resources.list`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resource {
    /// The URI.
    pub id: String,
    /// The title, else the name.
    pub title: String,
    /// The subtype of the media type, such as `pdf`; `file` if it is unknown.
    #[serde(rename = "type")]
    pub kind: String,
}

impl Resource {
    /// An item with a media type of MCP.
    pub fn new(uri: &str, title: &str, media_type: Option<&str>) -> Self {
        let subtype = media_type.and_then(|text| essence(text).split_once('/'));
        let subtype = subtype.map(|(_, kind)| kind);
        let kind = subtype.filter(|kind| !kind.is_empty()).unwrap_or("file");
        Self { id: uri.to_owned(), title: title.to_owned(), kind: kind.to_owned() }
    }
}

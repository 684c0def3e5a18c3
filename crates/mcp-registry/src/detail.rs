//! The document of a server (`server.json`).

use registry_core::version::Version;
use serde::Serialize;
use serde_json::{Map, Value};

/// Maximum length of the reason of a status in characters.
pub const REASON_CHARACTERS: usize = 500;
/// The JSON Schema of all served documents.
pub const SCHEMA: &str =
    "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json";
/// The member of `_meta` in responses for data that the API defines.
pub(super) const OFFICIAL_META: &str = "io.modelcontextprotocol.registry/official";

/// A `server.json`: the description of an MCP server for its users.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ServerDetail {
    /// The name: `namespace/name`.
    pub name: String,
    /// The description, in 1 to 100 characters.
    pub description: String,
    /// The exact version.
    pub version: Version,
    /// All other validated members: title, repository, packages, remotes …
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

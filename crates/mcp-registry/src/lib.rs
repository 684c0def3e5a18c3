//! The MCP registry API: its documents (`server.json`), their conversion to server entities, and
//! paged lists.
//!
//! A `server.json` has a name, a version and a description like an entity. All other members are
//! stored in the entity's metadata under
//! [`METADATA_KEY`](registry_core::server_json::METADATA_KEY), so that an imported document is
//! served unchanged.

mod convert;
mod listing;
mod older;
mod read;
mod response;
mod served;

use registry_core::version::Version;
use serde::Serialize;
use serde_json::{Map, Value};

pub use listing::{Entry, Filter, Listing, Page, Place};
pub use read::{Found, Reading, document, find, imported, more_pages};
pub use response::{InvalidStatus, ServerList, ServerResponse, Status, VersionsUpdated};
pub use served::{InvalidNamespace, Namespace};

/// Maximum length of the reason of a status in characters.
pub const REASON_CHARACTERS: usize = 500;
/// The JSON Schema of all served documents.
pub const SCHEMA: &str =
    "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json";
/// The member of `_meta` in responses for data that the API defines.
const OFFICIAL_META: &str = "io.modelcontextprotocol.registry/official";

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

//! MCP servers as the MCP registry API shows them: its documents (`server.json`), what of them our
//! server entities keep, and the lists that clients page through.
//!
//! A `server.json` has a name, a version and a description, as an entity has; everything else is
//! kept in the entity's metadata under [`METADATA_KEY`](registry_core::server_json::METADATA_KEY), so that what is imported is served again as
//! it came.

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

/// Longest reason of a status, in characters.
pub const REASON_CHARACTERS: usize = 500;
/// The schema by which everything that is served is valid.
pub const SCHEMA: &str =
    "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json";
/// The member of an answer's `_meta` in which the API says what a registry knows of a server.
const OFFICIAL_META: &str = "io.modelcontextprotocol.registry/official";

/// A `server.json`: how an MCP server is described to those who want to run or call it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ServerDetail {
    /// `namespace/name`.
    pub name: String,
    /// What it does, in 1 to 100 characters.
    pub description: String,
    /// Its exact version.
    pub version: Version,
    /// Everything else, checked: title, repository, packages, remotes …
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

//! The MCP registry API: its documents (`server.json`), their conversion to server entities, and
//! paged lists.
//!
//! A `server.json` has a name, a version and a description like an entity. All other members are
//! stored in the entity's metadata under
//! [`METADATA_KEY`](registry_core::server_json::METADATA_KEY), so that an imported document is
//! served unchanged.

mod convert;
mod detail;
mod legacy;
mod listing;
mod namespace;
mod read;
mod response;

pub use detail::{REASON_CHARACTERS, SCHEMA, ServerDetail};
pub use listing::{Cursor, Entry, Filter, Listing, Page};
pub use namespace::{InvalidNamespace, Namespace};
pub use read::{LocatedDocument, Reading, document, find, imported, more_pages};
pub use response::{InvalidStatus, ServerList, ServerResponse, Status, VersionsUpdated};

//! Imports live servers, agent cards and older files as registry-v2 documents for review, with a
//! list of the repairs that were made or are needed.
//!
//! All input is untrusted: nothing here panics, and input that cannot be kept is dropped and
//! reported.

mod a2a;
mod draft;
mod lenient;
mod mcp;
pub mod mcp_servers;
mod names;
mod origins;
mod remedy;
mod repair;
mod screening;
mod shared_schemas;

pub use self::a2a::{
    AgentImportOptions, CardOrigin, Provenance, ReceivedCard, import_agent, live_agent,
};
pub use draft::Draft;
pub use lenient::import_registry_file;
pub use mcp::{Naming, ServerImportOptions, import_server, invalid_member, public_remote};
pub use remedy::remedy;
pub use repair::{Additions, Imported, Repair, RepairedBy, Repairs, UnlistedRepairs};

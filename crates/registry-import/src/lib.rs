//! Imports live servers, agent cards and older files as registry-v2 documents for review, with a
//! list of the repairs that were made or are needed.
//!
//! All input is untrusted: nothing here panics, and input that cannot be kept is dropped and
//! reported.

mod a2a;
mod draft;
mod factor;
mod loose;
mod mcp;
pub mod mcp_servers;
mod names;
mod origins;
mod remedy;
mod repair;
mod wording;

pub use a2a::{CardWishes, agent};
pub use draft::Draft;
pub use loose::registry_file;
pub use mcp::{Naming, Wishes, invalid_member, public_remote, server};
pub use remedy::remedy;
pub use repair::{By, Imported, Repair, Repairs, Unlisted};

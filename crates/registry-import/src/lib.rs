//! Getting things in: what live servers, agent cards and old files say, as registry-v2 documents
//! that a person can review, with every repair that was made or is still to be made.
//!
//! All of it is bad input until proven otherwise: nothing here panics, and what cannot be kept is
//! left out and said.

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

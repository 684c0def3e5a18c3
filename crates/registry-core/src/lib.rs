//! The registry's domain: documents, the commit log and its hash chain, the catalog that folds the
//! log, and the rules that validate changes.
//!
//! Everything here is a pure function of its arguments, without I/O, async code, clocks, randomness
//! or wire formats. The server, the gateway and the command line share it.

/// Lets `rules::testing`, which `registry-fixtures` also compiles, refer to this crate by name.
#[cfg(test)]
extern crate self as registry_core;

pub mod align;
pub mod amount;
pub mod attestation;
pub mod blame;
pub mod catalog;
pub mod chain;
pub mod checkpoint;
pub mod commit;
pub mod compatibility;
pub mod conflict;
pub mod cycles;
pub mod decode;
pub mod diagnostic;
pub mod document;
pub mod duration;
mod ed25519;
pub mod edges;
pub mod entity;
pub mod expiry;
pub mod follower;
pub mod graph;
mod json_text;
pub mod kind;
pub mod lifecycle;
pub mod limits;
pub mod live;
pub mod media_type;
pub mod merkle;
pub mod name;
mod open_json;
pub mod parallel;
pub mod point_in_time;
pub mod policies;
pub mod proof;
pub mod prune;
pub mod published_schemas;
pub mod reference;
pub mod registry_file;
pub mod resolve;
mod rewrite;
pub mod rules;
pub mod schema_inline;
pub mod scope;
pub mod scoped_catalog;
pub mod secret;
pub mod server_json;
pub mod setting;
pub mod socket_address;
pub mod spec;
mod tags;
pub mod text;
pub mod timestamp;
pub mod tool_schema;
pub mod version;
pub mod visible;

pub use amount::{Amount, AmountError};
pub use attestation::Attestation;
pub use catalog::{Catalog, Record};
pub use chain::{ChainHash, RegistryId, Revision};
pub use checkpoint::Checkpoint;
pub use commit::{Action, Change, Commit, Origin, SealedCommit};
pub use diagnostic::{Code, Diagnostic, Severity};
pub use document::{Digest, Document};
pub use duration::{InvalidDuration, parse_duration, parse_positive_duration};
pub use entity::Entity;
pub use kind::Kind;
pub use lifecycle::{Lifecycle, LifecycleState, Notice};
pub use name::Name;
pub use point_in_time::PointInTime;
pub use published_schemas::PublishedSchema;
pub use reference::{Key, SchemaRef};
pub use registry_file::RegistryFile;
pub use schema_compat::suggest;
pub use scope::Scope;
pub use secret::Secret;
pub use setting::{InvalidSelector, Selector, Setting, SettingChange, Settings};
pub use socket_address::parse_socket_address;
pub use spec::Spec;
pub use timestamp::{Date, Timestamp};
pub use version::Version;

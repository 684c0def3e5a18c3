//! The registry's domain: documents, the commit log and its hash chain, the catalog that folds
//! the log, and the rules that decide what may enter it.
//!
//! Deliberately absent: IO, async, clocks, randomness and wire formats. Everything here is a pure
//! function of its arguments, so that the server, the gateway and the command line share it.

pub mod catalog;
pub mod commit;
pub mod conflict;
pub mod contract;
pub(crate) mod decode;
pub mod diagnostic;
pub mod document;
pub mod entity;
pub mod graph;
pub mod import;
pub mod json_schema;
pub(crate) mod json_text;
pub mod limits;
pub mod name;
pub mod parallel;
pub mod reference;
pub mod registry_file;
pub mod rules;
pub mod schema_compile;
pub mod schema_inline;
pub mod scope;
pub mod spec;
pub mod timestamp;
pub mod version;

pub use catalog::{Catalog, Lifecycle, LifecycleState, Record};
pub use commit::{Action, ChainHash, Change, Commit, RegistryId, Revision, SealedCommit};
pub use diagnostic::{Code, Diagnostic, Severity};
pub use document::{Digest, Document};
pub use entity::Entity;
pub use name::Name;
pub use reference::{Key, Kind, SchemaRef};
pub use registry_file::RegistryFile;
pub use scope::Scope;
pub use spec::Spec;
pub use timestamp::Timestamp;
pub use version::Version;

//! From the wire to the domain and back. Decoding is strict: every field of a message is looked
//! at, and what cannot be read is refused with an error that names the field.
//!
//! An entity is decoded by way of its JSON, so that gRPC, files and the store share one reader
//! ([`registry_core::Document::parse`]) and one wording of what is wrong. What is proven by a
//! digest (snapshots, deltas, exported records) is read from its canonical bytes and never from
//! the typed form.

mod at;
mod cache_state;
mod change;
mod diagnostic;
mod entity;
mod entity_encode;
mod graph;
mod history;
mod key;
mod lifecycle;
mod nack;
mod record;
mod scope;
mod setting;
mod snapshot;
mod step;
mod sync;
mod time;

pub use at::{InvalidAt, at};
pub use cache_state::{cache_state, cache_state_fields};
pub use change::{InvalidChange, batch, plan};
pub use diagnostic::{InvalidDiagnostic, VALIDATION_FAILURE_URL, diagnostics, validation_failure};
pub use entity::document;
pub use graph::{
    InvalidWireRequirement, affected, compared, edge, node, requirement, resolved, unresolved,
};
pub use history::commit;
pub use key::{InvalidEntityKey, InvalidKind, filter_kind, kind};
pub use lifecycle::{InvalidLifecycle, InvalidNotice, InvalidState, filter_states, state};
pub use nack::InvalidNack;
pub use record::{InvalidRecord, outline_of, record_of, record_with_document};
pub use scope::scope;
pub use setting::{InvalidSetting, setting_state, settings};
pub use snapshot::{InvalidDigest, InvalidSnapshotEntity, digest};
pub use step::{InvalidStep, PartStep, part_step};
pub use sync::{InvalidDelta, InvalidPosition, chain_hash, sealed_commit};
pub use time::{InvalidTime, read_timestamp, timestamp};

#[cfg(test)]
mod tests;

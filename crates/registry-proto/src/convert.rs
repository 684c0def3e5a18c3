//! Conversions between the messages and the domain. Decoding is strict: every field is checked, and errors name
//! the field.
//!
//! Entities are decoded as JSON, so that gRPC, files and the store share one reader
//! ([`registry_core::Document::parse`]) and its findings. Documents with digests (snapshots, deltas, exported
//! records) are read from their canonical bytes, never from the typed message.

mod approval;
mod authentication;
mod cache_state;
mod change;
mod diagnostic;
mod entity;
mod entity_encode;
mod graph;
mod history;
mod key;
mod ledger;
mod lifecycle;
mod nack;
mod point_in_time;
mod record;
mod scope;
mod scope_delta;
mod setting;
mod snapshot;
mod sync;
mod time;
mod usage;

pub use self::approval::{approval_account, approval_state, approved_call, read_approval_state};
pub use self::ledger::{
    InvalidLedgerMessage, LedgerProblem, MAX_REPORTED, budget_key, epoch, read_answer, read_recall,
    read_report, write_answer, write_recall, write_report,
};
pub use authentication::{authentication, authentication_text};
pub use cache_state::{cache_state, cache_state_fields};
pub use change::{InvalidBatch, InvalidChange, Precondition, batch, plan, precondition};
pub use diagnostic::{InvalidDiagnostic, VALIDATION_FAILURE_URL, diagnostics, validation_failure};
pub use entity::{InvalidApproval, document, json_document, policy_approval};
pub use graph::{
    InvalidWireRequirement, MAX_PATH_COUNT, affected, compared, edge, node, requirement, resolved,
    selecting_policy, unresolved,
};
pub use history::commit;
pub use key::{InvalidEntityKey, InvalidKind, filter_kind, kind, selector};
pub use lifecycle::{InvalidLifecycle, InvalidNotice, InvalidState, filter_states, state};
pub use nack::InvalidNack;
pub use point_in_time::{InvalidPointInTime, point_in_time};
pub use record::{InvalidRecord, outline_of, record_of, record_with_document};
pub use scope::scope;
pub use scope_delta::{InvalidScopeDelta, VerifiedScopeDelta, verify_scope_delta};
pub use setting::{InvalidSetting, compatibility_mode, setting_state, settings};
pub use snapshot::InvalidSnapshotEntity;
pub use sync::{InvalidDelta, InvalidPosition, chain_hash, sealed_commit};
pub use time::{InvalidTime, LONGEST_DURATION, duration, read_duration, read_timestamp, timestamp};
pub use usage::{ReceivedUsage, read_usage_report, write_usage_report};

#[cfg(test)]
mod tests;

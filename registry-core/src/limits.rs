//! Every bound on what an outsider may send, in one place.
//!
//! Deliberately absent: limits of a transport (message sizes, deadlines); those belong to the
//! program that owns the socket.

/// Largest canonical document, in bytes.
pub const DOCUMENT_BYTES: usize = 256 * 1024;
/// Deepest nesting of objects and arrays in a document.
pub const DOCUMENT_DEPTH: usize = 64;
/// Most changes in one commit.
pub const BATCH_CHANGES: usize = 5_000;
/// Most entries in a list of a document (`provides`, `depends`, `skills` …).
pub const LIST_ITEMS: usize = 1_000;
/// Longest free text in a document's own fields (descriptions, titles), in bytes.
pub const TEXT_BYTES: usize = 8 * 1024;
/// Longest commit message, in bytes.
pub const MESSAGE_BYTES: usize = 4 * 1024;
/// Longest author, in bytes.
pub const AUTHOR_BYTES: usize = 256;
/// Longest request id, in bytes.
pub const REQUEST_ID_BYTES: usize = 128;
/// Most nested patterns in a composition.
pub const SPEC_DEPTH: usize = 16;
/// Most steps and targets in a composition, all levels together.
pub const SPEC_STEPS: usize = 256;
/// Largest integer that every JSON reader represents exactly (RFC 8785 section 3.2.2.3).
pub const SAFE_INTEGER: i64 = 1 << 53;

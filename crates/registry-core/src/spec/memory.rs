//! Patterns that remember calls: cache and idempotent.

use schema_compat::pointer::At;
use serde_json::Value;

use super::{
    Operation, Path, Predicate,
    read::{Reader, SECONDS},
};

/// Remembers successes for a while.
#[derive(Debug, Clone, PartialEq)]
pub struct Cache {
    /// JSON pointer inside of the spec: what it remembers is its own.
    pub pointer: String,
    /// What is remembered.
    pub inner: Operation,
    /// Which parts of the input make the key, beside the caller's scope.
    pub key_paths: Vec<Path>,
    /// For how long.
    pub ttl_seconds: u64,
    /// How much longer a stale answer may be served while it is renewed.
    pub stale_while_revalidate_seconds: Option<u64>,
    /// Which results; without it all successes.
    pub cache_if: Option<Predicate>,
}

/// Not twice with the same key, also while the first is still running.
#[derive(Debug, Clone, PartialEq)]
pub struct Idempotent {
    /// JSON pointer inside of the spec: its keys are its own.
    pub pointer: String,
    /// What must not happen twice.
    pub inner: Operation,
    /// Which parts of the input make the key.
    pub key_paths: Vec<Path>,
    /// For how long a key is known.
    pub ttl_seconds: Option<u64>,
    /// What a duplicate gets.
    pub on_duplicate: OnDuplicate,
}

/// What a duplicate gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnDuplicate {
    /// The first result.
    Cached,
    /// Nothing.
    Skip,
    /// An error.
    Error,
}

impl Cache {
    pub(super) fn read(reader: &Reader, value: &Value, at: At<'_>) -> Option<Self> {
        let fields = reader.problems.object(value, at)?;
        let inner = reader.operation(&fields, "inner");
        let key_paths = reader.paths(&fields, "keyPaths");
        let ttl_seconds = reader.required_number(&fields, "ttlSeconds", SECONDS);
        let stale_while_revalidate_seconds =
            reader.number(&fields, "staleWhileRevalidateSeconds", SECONDS);
        let cache_if = reader.optional_predicate(&fields, "cacheIf");
        fields.finish();
        Some(Self {
            pointer: at.to_string(),
            inner: inner?,
            key_paths,
            ttl_seconds: ttl_seconds?,
            stale_while_revalidate_seconds,
            cache_if,
        })
    }
}

impl Idempotent {
    pub(super) fn read(reader: &Reader, value: &Value, at: At<'_>) -> Option<Self> {
        let fields = reader.problems.object(value, at)?;
        let inner = reader.operation(&fields, "inner");
        let key_paths = reader.paths(&fields, "keyPaths");
        let ttl_seconds = reader.number(&fields, "ttlSeconds", SECONDS);
        let on_duplicate = fields
            .require("onDuplicate")
            .and_then(|value| OnDuplicate::read(reader, value, fields.at("onDuplicate")));
        fields.finish();
        let pointer = at.to_string();
        Some(Self { pointer, inner: inner?, key_paths, ttl_seconds, on_duplicate: on_duplicate? })
    }
}

impl OnDuplicate {
    fn read(reader: &Reader, value: &Value, at: At<'_>) -> Option<Self> {
        match value.as_str() {
            Some("cached") => Some(Self::Cached),
            Some("skip") => Some(Self::Skip),
            Some("error") => Some(Self::Error),
            _ => {
                reader.problems.wrong_type(value, at, "one of cached, skip, error");
                None
            }
        }
    }
}

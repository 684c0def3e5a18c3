//! Patterns that store results of calls: cache and idempotent.

use schema_compat::pointer::Location;
use serde_json::Value;

use super::{
    Operation, Path, Predicate,
    read::{Reader, SECONDS},
};

/// Caches successful results.
#[derive(Debug, Clone, PartialEq)]
pub struct Cache {
    /// JSON pointer inside of the spec, which separates the entries of different caches.
    pub pointer: String,
    /// The cached operation.
    pub inner: Operation,
    /// The parts of the input that form the key, in addition to the caller's identity.
    pub key_paths: Vec<Path>,
    /// The time to live in seconds.
    pub ttl_seconds: u64,
    /// Additional seconds during which a stale result is served while it is refreshed.
    pub stale_while_revalidate_seconds: Option<u64>,
    /// The condition on results to cache; absent means all successes.
    pub cache_if: Option<Predicate>,
}

/// Deduplicates calls with the same key, including concurrent ones.
#[derive(Debug, Clone, PartialEq)]
pub struct Idempotent {
    /// JSON pointer inside of the spec, which separates the keys of different patterns.
    pub pointer: String,
    /// The deduplicated operation.
    pub inner: Operation,
    /// The parts of the input that form the key.
    pub key_paths: Vec<Path>,
    /// The retention of a key in seconds.
    pub ttl_seconds: Option<u64>,
    /// The response to a duplicate.
    pub on_duplicate: OnDuplicate,
}

/// The response to a duplicate call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnDuplicate {
    /// The result of the first call.
    Cached,
    /// The result `null`.
    Skip,
    /// An error.
    Error,
}

impl Cache {
    pub(super) fn read(reader: &Reader, value: &Value, at: Location<'_>) -> Option<Self> {
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
    pub(super) fn read(reader: &Reader, value: &Value, at: Location<'_>) -> Option<Self> {
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
    fn read(reader: &Reader, value: &Value, at: Location<'_>) -> Option<Self> {
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

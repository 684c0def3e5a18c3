//! Patterns around one call: retry, timeout, cache, idempotent, circuit breaker, dead letter,
//! claim check.
//!
//! Deliberately absent: where their state is kept; the gateway's configuration says that.

use serde_json::Value;

use super::{Operation, Path};
use crate::name::Name;

/// A comparison of one field.
#[derive(Debug, Clone, PartialEq)]
pub struct Predicate {
    /// What is compared.
    pub field: Path,
    /// How.
    pub op: PredicateOp,
    /// With what.
    pub value: Value,
}

/// The comparisons; one of unlike types is false, and a missing field is only `ne`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PredicateOp {
    /// Equal.
    Eq,
    /// Not equal.
    Ne,
    /// Greater.
    Gt,
    /// Greater or equal.
    Gte,
    /// Less.
    Lt,
    /// Less or equal.
    Lte,
    /// The field contains the value.
    Contains,
    /// The value, an array, contains the field.
    In,
}

/// Again after a failure.
#[derive(Debug, Clone, PartialEq)]
pub struct Retry {
    /// What is tried.
    pub inner: Operation,
    /// How often at most, the first time included.
    pub max_attempts: u64,
    /// How long to wait in between.
    pub backoff: Backoff,
    /// By how much of itself a delay varies, 0 to 1.
    pub jitter: Option<f64>,
    /// Which failures; without it all.
    pub retry_if: Option<Predicate>,
    /// How long one attempt may take.
    pub attempt_timeout_ms: Option<u64>,
}

/// How delays grow.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Backoff {
    /// Always the same.
    Fixed {
        /// The delay.
        delay_ms: u64,
    },
    /// By the same step each time.
    Linear {
        /// The first delay.
        initial_delay_ms: u64,
        /// The step.
        increment_ms: u64,
        /// Never longer.
        max_delay_ms: u64,
    },
    /// By a factor each time.
    Exponential {
        /// The first delay.
        initial_delay_ms: u64,
        /// Never longer.
        max_delay_ms: u64,
        /// The factor.
        multiplier: f64,
    },
}

/// Not longer than this; the inner call is cancelled.
#[derive(Debug, Clone, PartialEq)]
pub struct Timeout {
    /// What may take so long.
    pub inner: Operation,
    /// How long.
    pub duration_ms: u64,
    /// What to do instead.
    pub fallback: Option<Operation>,
    /// What to say without a fallback.
    pub message: Option<String>,
}

/// Remembers successes for a while.
#[derive(Debug, Clone, PartialEq)]
pub struct Cache {
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

/// Stops calling what keeps failing.
#[derive(Debug, Clone, PartialEq)]
pub struct CircuitBreaker {
    /// Which breaker; the same name is the same state.
    pub name: String,
    /// What is called.
    pub inner: Operation,
    /// How many failures open it.
    pub failure_threshold: u64,
    /// Within which time.
    pub failure_window_seconds: u64,
    /// After which time it tries again.
    pub reset_timeout_seconds: u64,
    /// How many successes close it again.
    pub success_threshold: Option<u64>,
    /// What to do while it is open.
    pub fallback: Option<Operation>,
    /// What counts as a failure; without it failed calls.
    pub failure_if: Option<Predicate>,
}

/// Hands failures, with input, error and attempts, to a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct DeadLetter {
    /// What may fail.
    pub inner: Operation,
    /// The tool that gets the failure.
    pub dead_letter_tool: Name,
    /// How often it is tried before.
    pub max_attempts: Option<u64>,
    /// How long to wait in between.
    pub backoff: Option<Backoff>,
    /// Whether the caller sees the failure too.
    pub rethrow: bool,
}

/// Keeps a large payload elsewhere while the inner operation works with a reference.
#[derive(Debug, Clone, PartialEq)]
pub struct ClaimCheck {
    /// Stores the payload.
    pub store_tool: Name,
    /// Brings it back.
    pub retrieve_tool: Name,
    /// What works with the reference.
    pub inner: Operation,
    /// Whether the result is the payload again.
    pub retrieve_at_end: bool,
}

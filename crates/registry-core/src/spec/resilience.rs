//! Patterns for a call that may fail or hang: retry, timeout, circuit breaker.

use schema_compat::pointer::At;
use serde_json::Value;

use super::{
    Backoff, Operation, Predicate,
    read::{ATTEMPTS, COUNT, Reader, SECONDS, TIMEOUT},
};

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

impl Retry {
    pub(super) fn read(reader: &Reader, value: &Value, at: At<'_>) -> Option<Self> {
        let fields = reader.problems.object(value, at)?;
        let inner = reader.operation(&fields, "inner");
        let max_attempts = reader.required_number(&fields, "maxAttempts", ATTEMPTS);
        fields.require("backoff");
        let backoff = Backoff::read_optional(reader, &fields);
        let jitter = reader.real(&fields, "jitter", 0.0..=1.0);
        let retry_if = reader.optional_predicate(&fields, "retryIf");
        let attempt_timeout_ms = reader.number(&fields, "attemptTimeoutMs", TIMEOUT);
        fields.finish();
        Some(Self {
            inner: inner?,
            max_attempts: max_attempts?,
            backoff: backoff?,
            jitter,
            retry_if,
            attempt_timeout_ms,
        })
    }
}

impl Timeout {
    pub(super) fn read(reader: &Reader, value: &Value, at: At<'_>) -> Option<Self> {
        let fields = reader.problems.object(value, at)?;
        let inner = reader.operation(&fields, "inner");
        let duration_ms = reader.required_number(&fields, "durationMs", TIMEOUT);
        let fallback = reader.optional_operation(&fields, "fallback");
        let message = fields.optional_string("message");
        fields.finish();
        Some(Self { inner: inner?, duration_ms: duration_ms?, fallback, message })
    }
}

impl CircuitBreaker {
    pub(super) fn read(reader: &Reader, value: &Value, at: At<'_>) -> Option<Self> {
        let fields = reader.problems.object(value, at)?;
        let name = fields.required_string("name");
        if name.as_deref() == Some("") {
            let help = "name the breaker: those of one name are one";
            reader.problems.invalid(fields.at("name"), "the name is empty".to_owned(), help);
        }
        let inner = reader.operation(&fields, "inner");
        let failure_threshold = reader.required_number(&fields, "failureThreshold", COUNT);
        let failure_window_seconds =
            reader.required_number(&fields, "failureWindowSeconds", SECONDS);
        let reset_timeout_seconds = reader.required_number(&fields, "resetTimeoutSeconds", SECONDS);
        let success_threshold = reader.number(&fields, "successThreshold", COUNT);
        let fallback = reader.optional_operation(&fields, "fallback");
        let failure_if = reader.optional_predicate(&fields, "failureIf");
        fields.finish();
        Some(Self {
            name: name?,
            inner: inner?,
            failure_threshold: failure_threshold?,
            failure_window_seconds: failure_window_seconds?,
            reset_timeout_seconds: reset_timeout_seconds?,
            success_threshold,
            fallback,
            failure_if,
        })
    }
}

//! Patterns for calls that may fail or hang: retry, timeout and circuit breaker.

use schema_compat::pointer::Location;
use serde_json::Value;

use super::{
    Backoff, Operation, Predicate,
    read::{ATTEMPTS, COUNT, Reader, SECONDS, TIMEOUT},
};

/// Repeats an operation after a failure.
#[derive(Debug, Clone, PartialEq)]
pub struct Retry {
    /// The repeated operation.
    pub inner: Operation,
    /// The maximum number of attempts, including the first.
    pub max_attempts: u64,
    /// The delay between attempts.
    pub backoff: Backoff,
    /// The random variation of a delay as a fraction, 0 to 1.
    pub jitter: Option<f64>,
    /// The condition on failures to retry; absent means all.
    pub retry_if: Option<Predicate>,
    /// The timeout of one attempt in milliseconds.
    pub attempt_timeout_ms: Option<u64>,
}

/// Limits the time of an operation, which is cancelled on timeout.
#[derive(Debug, Clone, PartialEq)]
pub struct Timeout {
    /// The limited operation.
    pub inner: Operation,
    /// The timeout in milliseconds.
    pub duration_ms: u64,
    /// The operation to run on timeout.
    pub fallback: Option<Operation>,
    /// The error message without a fallback.
    pub message: Option<String>,
}

/// Suspends calls to a failing target.
#[derive(Debug, Clone, PartialEq)]
pub struct CircuitBreaker {
    /// The breaker's name. Breakers with the same name share their state.
    pub name: String,
    /// The guarded operation.
    pub inner: Operation,
    /// The number of failures that open the breaker.
    pub failure_threshold: u64,
    /// The window for counting failures in seconds.
    pub failure_window_seconds: u64,
    /// The time in seconds until a trial call after opening.
    pub reset_timeout_seconds: u64,
    /// The number of successes that close the breaker.
    pub success_threshold: Option<u64>,
    /// The operation to run while the breaker is open.
    pub fallback: Option<Operation>,
    /// The condition on results that count as failures; absent means failed calls.
    pub failure_if: Option<Predicate>,
}

impl Retry {
    pub(super) fn read(reader: &Reader, value: &Value, at: Location<'_>) -> Option<Self> {
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
    pub(super) fn read(reader: &Reader, value: &Value, at: Location<'_>) -> Option<Self> {
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
    pub(super) fn read(reader: &Reader, value: &Value, at: Location<'_>) -> Option<Self> {
        let fields = reader.problems.object(value, at)?;
        let name = fields.required_string("name");
        if name.as_deref() == Some("") {
            let help = "set a name; breakers with the same name share their state";
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

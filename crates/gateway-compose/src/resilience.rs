//! Patterns around an operation that may fail or hang: retry, timeout, circuit breaker.

use std::{sync::Arc, time::Duration};

use registry_core::spec::{CircuitBreaker, Operation, Predicate, Retry, Timeout};
use retry_backoff::jittered_by;
use serde_json::Value;
use tokio::time::Instant;
use tokio::time::{sleep, timeout};

use crate::{Cause, Effects, Failure, run::Run};

impl Run {
    /// Retries after a failure, unless the outcome is unknown and the operation is not repeatable.
    pub(super) async fn retry(
        self: &Arc<Self>,
        retry: &Retry,
        at: &str,
        input: &Value,
    ) -> Result<Value, Failure> {
        let (mut attempt, mut effects) = (1, Effects::None);
        loop {
            let failure = match retry.attempt_timeout_ms {
                Some(after_ms) => {
                    let outcome = self.within_time(after_ms, &retry.inner, (at, input)).await;
                    outcome.unwrap_or_else(|| Err(timed_out(after_ms, (at, None))))
                }
                None => self.operate(&retry.inner, at, input).await,
            };
            let failure = match failure {
                Ok(value) => return Ok(value),
                Err(failure) => failure.with_effects(effects),
            };
            effects = failure.effects();
            let is_repeatable = !failure.is_unknown() || self.plan.is_repeatable(&retry.inner);
            if attempt >= retry.max_attempts || !is_repeatable {
                return Err(failure);
            }
            let is_met = self.is_met(retry.retry_if.as_ref(), (at, "retryIf"), &failure.to_value());
            if !is_met.map_err(|error| error.with_effects(effects))? {
                return Err(failure);
            }
            self.await_compensations().await;
            let delay = retry.backoff.delay(attempt);
            sleep(retry.jitter.map_or(delay, |jitter| jittered_by(delay, jitter))).await;
            attempt += 1;
        }
    }

    /// Limits the time of an operation.
    pub(super) async fn timeout(
        self: &Arc<Self>,
        limit: &Timeout,
        at: &str,
        input: &Value,
    ) -> Result<Value, Failure> {
        let place = (at, limit.message.as_ref());
        let outcome = self.within_time(limit.duration_ms, &limit.inner, (at, input)).await;
        match (outcome, &limit.fallback) {
            (Some(outcome), _) => outcome,
            (None, Some(fallback)) => {
                let interrupted = self.plan.effects_if_interrupted(&limit.inner);
                self.await_compensations().await;
                let outcome = self.operate(fallback, at, input).await;
                outcome.map_err(|failure| failure.with_effects(interrupted))
            }
            (None, None) => Err(timed_out(limit.duration_ms, place)),
        }
    }

    /// Runs an operation. `None`: it timed out and was cancelled.
    async fn within_time(
        self: &Arc<Self>,
        after_ms: u64,
        operation: &Operation,
        (at, input): (&str, &Value),
    ) -> Option<Result<Value, Failure>> {
        let (run, limit) = self.with_time_limit();
        let mut running = run.operate(operation, at, input);
        let outcome = timeout(Duration::from_millis(after_ms), &mut running).await;
        if outcome.is_err() {
            limit.pass(after_ms);
        }
        outcome.ok()
    }

    /// Rejects the operation while the circuit breaker is open.
    pub(super) async fn breaker(
        self: &Arc<Self>,
        breaker: &CircuitBreaker,
        at: &str,
        input: &Value,
    ) -> Result<Value, Failure> {
        let permit = match self.state().breakers.acquire(breaker, Instant::now()) {
            Ok(permit) => permit,
            Err(left) => {
                if let Some(fallback) = &breaker.fallback {
                    return self.operate(fallback, at, input).await;
                }
                let retry_after_s = left.as_secs() + u64::from(left.subsec_nanos() > 0);
                let name = breaker.name.as_str().into();
                return Err(Failure::new(at, Cause::CircuitOpen { name, retry_after_s }));
            }
        };
        let outcome = self.operate(&breaker.inner, at, input).await;
        let is_failure = match &breaker.failure_if {
            None => outcome.is_err(),
            condition => {
                let value = outcome.as_ref().map_or_else(Failure::to_value, Clone::clone);
                let done = outcome
                    .as_ref()
                    .map_or_else(Failure::effects, |_| self.plan.effects_of(&breaker.inner));
                let is_met = self.is_met(condition.as_ref(), (at, "failureIf"), &value);
                is_met.map_err(|error| error.with_effects(done))?
            }
        };
        permit.record(is_failure, Instant::now());
        outcome
    }

    /// Whether the condition is met. Without a condition it is.
    fn is_met(
        &self,
        condition: Option<&Predicate>,
        (at, what): (&str, &'static str),
        value: &Value,
    ) -> Result<bool, Failure> {
        let Some(condition) = condition else { return Ok(true) };
        condition
            .is_met(value, &mut self.eval_budget())
            .map_err(|error| Failure::evaluation(at, what, error))
    }
}

fn timed_out(after_ms: u64, (at, message): (&str, Option<&String>)) -> Failure {
    Failure::new(at, Cause::Timeout { after_ms, message: message.cloned() })
}

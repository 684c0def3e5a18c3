//! Patterns around an operation that may fail or hang: retry, timeout, circuit breaker.
//!
//! Deliberately absent: the states of breakers (`breakers.rs`).

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use registry_core::spec::{CircuitBreaker, Predicate, Retry, Timeout};
use registry_follow::varied;
use serde_json::Value;
use tokio::time::{sleep, timeout};

use super::{Cause, Failure, failure::Beside, run::Run};

impl Run {
    /// Again after a failure, unless nobody knows what was done and it must not be done twice.
    pub(super) async fn retry(
        self: &Arc<Self>,
        retry: &Retry,
        at: &str,
        input: &Value,
    ) -> Result<Value, Failure> {
        let (mut attempt, mut beside) = (1, Beside::Nothing);
        loop {
            let running = self.operate(&retry.inner, at, input);
            let failure = match retry.attempt_timeout_ms {
                Some(after_ms) => within(after_ms, running, (at, None)).await,
                None => running.await,
            };
            let failure = match failure {
                Ok(value) => return Ok(value),
                Err(failure) => failure.beside(beside),
            };
            beside = failure.what_else();
            let may_be_repeated = !failure.is_unknown() || self.plan.may_be_repeated(&retry.inner);
            if attempt >= retry.max_attempts || !may_be_repeated {
                return Err(failure);
            }
            let is_met = self.is_met(retry.retry_if.as_ref(), (at, "retryIf"), &failure.to_value());
            if !is_met.map_err(|error| error.beside(beside))? {
                return Err(failure);
            }
            self.until_undone().await;
            let delay = retry.backoff.delay(attempt);
            sleep(retry.jitter.map_or(delay, |jitter| varied(delay, jitter))).await;
            attempt += 1;
        }
    }

    /// Not longer than this.
    pub(super) async fn timeout(
        self: &Arc<Self>,
        limit: &Timeout,
        at: &str,
        input: &Value,
    ) -> Result<Value, Failure> {
        let running = self.operate(&limit.inner, at, input);
        let place = (at, limit.message.as_ref());
        let outcome = timeout(Duration::from_millis(limit.duration_ms), running).await;
        match (outcome, &limit.fallback) {
            (Ok(outcome), _) => outcome,
            (Err(_), Some(fallback)) => {
                let cut_off = self.plan.cut_off(&limit.inner);
                self.until_undone().await;
                let outcome = self.operate(fallback, at, input).await;
                outcome.map_err(|failure| failure.beside(cut_off))
            }
            (Err(_), None) => Err(over(limit.duration_ms, place)),
        }
    }

    /// Not while it keeps failing.
    pub(super) async fn breaker(
        self: &Arc<Self>,
        breaker: &CircuitBreaker,
        at: &str,
        input: &Value,
    ) -> Result<Value, Failure> {
        let leave = match self.memory().breakers.enter(breaker, Instant::now()) {
            Ok(leave) => leave,
            Err(left) => {
                if let Some(fallback) = &breaker.fallback {
                    return self.operate(fallback, at, input).await;
                }
                let retry_after_s = left.as_secs() + u64::from(left.subsec_nanos() > 0);
                let name = breaker.name.as_str().into();
                return Err(Failure::new(at, Cause::Open { name, retry_after_s }));
            }
        };
        let outcome = self.operate(&breaker.inner, at, input).await;
        let is_failure = match &breaker.failure_if {
            None => outcome.is_err(),
            condition => {
                let told = outcome.as_ref().map_or_else(Failure::to_value, Clone::clone);
                let done = outcome
                    .as_ref()
                    .map_or_else(Failure::what_else, |_| self.plan.done(&breaker.inner));
                let is_met = self.is_met(condition.as_ref(), (at, "failureIf"), &told);
                is_met.map_err(|error| error.beside(done))?
            }
        };
        leave.settle(is_failure, Instant::now());
        outcome
    }

    /// Whether there is no condition, or it is met.
    fn is_met(
        &self,
        condition: Option<&Predicate>,
        (at, what): (&str, &'static str),
        value: &Value,
    ) -> Result<bool, Failure> {
        let Some(condition) = condition else { return Ok(true) };
        condition
            .is_met(value, &mut self.budget())
            .map_err(|error| Failure::evaluation(at, what, error))
    }
}

/// An operation, cancelled when its time is over.
async fn within(
    after_ms: u64,
    running: impl Future<Output = Result<Value, Failure>>,
    place: (&str, Option<&String>),
) -> Result<Value, Failure> {
    let outcome = timeout(Duration::from_millis(after_ms), running).await;
    outcome.unwrap_or_else(|_| Err(over(after_ms, place)))
}

fn over(after_ms: u64, (at, message): (&str, Option<&String>)) -> Failure {
    Failure::new(at, Cause::Timeout { after_ms, message: message.cloned() })
}

//! The states of circuit breakers, by name: closed, open, and half-open with one try at a time.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use registry_core::spec::CircuitBreaker;
use tokio::time::Instant;

/// Maximum number of breakers. Closed breakers without failures are evicted first.
const MAX_BREAKERS: usize = 10_000;

/// All circuit breakers. Compositions that use the same name share one.
#[derive(Debug, Default)]
pub(crate) struct Breakers(Mutex<HashMap<Box<str>, Breaker>>);

#[derive(Debug, Default)]
struct Breaker {
    failures: VecDeque<Instant>,
    state: State,
}

#[derive(Debug, Default, Clone, Copy)]
enum State {
    #[default]
    Closed,
    Open {
        until: Instant,
    },
    HalfOpen {
        successes: u64,
        is_probing: bool,
    },
}

/// Permission for one call. Dropping it without recording an outcome has no effect on the breaker.
#[derive(Debug)]
pub(crate) struct BreakerPermit<'b> {
    breakers: &'b Breakers,
    spec: &'b CircuitBreaker,
}

impl Breakers {
    /// Returns a permit, or the time until the next one.
    pub(crate) fn acquire<'b>(
        &'b self,
        spec: &'b CircuitBreaker,
        now: Instant,
    ) -> Result<BreakerPermit<'b>, Duration> {
        let mut all = self.lock();
        if all.len() >= MAX_BREAKERS {
            all.retain(|_, one| !matches!(one.state, State::Closed) || !one.failures.is_empty());
        }
        let breaker = all.entry(spec.name.as_str().into()).or_default();
        match &mut breaker.state {
            State::Closed => {}
            State::Open { until } if *until > now => return Err(*until - now),
            State::HalfOpen { is_probing: true, .. } => return Err(Duration::from_secs(1)),
            State::HalfOpen { is_probing, .. } => *is_probing = true,
            state @ State::Open { .. } => {
                *state = State::HalfOpen { successes: 0, is_probing: true }
            }
        }
        Ok(BreakerPermit { breakers: self, spec })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, Breaker>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BreakerPermit<'_> {
    /// Records the outcome of the call.
    pub(crate) fn record(self, is_failure: bool, now: Instant) {
        if let Some(breaker) = self.breakers.lock().get_mut(self.spec.name.as_str()) {
            if is_failure {
                breaker.failed(self.spec, now);
            } else {
                breaker.succeeded(self.spec);
            }
        }
    }
}

impl Drop for BreakerPermit<'_> {
    fn drop(&mut self) {
        let mut all = self.breakers.lock();
        let breaker = all.get_mut(self.spec.name.as_str());
        if let Some(State::HalfOpen { is_probing, .. }) = breaker.map(|breaker| &mut breaker.state)
        {
            *is_probing = false;
        }
    }
}

impl Breaker {
    fn failed(&mut self, spec: &CircuitBreaker, now: Instant) {
        let window = Duration::from_secs(spec.failure_window_seconds);
        self.failures.push_back(now);
        self.failures.retain(|at| now.duration_since(*at) < window);
        let is_enough = self.failures.len() as u64 >= spec.failure_threshold;
        if is_enough || !matches!(self.state, State::Closed) {
            let until = now + Duration::from_secs(spec.reset_timeout_seconds);
            *self = Self { failures: VecDeque::new(), state: State::Open { until } };
        }
    }

    fn succeeded(&mut self, spec: &CircuitBreaker) {
        let State::HalfOpen { successes, is_probing } = self.state else { return };
        let successes = successes + 1;
        self.state = if successes >= spec.success_threshold.unwrap_or(1) {
            State::Closed
        } else {
            State::HalfOpen { successes, is_probing }
        };
    }
}

#[cfg(test)]
mod tests {
    use registry_core::spec::Spec;
    use serde_json::json;

    use super::*;

    fn spec() -> CircuitBreaker {
        named("b")
    }

    fn named(name: &str) -> CircuitBreaker {
        let spec = Spec::parse(&json!({ "circuitBreaker": {
            "name": name, "inner": { "tool": "t" },
            "failureThreshold": 2, "failureWindowSeconds": 10, "resetTimeoutSeconds": 60,
            "successThreshold": 2,
        } }));
        let Ok(Spec::CircuitBreaker(breaker)) = spec else { panic!("a circuit breaker") };
        breaker
    }

    #[test]
    fn breaker_opens_probes_and_closes() {
        let (breakers, spec, start) = (Breakers::default(), spec(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let settle = |seconds, is_failure| {
            breakers.acquire(&spec, at(seconds)).unwrap().record(is_failure, at(seconds));
        };
        settle(1, true);
        settle(11, true);
        settle(12, false);
        settle(13, true);
        assert_eq!(breakers.acquire(&spec, at(14)).unwrap_err(), Duration::from_secs(59));
        let first = breakers.acquire(&spec, at(73)).expect("a probe is allowed");
        assert!(breakers.acquire(&spec, at(73)).is_err(), "only one probe at a time");
        drop(first);
        settle(74, false);
        settle(75, true);
        assert!(breakers.acquire(&spec, at(134)).is_err(), "the breaker is open again");
        settle(135, false);
        settle(136, false);
        settle(137, true);
        assert!(
            breakers.acquire(&spec, at(137)).is_ok(),
            "the breaker is closed until the second failure"
        );
    }

    #[test]
    fn breakers_without_failures_are_evicted_first() {
        let (breakers, now) = (Breakers::default(), Instant::now());
        let (open, failed) = (named("open"), named("failed"));
        for spec in [&open, &open, &failed] {
            breakers.acquire(spec, now).unwrap().record(true, now);
        }
        for number in 0..MAX_BREAKERS {
            breakers.acquire(&named(&number.to_string()), now).unwrap().record(false, now);
        }
        assert!(breakers.lock().len() <= MAX_BREAKERS);
        assert!(breakers.acquire(&open, now).is_err());
        breakers.acquire(&failed, now).unwrap().record(true, now);
        assert!(breakers.acquire(&failed, now).is_err(), "the first failure still counts");
    }
}

//! The circuit breaker of an upstream. It opens after consecutive failures, or if half of the
//! recent requests failed, and rejects requests. Later one probe request decides whether it closes.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

/// Consecutive failures that open the breaker.
const FAILURES: u32 = 5;
/// Number of recent requests that count.
const WINDOW: u32 = 20;
/// Failures among the recent requests that open the breaker.
const FAILURES_IN_WINDOW: u32 = WINDOW / 2;
/// The time that the breaker stays open; it doubles each further time.
const INITIAL_OPEN_TIME: Duration = Duration::from_secs(1);
/// The maximum time that the breaker stays open.
const MAX_OPEN_TIME: Duration = Duration::from_secs(30);

/// The circuit breaker of one upstream.
#[derive(Debug, Default)]
pub(super) struct Breaker(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The outcomes of the recent requests, the latest in the lowest bit; 1 is a failure.
    recent: u32,
    /// How often the breaker opened in a row.
    opened: u32,
    /// The end of the open state.
    open_until: Option<Instant>,
    /// Whether a probe request is running.
    is_probing: bool,
}

/// The circuit breaker is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the circuit breaker is open because the server keeps failing; retry in {} ms", .retry_after.as_millis())]
pub struct CircuitOpen {
    /// The time until the next probe.
    pub retry_after: Duration,
}

/// Permission for one request. Dropping it without an outcome has no effect.
#[derive(Debug)]
pub(super) struct BreakerPermit {
    breaker: Arc<Breaker>,
    is_probe: AtomicBool,
}

impl Breaker {
    pub(super) fn acquire(self: &Arc<Self>) -> Result<BreakerPermit, CircuitOpen> {
        let mut state = self.state();
        let Some(until) = state.open_until else {
            return Ok(self.permit(false));
        };
        let left = until.saturating_duration_since(Instant::now());
        if !left.is_zero() || state.is_probing {
            return Err(CircuitOpen { retry_after: left.max(Duration::from_millis(1)) });
        }
        state.is_probing = true;
        Ok(self.permit(true))
    }

    fn permit(self: &Arc<Self>, is_probe: bool) -> BreakerPermit {
        BreakerPermit { breaker: Arc::clone(self), is_probe: is_probe.into() }
    }

    /// Closes the breaker after a successful check. The recorded outcomes stay.
    pub(super) fn close(&self) {
        let mut state = self.state();
        state.note(false);
        *state = State { recent: state.recent, ..State::default() };
    }

    /// Whether requests are rejected now.
    pub(super) fn is_open(&self) -> bool {
        self.state().open_until.is_some()
    }

    fn fail(&self, is_probe: bool) {
        let mut state = self.state();
        state.note(true);
        if is_probe || (state.is_failing() && state.open_until.is_none()) {
            let wait =
                INITIAL_OPEN_TIME.saturating_mul(1 << state.opened.min(5)).min(MAX_OPEN_TIME);
            state.opened = state.opened.saturating_add(1);
            state.open_until = Some(Instant::now() + wait);
            state.is_probing = false;
        }
    }

    fn succeed(&self, is_probe: bool) {
        let mut state = self.state();
        state.note(false);
        if is_probe {
            *state = State::default();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn note(&mut self, has_failed: bool) {
        self.recent = (self.recent << 1 | u32::from(has_failed)) & ((1 << WINDOW) - 1);
    }

    fn is_failing(&self) -> bool {
        self.recent.trailing_ones() >= FAILURES || self.recent.count_ones() >= FAILURES_IN_WINDOW
    }
}

impl BreakerPermit {
    /// Records that the upstream is alive, which ends a probe early.
    pub(super) fn mark_alive(&self) {
        if self.is_probe.swap(false, Ordering::Relaxed) {
            self.breaker.succeed(true);
        }
    }

    /// Records the outcome of the request.
    pub(super) fn record(&self, has_failed: bool) {
        let is_probe = self.is_probe.swap(false, Ordering::Relaxed);
        if has_failed {
            self.breaker.fail(is_probe);
        } else {
            self.breaker.succeed(is_probe);
        }
    }
}

impl Drop for BreakerPermit {
    fn drop(&mut self) {
        // The caller of the probe disconnected, so the next request becomes the probe.
        if *self.is_probe.get_mut() {
            self.breaker.state().is_probing = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fail(breaker: &Arc<Breaker>, times: u32) {
        for _ in 0..times {
            breaker.acquire().unwrap().record(true);
        }
    }

    fn wait_over(breaker: &Breaker) {
        breaker.state().open_until = Some(Instant::now());
    }

    #[test]
    fn consecutive_failures_open_the_breaker() {
        let breaker = Arc::new(Breaker::default());
        fail(&breaker, FAILURES - 1);
        breaker.acquire().unwrap().record(false);
        fail(&breaker, FAILURES - 1);
        assert!(!breaker.is_open());
        fail(&breaker, 1);
        let open = breaker.acquire().unwrap_err();
        assert!(open.retry_after <= INITIAL_OPEN_TIME && breaker.is_open());
    }

    #[test]
    fn failure_rate_opens_the_breaker() {
        let breaker = Arc::new(Breaker::default());
        for _ in 1..FAILURES_IN_WINDOW {
            fail(&breaker, 1);
            breaker.acquire().unwrap().record(false);
        }
        assert!(!breaker.is_open());
        fail(&breaker, 1);
        assert!(breaker.is_open());
        breaker.close();
        fail(&breaker, 1);
        assert!(breaker.is_open(), "a successful list does not erase failed calls");

        let breaker = Arc::new(Breaker::default());
        for _ in 0..10 * WINDOW {
            fail(&breaker, 1);
            (0..2).for_each(|_| breaker.acquire().unwrap().record(false));
        }
        assert!(!breaker.is_open(), "a third of the requests is below the limit");
    }

    #[test]
    fn open_breaker_admits_one_probe() {
        let breaker = Arc::new(Breaker::default());
        fail(&breaker, FAILURES);
        wait_over(&breaker);
        let probe = breaker.acquire().unwrap();
        assert!(breaker.acquire().is_err(), "one probe at a time");
        probe.record(true);
        assert!(
            breaker.acquire().unwrap_err().retry_after > INITIAL_OPEN_TIME,
            "the open time doubles"
        );
        wait_over(&breaker);
        drop(breaker.acquire().unwrap());
        breaker.acquire().unwrap().record(false);
        assert!(!breaker.is_open());
        fail(&breaker, FAILURES - 1);
        assert!(!breaker.is_open(), "the counts start over");
    }

    #[test]
    fn alive_probe_closes_the_breaker_early() {
        let breaker = Arc::new(Breaker::default());
        fail(&breaker, FAILURES);
        wait_over(&breaker);
        let probe = breaker.acquire().unwrap();
        probe.mark_alive();
        assert!(!breaker.is_open() && breaker.acquire().is_ok());
        probe.record(true);
        assert!(!breaker.is_open(), "its later failure counts once");
    }

    #[test]
    fn open_time_is_bounded() {
        let breaker = Arc::new(Breaker::default());
        fail(&breaker, FAILURES);
        for _ in 0..40 {
            wait_over(&breaker);
            breaker.acquire().unwrap().record(true);
        }
        assert!(breaker.acquire().unwrap_err().retry_after <= MAX_OPEN_TIME);
        breaker.close();
        assert!(breaker.acquire().is_ok());
    }
}

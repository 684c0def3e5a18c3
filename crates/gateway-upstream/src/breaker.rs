//! Sparing an upstream that fails, and its callers the wait: after some failures in a row, or where
//! half of the last requests have failed, requests are refused at once, for a while; then one is
//! let through, and what becomes of it decides.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

/// So many failures in a row open it.
const FAILURES: u32 = 5;
/// So many requests are looked back on.
const WINDOW: u32 = 20;
/// So many failures among them open it.
const FAILURES_IN_WINDOW: u32 = WINDOW / 2;
/// How long it stays open the first time; each further time twice as long.
const FIRST: Duration = Duration::from_secs(1);
/// The longest that it stays open.
const LONGEST: Duration = Duration::from_secs(30);

/// The breaker of one upstream.
#[derive(Debug, Default)]
pub(super) struct Breaker(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// What became of the last requests, the latest in the lowest bit; 1 is a failure.
    recent: u32,
    /// How often it opened in a row.
    opened: u32,
    /// Until when nothing is let through.
    open_until: Option<Instant>,
    /// A request that was let through to see decides.
    is_probing: bool,
}

/// It is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the server has failed again and again and is spared for {} ms", .retry_after.as_millis())]
pub struct Open {
    /// When something is let through again.
    pub retry_after: Duration,
}

/// A request that was let through; dropped without a word, it says nothing.
#[derive(Debug)]
pub(super) struct Passing {
    breaker: Arc<Breaker>,
    is_probe: AtomicBool,
}

impl Breaker {
    /// Lets a request through, or not.
    pub(super) fn pass(self: &Arc<Self>) -> Result<Passing, Open> {
        let mut state = self.state();
        let Some(until) = state.open_until else {
            return Ok(self.passing(false));
        };
        let left = until.saturating_duration_since(Instant::now());
        if !left.is_zero() || state.is_probing {
            return Err(Open { retry_after: left.max(Duration::from_millis(1)) });
        }
        state.is_probing = true;
        Ok(self.passing(true))
    }

    fn passing(self: &Arc<Self>, is_probe: bool) -> Passing {
        Passing { breaker: Arc::clone(self), is_probe: is_probe.into() }
    }

    /// The upstream is known to be well. What became of single requests is not forgotten.
    pub(super) fn close(&self) {
        let mut state = self.state();
        state.note(false);
        *state = State { recent: state.recent, ..State::default() };
    }

    /// Whether it refuses requests now.
    pub(super) fn is_open(&self) -> bool {
        self.state().open_until.is_some()
    }

    fn fail(&self, is_probe: bool) {
        let mut state = self.state();
        state.note(true);
        if is_probe || (state.is_failing() && state.open_until.is_none()) {
            let wait = FIRST.saturating_mul(1 << state.opened.min(5)).min(LONGEST);
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

impl Passing {
    /// The upstream is seen to be alive while the request goes on; that is all a probe is for.
    pub(super) fn is_alive(&self) {
        if self.is_probe.swap(false, Ordering::Relaxed) {
            self.breaker.succeed(true);
        }
    }

    /// Says what became of the request.
    pub(super) fn end(&self, has_failed: bool) {
        let is_probe = self.is_probe.swap(false, Ordering::Relaxed);
        if has_failed {
            self.breaker.fail(is_probe);
        } else {
            self.breaker.succeed(is_probe);
        }
    }
}

impl Drop for Passing {
    fn drop(&mut self) {
        // A probe whose caller went away: the next one may see.
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
            breaker.pass().unwrap().end(true);
        }
    }

    fn wait_over(breaker: &Breaker) {
        breaker.state().open_until = Some(Instant::now());
    }

    #[test]
    fn failures_in_a_row_open_it_and_a_success_between_does_not() {
        let breaker = Arc::new(Breaker::default());
        fail(&breaker, FAILURES - 1);
        breaker.pass().unwrap().end(false);
        fail(&breaker, FAILURES - 1);
        assert!(!breaker.is_open());
        fail(&breaker, 1);
        let open = breaker.pass().unwrap_err();
        assert!(open.retry_after <= FIRST && breaker.is_open());
    }

    #[test]
    fn half_of_the_last_requests_open_it() {
        let breaker = Arc::new(Breaker::default());
        for _ in 1..FAILURES_IN_WINDOW {
            fail(&breaker, 1);
            breaker.pass().unwrap().end(false);
        }
        assert!(!breaker.is_open());
        fail(&breaker, 1);
        assert!(breaker.is_open());
        breaker.close();
        fail(&breaker, 1);
        assert!(breaker.is_open(), "that it lists well does not undo what became of calls");

        let breaker = Arc::new(Breaker::default());
        for _ in 0..10 * WINDOW {
            fail(&breaker, 1);
            (0..2).for_each(|_| breaker.pass().unwrap().end(false));
        }
        assert!(!breaker.is_open(), "one in three is not half");
    }

    #[test]
    fn one_request_sees_whether_it_is_over() {
        let breaker = Arc::new(Breaker::default());
        fail(&breaker, FAILURES);
        wait_over(&breaker);
        let probe = breaker.pass().unwrap();
        assert!(breaker.pass().is_err(), "one at a time");
        probe.end(true);
        assert!(breaker.pass().unwrap_err().retry_after > FIRST, "twice as long");
        wait_over(&breaker);
        drop(breaker.pass().unwrap());
        breaker.pass().unwrap().end(false);
        assert!(!breaker.is_open());
        fail(&breaker, FAILURES - 1);
        assert!(!breaker.is_open(), "it begins anew");
    }

    #[test]
    fn a_probe_that_is_seen_alive_lets_the_others_through_before_it_ends() {
        let breaker = Arc::new(Breaker::default());
        fail(&breaker, FAILURES);
        wait_over(&breaker);
        let probe = breaker.pass().unwrap();
        probe.is_alive();
        assert!(!breaker.is_open() && breaker.pass().is_ok());
        probe.end(true);
        assert!(!breaker.is_open(), "what becomes of it later is one failure");
    }

    #[test]
    fn it_never_stays_open_for_longer_than_it_may() {
        let breaker = Arc::new(Breaker::default());
        fail(&breaker, FAILURES);
        for _ in 0..40 {
            wait_over(&breaker);
            breaker.pass().unwrap().end(true);
        }
        assert!(breaker.pass().unwrap_err().retry_after <= LONGEST);
        breaker.close();
        assert!(breaker.pass().is_ok());
    }
}

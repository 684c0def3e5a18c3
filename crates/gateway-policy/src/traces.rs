//! The number of calls in each trace. The counts stop accidental loops only: a caller can start a
//! new trace.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Maximum number of counted traces.
const TRACES: usize = 100_000;
/// A trace without calls for this time is forgotten.
const IDLE: Duration = Duration::from_mins(30);

/// The counts of calls by trace.
#[derive(Debug, Default)]
pub struct Traces(Mutex<HashMap<u128, Trace>>);

#[derive(Debug, Clone, Copy)]
struct Trace {
    calls: u32,
    last: Instant,
}

impl Traces {
    /// Counts a call of a trace and returns the number of its calls.
    pub fn count(&self, trace: u128, now: Instant) -> u32 {
        let mut traces = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if traces.len() >= TRACES && !traces.contains_key(&trace) {
            traces.retain(|_, trace| now.saturating_duration_since(trace.last) < IDLE);
            // Half of the traces go, so that the search for old ones is rare.
            if traces.len() >= TRACES {
                let mut ages: Vec<_> = traces.values().map(|trace| trace.last).collect();
                let (_, median, _) = ages.select_nth_unstable(TRACES / 2);
                let median = *median;
                traces.retain(|_, trace| trace.last > median);
            }
        }
        let trace = traces.entry(trace).or_insert(Trace { calls: 0, last: now });
        trace.calls = trace.calls.saturating_add(1);
        trace.last = now;
        trace.calls
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces_are_counted_separately() {
        let (traces, now) = (Traces::default(), Instant::now());
        assert_eq!([1, 2, 1].map(|trace| traces.count(trace, now)), [1, 1, 2]);
    }

    #[test]
    fn full_table_forgets_oldest_traces() {
        let (traces, now) = (Traces::default(), Instant::now());
        for trace in 0..TRACES as u128 {
            let at = now + Duration::from_millis(u64::try_from(trace).unwrap());
            assert_eq!(traces.count(trace, at), 1);
        }
        let later = now + Duration::from_mins(2);
        assert_eq!(traces.count(TRACES as u128, later), 1);
        assert_eq!(traces.count(TRACES as u128 - 1, later), 2);
        assert_eq!(traces.count(0, later), 1);
        assert!(traces.0.lock().unwrap().len() <= TRACES);
    }
}

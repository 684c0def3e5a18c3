//! The number and the cost of the calls in each trace. The limits stop accidental loops only: a caller
//! can start a new trace.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use registry_core::Amount;

/// Maximum number of counted traces.
const TRACES: usize = 100_000;
/// A trace without calls for this time is forgotten.
const IDLE: Duration = Duration::from_mins(30);

/// The calls by trace.
#[derive(Debug, Default)]
pub struct Traces(Mutex<HashMap<u128, Trace>>);

#[derive(Debug, Clone, Copy)]
struct Trace {
    totals: TraceTotals,
    last: Instant,
}

/// The number and the cost of the calls in a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TraceTotals {
    /// The number of calls.
    pub calls: u32,
    /// The sum of the charges, and of the prices of calls in flight.
    pub cost: Amount,
}

impl Traces {
    /// Counts a call of a trace and returns the totals with this call.
    pub fn count(&self, trace: u128, price: Amount, now: Instant) -> TraceTotals {
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
        let new = Trace { totals: TraceTotals::default(), last: now };
        let Trace { totals, last } = traces.entry(trace).or_insert(new);
        totals.calls = totals.calls.saturating_add(1);
        totals.cost = totals.cost.saturating_add(price);
        *last = now;
        *totals
    }

    /// Subtracts an amount that was not charged.
    pub fn refund(&self, trace: u128, amount: Amount) {
        let mut traces = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(trace) = traces.get_mut(&trace) {
            trace.totals.cost = trace.totals.cost.saturating_sub(amount);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(traces: &Traces, trace: u128, now: Instant) -> u32 {
        traces.count(trace, Amount::ZERO, now).calls
    }

    #[test]
    fn traces_are_counted_separately() {
        let (traces, now) = (Traces::default(), Instant::now());
        assert_eq!([1, 2, 1].map(|trace| calls(&traces, trace, now)), [1, 1, 2]);
    }

    #[test]
    fn cost_of_trace_excludes_refunds() {
        let (traces, now) = (Traces::default(), Instant::now());
        let price = Amount::from_micros(5);
        assert_eq!(traces.count(1, price, now).cost, price);
        traces.refund(1, Amount::from_micros(3));
        traces.refund(2, price);
        assert_eq!(traces.count(1, price, now).cost, Amount::from_micros(7));
    }

    #[test]
    fn full_table_forgets_oldest_traces() {
        let (traces, now) = (Traces::default(), Instant::now());
        for trace in 0..TRACES as u128 {
            let at = now + Duration::from_millis(u64::try_from(trace).unwrap());
            assert_eq!(calls(&traces, trace, at), 1);
        }
        let later = now + Duration::from_mins(2);
        assert_eq!(calls(&traces, TRACES as u128, later), 1);
        assert_eq!(calls(&traces, TRACES as u128 - 1, later), 2);
        assert_eq!(calls(&traces, 0, later), 1);
        assert!(traces.0.lock().unwrap().len() <= TRACES);
    }
}

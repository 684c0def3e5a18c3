//! Limits of recent traces.

use std::num::{NonZeroU64, NonZeroU128};

use gateway_protocol::trace_context::Parent;

use super::*;
use crate::trace::SpanKind;

fn record(trace: u128, name: &str) -> Arc<SpanRecord> {
    let trace = TraceId::from(NonZeroU128::new(trace).unwrap());
    Arc::new(SpanRecord {
        context: Parent::new(trace, NonZeroU64::MIN.into(), true),
        parent: None,
        kind: SpanKind::Server,
        name: name.into(),
        agent: None,
        server: None,
        client_trace: None,
        task_id: None,
        start_us: 0,
        duration_us: 0,
        outcome: "ok",
        is_failure: false,
        revision: 1,
    })
}

fn newest(ring: &Ring) -> Vec<u128> {
    let number = |id: TraceId| u128::from_str_radix(&id.to_string(), 16).unwrap();
    ring.newest(100).into_iter().map(|(id, _)| number(id)).collect()
}

#[test]
fn traces_and_spans_are_limited_in_number() {
    let ring = Ring::new(RecentTraces { traces: 3, spans: 2, bytes: 1 << 20 });
    for trace in [1, 2, 1, 3, 1, 4] {
        ring.push(record(trace, "a"));
    }
    assert_eq!(newest(&ring), [4, 3, 2]);
    for _ in 0..5 {
        ring.push(record(4, "a"));
    }
    let trace = ring.find(NonZeroU128::new(4).unwrap().into()).unwrap();
    assert_eq!((trace.spans.len(), trace.dropped), (2, 4));
}

#[test]
fn traces_are_limited_in_bytes() {
    let ring = Ring::new(RecentTraces { traces: 1000, spans: 64, bytes: 9_000 });
    for trace in 1..100 {
        ring.push(record(trace, &"x".repeat(3000)));
    }
    assert_eq!(newest(&ring), [99, 98]);
    ring.push(record(100, &"x".repeat(20_000)));
    assert!(newest(&ring).is_empty());
    assert_eq!(ring.lock().bytes, 0);
}

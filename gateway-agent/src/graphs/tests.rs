//! Limits and ends of graphs.

use gateway_policy::Principal;
use gateway_protocol::jsonrpc::Id;
use tokio::time::advance;

use super::*;

fn owner(name: &str) -> TaskOwner {
    TaskOwner::from(Principal::Agent(name))
}

fn trace(name: &str, id: &str) -> RequestTrace {
    RequestTrace { owner: Some(owner(name)), id: id.into(), is_named: true }
}

/// Begins a call with values.
fn begin(
    graphs: &Arc<Graphs>,
    trace: &RequestTrace,
    (id, input): (Option<&str>, &str),
) -> Result<RunningCall, IdInUse> {
    let id = id.map(|id| Id::parse(id).unwrap());
    let (agent, method, kind, protocol) = ("reader", "resources.list", "mcp", "aio");
    let call = StartedCall { id, agent, method, kind, protocol, input, has_values: true };
    graphs.begin(trace, &call)
}

fn ended(output: &str) -> EndedCall<'_> {
    EndedCall { status: Status::Ok, output: Some(output), cost: None }
}

fn statuses(graph: &Graph) -> Vec<Status> {
    graph.calls.iter().filter_map(|call| call.status).collect()
}

#[tokio::test(start_paused = true)]
async fn dropped_call_has_failed() {
    let (graphs, trace) = (Arc::<Graphs>::default(), trace("a", "t"));
    let running = begin(&graphs, &trace, (Some("1"), "{}")).unwrap();
    let dropped = begin(&graphs, &trace, (Some("2"), "{}")).unwrap();
    let pending = statuses(&graphs.find(owner("a"), "t").unwrap());
    assert_eq!(pending, [Status::Pending, Status::Pending]);
    drop(dropped);
    advance(Duration::from_millis(7)).await;
    running.finish(ended("[]"));
    let graph = graphs.find(owner("a"), "t").unwrap();
    assert_eq!(statuses(&graph), [Status::Ok, Status::Error]);
    assert_eq!(graph.calls[0].duration_ms, Some(7));
    assert_eq!(graph.calls[0].output.as_ref().unwrap().get(), "[]");
}

#[tokio::test(start_paused = true)]
async fn ids_are_unique_while_the_trace_is_kept() {
    let (graphs, trace) = (Arc::<Graphs>::default(), trace("a", "t"));
    for id in [Some("1"), Some("\"1\""), None, None] {
        begin(&graphs, &trace, (id, "{}")).unwrap().finish(ended("{}"));
    }
    assert_eq!(begin(&graphs, &trace, (Some("1"), "{}")).unwrap_err(), IdInUse);
    advance(KEPT).await;
    assert!(graphs.find(owner("a"), "t").is_none());
    assert!(begin(&graphs, &trace, (Some("1"), "{}")).is_ok());
}

#[tokio::test(start_paused = true)]
async fn calls_beyond_the_limit_are_counted() {
    let (graphs, trace) = (Arc::<Graphs>::default(), trace("a", "t"));
    for _ in 0..CALLS + 3 {
        begin(&graphs, &trace, (None, "{}")).unwrap().finish(ended("{}"));
    }
    let graph = graphs.find(owner("a"), "t").unwrap();
    assert_eq!((graph.calls.len(), graph.omitted_calls), (CALLS, 3));
}

#[tokio::test(start_paused = true)]
async fn oldest_traces_of_a_principal_are_removed() {
    let graphs = Arc::<Graphs>::default();
    begin(&graphs, &trace("b", "t"), (None, "{}")).unwrap().finish(ended("{}"));
    for number in 0..=OWNER_TRACES {
        let trace = trace("a", &number.to_string());
        begin(&graphs, &trace, (None, "{}")).unwrap().finish(ended("{}"));
    }
    assert!(graphs.find(owner("a"), "0").is_none());
    assert!(graphs.find(owner("a"), "1").is_some() && graphs.find(owner("b"), "t").is_some());
    assert_eq!(graphs.of_all("1").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn memory_of_a_principal_is_limited() {
    let graphs = Arc::<Graphs>::default();
    let value = format!("\"{}\"", "x".repeat(VALUE_BYTES - 2));
    for number in 0..2 * OWNER_BYTES / VALUE_BYTES {
        let trace = trace("a", &(number % 8).to_string());
        begin(&graphs, &trace, (None, &value)).unwrap().finish(ended(&value));
        let stored = graphs.lock();
        assert!(stored.bytes <= OWNER_BYTES, "{}", stored.bytes);
        let sum: usize = stored.traces.values().map(|trace| trace.bytes).sum();
        assert_eq!((stored.bytes, stored.owners[&owner("a")].bytes), (sum, sum));
    }
}

#[tokio::test(start_paused = true)]
async fn all_memory_is_limited() {
    let graphs = Arc::<Graphs>::default();
    let value = format!("\"{}\"", "x".repeat(VALUE_BYTES - 2));
    for number in 0..BYTES / VALUE_BYTES + 16 {
        let trace = trace(&(number / 16).to_string(), "t");
        begin(&graphs, &trace, (None, &value)).unwrap().finish(ended("{}"));
        assert!(graphs.lock().bytes <= BYTES);
    }
    assert!(graphs.find(owner("0"), "t").is_none());
}

#[test]
fn w3c_trace_belongs_to_principal_and_id() {
    let id = |name: &str, trace_id: &str| trace(name, trace_id).w3c();
    assert!(id("a", "t").is_some());
    assert_eq!(id("a", "t"), id("a", "t"));
    assert!(id("a", "t") != id("b", "t") && id("a", "t") != id("a", "u"));
    let generated = RequestTrace { is_named: false, ..trace("a", "t") };
    let anonymous = RequestTrace { owner: None, ..trace("a", "t") };
    assert_eq!((generated.w3c(), anonymous.w3c()), (None, None));
}

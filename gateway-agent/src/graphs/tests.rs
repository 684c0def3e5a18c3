//! Limits and ends of graphs.

use gateway_protocol::jsonrpc::Id;
use tokio::time::advance;

use super::*;

fn owner(name: &str) -> Principal {
    Principal { issuer: "issuer".to_owned(), subject: name.to_owned(), person: None }
}

/// A trace with values.
fn trace(graphs: &Arc<Graphs>, name: &str, id: &str) -> RequestTrace {
    RequestTrace::new(graphs, Some(owner(name)), Some(id), true)
}

fn call(input: &str) -> StartedCall<'_> {
    let (agent, method, protocol) = ("reader", "resources.list", "aio");
    StartedCall { agent, method, kind: Some(AgentType::Mcp), protocol, input }
}

/// Begins a call.
fn begin(
    trace: &mut RequestTrace,
    (id, input): (Option<&str>, &str),
) -> Result<RunningCall, IdInUse> {
    let id = id.map(|id| Id::parse(id).unwrap());
    trace.begin(id, &call(input))
}

/// Runs a call without an id in a trace.
fn run(graphs: &Arc<Graphs>, (name, id): (&str, &str), (input, output): (&str, &str)) {
    begin(&mut trace(graphs, name, id), (None, input)).unwrap().finish(ended(output));
}

/// The graph of a trace of an account.
fn found(graphs: &Graphs, name: &str, id: &str) -> Option<Graph> {
    let own = graphs.own(&Arc::new(owner(name)), id);
    own.map(|(calls, omitted)| graph(id, calls, omitted))
}

fn ended(output: &str) -> EndedCall<'_> {
    EndedCall { status: Status::Ok, output: Some(output), cost: None }
}

fn statuses(graph: &Graph) -> Vec<Status> {
    graph.calls.iter().filter_map(|call| call.status).collect()
}

#[tokio::test(start_paused = true)]
async fn dropped_call_has_failed() {
    let graphs = Arc::<Graphs>::default();
    let mut trace = trace(&graphs, "a", "t");
    let running = begin(&mut trace, (Some("1"), "{}")).unwrap();
    let dropped = begin(&mut trace, (Some("2"), "{}")).unwrap();
    let pending = statuses(&found(&graphs, "a", "t").unwrap());
    assert_eq!(pending, [Status::Pending, Status::Pending]);
    drop(dropped);
    advance(Duration::from_millis(7)).await;
    running.finish(ended("[]"));
    let graph = found(&graphs, "a", "t").unwrap();
    assert_eq!(statuses(&graph), [Status::Ok, Status::Error]);
    assert_eq!(graph.calls[0].duration_ms, Some(7));
    assert_eq!(graph.calls[0].output.as_ref().unwrap().get(), "[]");
}

#[tokio::test(start_paused = true)]
async fn steps_have_the_id_of_their_call() {
    let graphs = Arc::<Graphs>::default();
    let mut trace = trace(&graphs, "a", "t");
    let running = begin(&mut trace, (Some("\"c\""), "{}")).unwrap();
    trace.begin_step(&call("{}")).unwrap().finish(ended("1"));
    trace.begin_step(&call("{}")).unwrap().finish(ended("2"));
    running.finish(ended("{}"));
    let graph = found(&graphs, "a", "t").unwrap();
    let parent = |call: &Call| call.parent.as_ref().map(|id| id.get().to_owned());
    let parents: Vec<_> = graph.calls.iter().map(parent).collect();
    assert_eq!(parents, [None, Some("\"c\"".to_owned()), Some("\"c\"".to_owned())]);
    assert_eq!(graph.calls[1].id.get(), "null");
}

#[tokio::test(start_paused = true)]
async fn ids_are_unique_while_the_trace_is_kept() {
    let graphs = Arc::<Graphs>::default();
    let mut trace = trace(&graphs, "a", "t");
    for id in [Some("1"), Some("\"1\""), None, None] {
        begin(&mut trace, (id, "{}")).unwrap().finish(ended("{}"));
    }
    assert_eq!(begin(&mut trace, (Some("1"), "{}")).unwrap_err(), IdInUse);
    advance(KEPT).await;
    assert!(found(&graphs, "a", "t").is_none());
    assert!(begin(&mut trace, (Some("1"), "{}")).is_ok());
}

#[tokio::test(start_paused = true)]
async fn calls_beyond_the_limit_are_counted() {
    let graphs = Arc::<Graphs>::default();
    for _ in 0..CALLS + 3 {
        run(&graphs, ("a", "t"), ("{}", "{}"));
    }
    let graph = found(&graphs, "a", "t").unwrap();
    assert_eq!((graph.calls.len(), graph.omitted_calls), (CALLS, 3));
}

#[tokio::test(start_paused = true)]
async fn oldest_traces_of_a_principal_are_removed() {
    let graphs = Arc::<Graphs>::default();
    run(&graphs, ("b", "t"), ("{}", "{}"));
    for number in 0..=OWNER_TRACES {
        run(&graphs, ("a", &number.to_string()), ("{}", "{}"));
    }
    assert!(found(&graphs, "a", "0").is_none());
    assert!(found(&graphs, "a", "1").is_some() && found(&graphs, "b", "t").is_some());
    assert_eq!(graphs.of_all("1").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn memory_of_a_principal_is_limited() {
    let graphs = Arc::<Graphs>::default();
    let value = format!("\"{}\"", "x".repeat(VALUE_BYTES - 2));
    for number in 0..2 * OWNER_BYTES / VALUE_BYTES {
        run(&graphs, ("a", &(number % 8).to_string()), (&value, &value));
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
        run(&graphs, (&(number / 16).to_string(), "t"), (&value, "{}"));
        assert!(graphs.lock().bytes <= BYTES);
    }
    assert!(found(&graphs, "0", "t").is_none());
}

#[test]
fn w3c_trace_belongs_to_principal_and_id() {
    let graphs = Arc::<Graphs>::default();
    let id = |name: &str, trace_id: &str| trace(&graphs, name, trace_id).w3c();
    assert!(id("a", "t").is_some());
    assert_eq!(id("a", "t"), id("a", "t"));
    assert!(id("a", "t") != id("b", "t") && id("a", "t") != id("a", "u"));
    let generated = RequestTrace::new(&graphs, Some(owner("a")), None, true);
    let anonymous = RequestTrace::new(&graphs, None, Some("t"), true);
    assert_eq!((generated.w3c(), anonymous.w3c()), (None, None));
}

//! Operations of callers at agents, in both versions and bindings.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use ::a2a::{ErrorKind, Operation, extensions::Extensions};
use futures_util::StreamExt as _;
use gateway_protocol::trace_context::TraceContext;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::{
    agents::{agent, start_at},
    *,
};

/// The message of an error of the agent.
const SAID: &str = "it has ended";

/// The dialects of agents over HTTP/1.1, as operators see them.
const DIALECTS: [&str; 4] = ["a2a-1.0", "a2a-0.3", "a2a-1.0-http-json", "a2a-0.3-http-json"];

/// A request as an agent of a dialect reads it.
#[derive(Debug)]
struct Asked {
    operation: Operation,
    params: Value,
}

/// Reads a request that is in the dialect of the agent.
fn read(dialect: &str, seen: &Received) -> Option<Asked> {
    let version = if dialect.contains("1.0") { "1.0" } else { "0.3" };
    if seen.header("a2a-version") != Some(version) {
        return None;
    }
    let version = ::a2a::Version::parse(version).unwrap();
    if !dialect.ends_with("http-json") {
        let operation = Operation::of_method(version, seen.rpc_method())?;
        return Some(Asked { operation, params: seen.body["params"].clone() });
    }
    let method = seen.http_method.parse().unwrap();
    let (path, _) = seen.path.split_once('?').unwrap_or((&seen.path, ""));
    let route = ::a2a::rest::route(version, &method, path.strip_prefix("/mcp")?).ok()?;
    let params = if route.has_body { seen.body.clone() } else { json!({ "id": route.task }) };
    Some(Asked { operation: route.operation, params })
}

/// A task in the JSON of a dialect.
pub(super) fn task(dialect: &str, state: &str) -> Value {
    let state = match dialect {
        "a2a-0.3" => state.to_owned(),
        _ => format!("TASK_STATE_{}", state.to_uppercase().replace('-', "_")),
    };
    let mut task = json!({ "id": "t", "contextId": "c", "status": { "state": state } });
    if dialect == "a2a-0.3" {
        task["kind"] = "task".into();
    }
    task
}

fn answer(dialect: &str, seen: &Received, result: &Value) -> Reply {
    if dialect.ends_with("http-json") { json_reply(200, result) } else { seen.result(result) }
}

/// Starts an agent of a dialect. It answers probes by itself.
async fn start(
    dialect: &'static str,
    answer: impl Fn(&Asked, &Received) -> Reply + Send + Sync + 'static,
) -> (Server, Arc<Upstreams>) {
    let server = Server::serve(move |seen| {
        let reply = match read(dialect, &seen) {
            None if dialect.ends_with("http-json") => raw_reply(404, "text/plain", b"no"),
            None => seen.unknown_method(),
            Some(asked) if asked.params["id"] == "none" => {
                let failure = ::a2a::Failure::task_not_found("none");
                if dialect.ends_with("http-json") {
                    json_reply(404, &failure.to_rest(::a2a::Version::V1).body)
                } else {
                    seen.error(200, &failure.to_json_rpc())
                }
            }
            Some(asked) => answer(&asked, &seen),
        };
        async move { reply }
    });
    let server = server.await;
    let upstreams = start_at(http_at(&server.url()), limits(), TIMING);
    upstreams.until_up().await;
    (server, upstreams)
}

/// Sends an operation with a time limit of 300 ms.
pub(super) async fn operate(
    upstreams: &Upstreams,
    operation: Operation,
    params: Value,
    events: Option<&mpsc::Sender<Value>>,
) -> Result<Value, Error> {
    let Value::Object(params) = params else { panic!("{params}") };
    let context = RequestContext { hops: Some(2), ..RequestContext::default() };
    let subject = if operation.sends_message() { "skill" } else { "t" };
    let request = AgentRequest {
        request: &::a2a::Request::new(operation, params),
        extensions: &Extensions::default(),
        context: &context,
        timeout: Some(Duration::from_millis(300)),
        trace: &TraceContext::default(),
        quota_key: &None,
        events,
    };
    upstreams.send_to_agent(permit(&agent(), subject), request).await
}

pub(super) fn message() -> Value {
    json!({ "message":
        { "messageId": "m", "role": "ROLE_USER", "parts": [{ "data": { "n": 1 } }] } })
}

/// Streams a message. Returns all events and the outcome.
pub(super) async fn streamed(upstreams: &Upstreams) -> (Vec<Value>, Result<Value, Error>) {
    let (sender, mut channel) = mpsc::channel(1);
    let sent = operate(upstreams, Operation::SendStreamingMessage, message(), Some(&sender));
    let (mut events, mut sent) = (Vec::new(), Box::pin(sent));
    let outcome = loop {
        tokio::select! {
            biased;
            Some(event) = channel.recv() => events.push(event),
            outcome = &mut sent => break outcome,
        }
    };
    events.extend(channel.try_recv());
    (events, outcome)
}

#[tokio::test]
async fn operations_reach_agents_of_all_dialects() {
    for dialect in DIALECTS {
        let (server, upstreams) = start(dialect, move |asked, seen| {
            let task = task(dialect, "completed");
            let is_wrapped = asked.operation == Operation::SendMessage && dialect != "a2a-0.3";
            answer(dialect, seen, &if is_wrapped { json!({ "task": task }) } else { task })
        })
        .await;
        let TargetState::Up { speaks } = upstreams.state() else { panic!("{dialect}") };
        assert_eq!(speaks, dialect);
        let task = task("a2a-1.0", "completed");
        let mut params = message();
        params["metadata"] = json!({ "skillId": "other", "note": 1 });
        let sent = operate(&upstreams, Operation::SendMessage, params, None).await;
        assert_eq!(sent.unwrap(), json!({ "task": task }), "{dialect}");
        for operation in [Operation::GetTask, Operation::CancelTask] {
            let got = operate(&upstreams, operation, json!({ "id": "other" }), None).await;
            assert_eq!(got.unwrap(), task, "{dialect}");
        }
        let asked: Vec<_> =
            server.all_seen().iter().filter_map(|seen| read(dialect, seen)).collect();
        let sent = asked.iter().find(|asked| asked.operation == Operation::SendMessage).unwrap();
        let metadata = &sent.params["message"]["metadata"];
        // 0.3 over HTTP+JSON names the message `request` or `message`.
        let metadata =
            if metadata.is_null() { &sent.params["request"]["metadata"] } else { metadata };
        assert_eq!(metadata["skillId"], "skill", "the permitted skill");
        assert_eq!(sent.params["metadata"], json!({ "note": 1, "registry/hops": 3 }));
        let is_other = |asked: &&Asked| asked.params["id"] == "other";
        assert_eq!(asked.iter().filter(is_other).count(), 0, "the permit names the task");
        upstreams.shutdown().await;
    }
}

#[tokio::test]
async fn blocking_message_waits_for_early_task() {
    let polls = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&polls);
    let (_server, upstreams) = start("a2a-1.0", move |asked, seen| match asked.operation {
        Operation::SendMessage => seen.result(&json!({ "task": task("a2a-1.0", "working") })),
        _ if count.fetch_add(1, Ordering::Relaxed) < 2 => seen.result(&task("a2a-1.0", "working")),
        _ => seen.result(&task("a2a-1.0", "input-required")),
    })
    .await;
    let mut params = message();
    params["configuration"] = json!({ "returnImmediately": true });
    let sent = operate(&upstreams, Operation::SendMessage, params, None).await.unwrap();
    assert_eq!(sent["task"]["status"]["state"], "TASK_STATE_WORKING");
    assert_eq!(polls.load(Ordering::Relaxed), 0);
    let sent = operate(&upstreams, Operation::SendMessage, message(), None).await.unwrap();
    assert_eq!(sent["task"]["status"]["state"], "TASK_STATE_INPUT_REQUIRED");
    upstreams.shutdown().await;
}

#[tokio::test]
async fn blocking_message_returns_running_task_at_time_limit() {
    let (server, upstreams) = start("a2a-1.0", |asked, seen| {
        let task = task("a2a-1.0", "working");
        let is_sent = asked.operation == Operation::SendMessage;
        seen.result(&if is_sent { json!({ "task": task }) } else { task })
    })
    .await;
    let sent = operate(&upstreams, Operation::SendMessage, message(), None).await.unwrap();
    assert_eq!(sent["task"]["status"]["state"], "TASK_STATE_WORKING");
    assert!(server.seen("CancelTask").is_empty());
    upstreams.shutdown().await;
}

#[tokio::test]
async fn error_of_agent_is_returned_with_its_kind() {
    for dialect in DIALECTS {
        let (_server, upstreams) = start(dialect, move |_, seen| {
            let failure = ::a2a::Failure::new(ErrorKind::TaskNotCancelable, SAID);
            if dialect.ends_with("http-json") {
                json_reply(400, &failure.to_rest(::a2a::Version::V1).body)
            } else {
                seen.error(200, &failure.to_json_rpc())
            }
        })
        .await;
        let cancel = operate(&upstreams, Operation::CancelTask, json!({ "id": "t" }), None).await;
        let Err(Error::Agent(failure)) = cancel else { panic!("{cancel:?}") };
        assert_eq!(failure.kind, ErrorKind::TaskNotCancelable, "{dialect}");
        assert_eq!(failure.message, SAID);
        upstreams.shutdown().await;
    }
}

/// Events of a task in 1.0: the task, numbered artifacts, and the last status.
pub(super) fn events(artifacts: usize) -> Vec<Value> {
    let mut events = vec![json!({ "task": task("a2a-1.0", "working") })];
    events.extend((0..artifacts).map(|n| {
        json!({ "artifactUpdate": { "taskId": "t", "contextId": "c",
            "artifact": { "artifactId": "a", "parts": [{ "data": n }] } } })
    }));
    events.push(json!({ "statusUpdate": { "taskId": "t", "contextId": "c",
        "status": { "state": "TASK_STATE_COMPLETED" } } }));
    events
}

/// An event stream of JSON-RPC responses.
fn framed(seen: &Received, events: Vec<Value>) -> Reply {
    let id = seen.body["id"].clone();
    let events = events.into_iter();
    let response = move |event| json!({ "jsonrpc": "2.0", "id": id, "result": event });
    Reply::events(futures_util::stream::iter(events.map(response)))
}

#[tokio::test]
async fn stream_delivers_all_events_in_order() {
    let (_server, upstreams) = start("a2a-1.0", |asked, seen| {
        assert_eq!(asked.operation, Operation::SendStreamingMessage);
        assert_eq!(seen.header("accept"), Some("text/event-stream, application/json"));
        framed(seen, events(50))
    })
    .await;
    let (received, outcome) = streamed(&upstreams).await;
    assert_eq!(received, events(50));
    assert_eq!(outcome.unwrap(), Value::Null);
    upstreams.shutdown().await;
}

#[tokio::test]
async fn stream_without_last_event_is_an_error() {
    let waiting = || {
        json!({ "statusUpdate": { "taskId": "t", "contextId": "c",
            "status": { "state": "TASK_STATE_INPUT_REQUIRED" } } })
    };
    for (end, may_end) in [(None, false), (Some(waiting()), true)] {
        let sent: Vec<_> = events(1).into_iter().take(2).chain(end).collect();
        let served = sent.clone();
        let (_server, upstreams) =
            start("a2a-1.0", move |_, seen| framed(seen, served.clone())).await;
        let (received, outcome) = streamed(&upstreams).await;
        assert_eq!(received, sent);
        if may_end {
            outcome.unwrap();
        } else {
            let error = outcome.unwrap_err();
            let is_closed = matches!(error, Error::Protocol { what: ProtocolViolation::Closed });
            assert!(is_closed && error.may_have_run(), "{error}");
        }
        upstreams.shutdown().await;
    }
}

#[tokio::test]
async fn faulty_streams_end_with_typed_errors() {
    type Respond = fn(&Received) -> Reply;
    type IsExpected = fn(&Error) -> bool;
    let faults: [(Respond, IsExpected); 5] = [
        (
            |seen| {
                let first = futures_util::stream::iter(events(0).into_iter().take(1));
                let id = seen.body["id"].clone();
                let first =
                    first.map(move |event| json!({ "jsonrpc": "2.0", "id": id, "result": event }));
                Reply::events(first.chain(futures_util::stream::pending()))
            },
            |error| matches!(error, Error::Timeout { phase: Phase::Call, after_ms: 300 }),
        ),
        (
            |_| sse_reply([&b"data: nonsense\n\n"[..]]),
            |error| matches!(error, Error::Agent(f) if f.kind == ErrorKind::InvalidAgentResponse),
        ),
        (
            |seen| framed(seen, vec![json!({ "task": "x".repeat(70_000) })]),
            |error| matches!(error, Error::TooLarge { limit_bytes: 65_536 }),
        ),
        (
            |seen| seen.error(200, &json!({ "code": -32004, "message": "no streams" })),
            |error| matches!(error, Error::Agent(f) if f.kind == ErrorKind::UnsupportedOperation),
        ),
        (
            |seen| seen.result(&events(0)[0]),
            |error| matches!(error, Error::Protocol { what: ProtocolViolation::ContentType }),
        ),
    ];
    for (respond, is_expected) in faults {
        let (_server, upstreams) = start("a2a-1.0", move |_, seen| respond(seen)).await;
        let (_, outcome) = streamed(&upstreams).await;
        let error = outcome.unwrap_err();
        assert!(is_expected(&error), "{error:?}");
        upstreams.shutdown().await;
    }
}

#[tokio::test]
async fn agent_waits_while_events_are_not_read() {
    let (_server, upstreams) = start("a2a-1.0", |_, seen| framed(seen, events(3))).await;
    let (sender, mut channel) = mpsc::channel(1);
    let sent = operate(&upstreams, Operation::SendStreamingMessage, message(), Some(&sender));
    let mut sent = Box::pin(sent);
    // The stream stays open while the channel is full.
    assert!(tokio::time::timeout(Duration::from_millis(100), &mut sent).await.is_err());
    let mut received = Vec::new();
    while received.len() < 5 {
        tokio::select! {
            biased;
            Some(event) = channel.recv() => received.push(event),
            outcome = &mut sent => assert_eq!(outcome.unwrap(), Value::Null),
        }
    }
    assert_eq!(received, events(3));
    drop(sent);
    upstreams.shutdown().await;
}

//! Operations of callers at agents, in both versions and bindings.

use std::{
    future::ready,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use ::a2a::{ErrorKind, Operation, extensions::Extensions};
use futures_util::{StreamExt as _, future::join_all};
use gateway_policy::BufferPool;
use gateway_protocol::trace_context::TraceContext;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, SetOnce, mpsc};

use super::{
    agents::{agent, start_at, target_at},
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

/// The context, limits and receivers of an operation.
struct Setting<'a> {
    context: RequestContext,
    limit: Duration,
    events: Option<&'a mpsc::Sender<StreamedEvent>>,
    late: Option<&'a SetOnce<Duration>>,
}

impl Default for Setting<'_> {
    fn default() -> Self {
        let context = RequestContext { hops: Some(2), ..RequestContext::default() };
        Self { context, limit: Duration::from_millis(300), events: None, late: None }
    }
}

async fn operate_in(
    setting: &Setting<'_>,
    upstreams: &Upstreams,
    operation: Operation,
    params: Value,
) -> Result<Value, Error> {
    let Value::Object(params) = params else { panic!("{params}") };
    let subject = if operation.sends_message() { "skill" } else { "t" };
    let request = AgentRequest {
        request: &mut ::a2a::Request::new(operation, params),
        extensions: &Extensions::default(),
        context: &setting.context,
        timeout: Some(setting.limit),
        trace: &TraceContext::default(),
        quota_key: &None,
        events: setting.events,
        late: setting.late,
    };
    upstreams.send_to_agent(permit(&agent(), subject), request).await
}

/// Sends an operation with a time limit of 300 ms.
pub(super) async fn operate(
    upstreams: &Upstreams,
    operation: Operation,
    params: Value,
    events: Option<&mpsc::Sender<StreamedEvent>>,
) -> Result<Value, Error> {
    let setting = Setting { events, ..Setting::default() };
    operate_in(&setting, upstreams, operation, params).await
}

pub(super) fn message() -> Value {
    json!({ "message":
        { "messageId": "m", "role": "ROLE_USER", "parts": [{ "data": { "n": 1 } }] } })
}

/// Streams a message. Returns all events and the outcome.
pub(super) async fn streamed(upstreams: &Upstreams) -> (Vec<Value>, Result<Value, Error>) {
    streamed_by(upstreams, Operation::SendStreamingMessage, message()).await
}

async fn streamed_by(
    upstreams: &Upstreams,
    operation: Operation,
    params: Value,
) -> (Vec<Value>, Result<Value, Error>) {
    streamed_in(Setting::default().context, upstreams, operation, params).await
}

async fn streamed_in(
    context: RequestContext,
    upstreams: &Upstreams,
    operation: Operation,
    params: Value,
) -> (Vec<Value>, Result<Value, Error>) {
    let (sender, mut channel) = mpsc::channel(1);
    let setting = Setting { context, events: Some(&sender), ..Setting::default() };
    let sent = operate_in(&setting, upstreams, operation, params);
    let (mut events, mut sent) = (Vec::new(), Box::pin(sent));
    let outcome = loop {
        tokio::select! {
            biased;
            Some(sent) = channel.recv() => events.push(sent.event.into_value().unwrap()),
            outcome = &mut sent => break outcome,
        }
    };
    events.extend(channel.try_recv().map(|sent| sent.event.into_value().unwrap()));
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
async fn answer_about_another_task_is_an_error() {
    let (_server, upstreams) = start("a2a-1.0", |asked, seen| {
        let mut foreign = task("a2a-1.0", "completed");
        foreign["id"] = "foreign".into();
        match asked.operation {
            Operation::GetTask | Operation::CancelTask => seen.result(&foreign),
            Operation::SendMessage => seen.result(&json!({ "task": foreign })),
            _ => framed(seen, vec![json!({ "task": foreign })]),
        }
    })
    .await;
    let is_invalid = |outcome: &Result<Value, Error>| matches!(outcome, Err(Error::Agent(failure)) if failure.is_invalid_answer());
    let mut follow_up = message();
    follow_up["message"]["taskId"] = "t".into();
    for (operation, params) in [
        (Operation::GetTask, json!({ "id": "t" })),
        (Operation::CancelTask, json!({ "id": "t" })),
        (Operation::SendMessage, follow_up.clone()),
    ] {
        let outcome = operate(&upstreams, operation, params, None).await;
        assert!(is_invalid(&outcome), "{operation:?}: {outcome:?}");
    }
    for (operation, params) in [
        (Operation::SubscribeToTask, json!({ "id": "t" })),
        (Operation::SendStreamingMessage, follow_up),
    ] {
        let (events, outcome) = streamed_by(&upstreams, operation, params).await;
        assert!(events.is_empty() && is_invalid(&outcome), "{operation:?}: {outcome:?}");
    }
    let sent = operate(&upstreams, Operation::SendMessage, message(), None).await.unwrap();
    assert_eq!(sent["task"]["id"], "foreign", "a new task");
    upstreams.shutdown().await;
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
async fn agents_answer_all_messages_immediately() {
    for dialect in DIALECTS {
        let (server, upstreams) = start(dialect, move |_, seen| {
            let task = task(dialect, "completed");
            answer(
                dialect,
                seen,
                &if dialect == "a2a-0.3" { task } else { json!({ "task": task }) },
            )
        })
        .await;
        let mut params = message();
        params["configuration"] = json!({ "returnImmediately": false });
        operate(&upstreams, Operation::SendMessage, params, None).await.unwrap();
        let seen = server.all_seen();
        let mut asked = seen.iter().filter_map(|seen| read(dialect, seen));
        let sent = asked.find(|asked| asked.operation == Operation::SendMessage).unwrap();
        let configuration = &sent.params["configuration"];
        // Protocol Buffers omit `false`.
        let waits = match dialect {
            "a2a-0.3" | "a2a-0.3-http-json" => configuration["blocking"] == true,
            _ => configuration["returnImmediately"] != true,
        };
        assert!(!waits, "{dialect}: {configuration}");
        upstreams.shutdown().await;
    }
}

#[tokio::test]
async fn late_answer_is_read_without_its_caller() {
    let (server, upstreams) = start("a2a-1.0", |_, seen| {
        late(
            Duration::from_millis(600),
            seen.result(&json!({ "task": task("a2a-1.0", "working") })),
        )
    })
    .await;
    let expired = SetOnce::new();
    let setting = Setting { late: Some(&expired), ..Setting::default() };
    let sent = operate_in(&setting, &upstreams, Operation::SendMessage, message()).await.unwrap();
    assert_eq!(expired.get(), Some(&Duration::from_millis(300)));
    assert_eq!(sent["task"]["id"], "t");
    // Without a reader the message ends with the time limit.
    let error = operate(&upstreams, Operation::SendMessage, message(), None).await.unwrap_err();
    assert!(error.may_have_run(), "{error}");
    assert_eq!(server.seen("SendMessage").len(), 2);
    upstreams.shutdown().await;
}

#[tokio::test]
async fn late_first_event_is_read_without_its_caller() {
    let expired = Arc::new(SetOnce::<Duration>::new());
    let first = Arc::clone(&expired);
    let (_server, upstreams) = start("a2a-1.0", move |_, seen| {
        let (expired, id) = (Arc::clone(&first), seen.body["id"].clone());
        let result = json!({ "task": task("a2a-1.0", "completed") });
        Reply::events(futures_util::stream::once(async move {
            expired.wait().await;
            json!({ "jsonrpc": "2.0", "id": id, "result": result })
        }))
    })
    .await;
    let (sender, mut events) = mpsc::channel(1);
    let setting = Setting { late: Some(&expired), events: Some(&sender), ..Setting::default() };
    let operation = Operation::SendStreamingMessage;
    operate_in(&setting, &upstreams, operation, message()).await.unwrap();
    assert_eq!(expired.get(), Some(&Duration::from_millis(300)));
    assert_eq!(events.recv().await.unwrap().event.value().unwrap()["task"]["id"], "t");
    upstreams.shutdown().await;
}

#[tokio::test]
async fn late_answers_are_limited_by_the_queue_only() {
    let answers = Arc::new(Semaphore::new(0));
    let held = Arc::clone(&answers);
    let server = Server::serve(move |seen| {
        let answers = Arc::clone(&held);
        async move {
            match seen.rpc_method() {
                "SendMessage" => {
                    let _ = answers.acquire().await;
                    seen.result(&json!({ "task": task("a2a-1.0", "working") }))
                }
                "GetTask" => seen.error(200, &::a2a::Failure::task_not_found("none").to_json_rpc()),
                _ => seen.unknown_method(),
            }
        }
    });
    let server = server.await;
    let upstreams = start_at(http_at(&server.url()), limits(), TIMING);
    upstreams.until_up().await;
    let expired: Vec<SetOnce<Duration>> = (0..80).map(|_| SetOnce::new()).collect();
    let messages = expired.iter().map(|expired| {
        let limit = Duration::from_secs(1);
        let setting = Setting { late: Some(expired), limit, ..Setting::default() };
        let upstreams = &*upstreams;
        async move { operate_in(&setting, upstreams, Operation::SendMessage, message()).await }
    });
    let release = async {
        let all = join_all(expired.iter().map(SetOnce::wait));
        // A message that fails at once has no expired limit.
        let _ = tokio::time::timeout(Duration::from_secs(10), all).await;
        answers.close();
    };
    let (outcomes, ()) = tokio::join!(join_all(messages), release);
    for outcome in outcomes {
        assert_eq!(outcome.unwrap()["task"]["id"], "t");
    }
    upstreams.shutdown().await;
}

#[tokio::test]
async fn continued_task_is_returned_at_time_limit() {
    let (server, upstreams) = start("a2a-1.0", |asked, seen| match asked.operation {
        Operation::SendMessage => Reply::stall(),
        _ => seen.result(&task("a2a-1.0", "working")),
    })
    .await;
    let mut params = message();
    params["message"]["taskId"] = "t".into();
    let sent = operate(&upstreams, Operation::SendMessage, params, None).await.unwrap();
    assert_eq!(sent["task"]["status"]["state"], "TASK_STATE_WORKING");
    let configuration = &server.seen("SendMessage")[0].body["params"]["configuration"];
    // The immediate answer could be the state before the message.
    assert!(configuration.is_null(), "{configuration}");
    upstreams.shutdown().await;
}

/// Two states of the task fit into the quota of the caller, three do not.
#[tokio::test]
async fn polls_release_the_memory_of_earlier_states() {
    let polls = AtomicUsize::new(0);
    let (_server, upstreams) = start("a2a-1.0", move |asked, seen| {
        let mut current = task("a2a-1.0", "working");
        if asked.operation == Operation::SendMessage {
            return seen.result(&json!({ "task": current }));
        }
        if polls.fetch_add(1, Ordering::Relaxed) == 3 {
            current["status"]["state"] = "TASK_STATE_COMPLETED".into();
        }
        current["artifacts"] =
            json!([{ "artifactId": "a", "parts": [{ "text": "x".repeat(40_000) }] }]);
        seen.result(&current)
    })
    .await;
    let pool = Arc::new(BufferPool::default());
    let buffered = Arc::new(pool.open(None, 4 * 200_000));
    let context = RequestContext { buffered: Some(buffered), ..RequestContext::default() };
    let setting = Setting { context, limit: Duration::from_secs(5), ..Setting::default() };
    let sent = operate_in(&setting, &upstreams, Operation::SendMessage, message()).await.unwrap();
    assert_eq!(sent["task"]["status"]["state"], "TASK_STATE_COMPLETED");
    assert!(pool.total() > 80_000, "the answer counts until it has left the gateway");
    drop(setting);
    assert_eq!(pool.total(), 0);
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

#[tokio::test]
async fn missing_task_starts_no_probe() {
    for dialect in ["a2a-1.0-http-json", "a2a-0.3-http-json"] {
        let (server, upstreams) =
            start(dialect, |_, _| json_reply(404, &json!({ "message": "gone" }))).await;
        let before = server.all_seen().len();
        for _ in 0..5 {
            let got = operate(&upstreams, Operation::GetTask, json!({ "id": "t" }), None).await;
            let Err(Error::Agent(failure)) = got else { panic!("{got:?}") };
            assert_eq!(failure.kind, ErrorKind::TaskNotFound, "{dialect}");
        }
        // One probe has 3 or 4 requests; the target may make one by itself.
        let requests = server.all_seen().len() - before;
        assert!(requests < 10, "{dialect}: {requests}");
        upstreams.shutdown().await;
    }
}

#[tokio::test]
async fn unnamed_404_needs_the_path_of_messages() {
    for has_messages in [true, false] {
        let server = Server::serve(move |seen| {
            let is_message = has_messages && seen.path.ends_with("/message:send");
            ready(match seen.http_method.as_str() {
                "POST" if is_message => {
                    json_reply(200, &json!({ "task": task("a2a-1.0", "completed") }))
                }
                _ if is_message => raw_reply(405, "text/plain", b"no"),
                _ => json_reply(404, &json!({ "detail": "Not Found" })),
            })
        });
        let server = server.await;
        let upstreams = start_at(http_at(&server.url()), limits(), TIMING);
        if has_messages {
            upstreams.until_up().await;
            let sent = operate(&upstreams, Operation::SendMessage, message(), None).await.unwrap();
            assert_eq!(sent["task"]["id"], "t");
            let got = operate(&upstreams, Operation::GetTask, json!({ "id": "t" }), None).await;
            let Err(Error::Agent(failure)) = got else { panic!("{got:?}") };
            assert_eq!(failure.kind, ErrorKind::TaskNotFound);
        } else {
            upstreams.until_down().await;
        }
        upstreams.shutdown().await;
    }
}

#[tokio::test]
async fn rejected_methods_share_one_probe_per_second() {
    let (server, upstreams) = start("a2a-1.0", |_, seen| seen.unknown_method()).await;
    let before = server.seen("GetTask").len();
    let messages = (0..5).map(|_| operate(&upstreams, Operation::SendMessage, message(), None));
    for outcome in join_all(messages).await {
        let Err(Error::Agent(failure)) = outcome else { panic!("{outcome:?}") };
        assert_eq!(failure.kind, ErrorKind::MethodNotFound);
    }
    // The target may make another one by itself.
    let probes = server.seen("GetTask").len() - before;
    assert!((1..3).contains(&probes), "{probes}");
    assert_eq!(server.seen("SendMessage").len(), 5, "the agent has the same version");
    upstreams.shutdown().await;
}

#[tokio::test]
async fn vanished_path_is_probed_and_message_sent_again() {
    let has_moved = Arc::new(AtomicBool::new(false));
    let moved = Arc::clone(&has_moved);
    // `Server::start` refuses GET.
    let server = Server::serve(move |seen| {
        let is_rpc = seen.body["jsonrpc"] == "2.0";
        let failure = ::a2a::Failure::task_not_found("none");
        ready(match (moved.load(Ordering::Relaxed), is_rpc) {
            (false, true) if seen.rpc_method() == "GetTask" => {
                seen.error(200, &failure.to_json_rpc())
            }
            (true, false) if seen.path.ends_with("/message:send") => {
                json_reply(200, &json!({ "task": task("a2a-1.0", "completed") }))
            }
            (true, false) => json_reply(404, &failure.to_rest(::a2a::Version::V1).body),
            _ => raw_reply(404, "text/plain", b"no such page"),
        })
    });
    let server = server.await;
    let upstreams = start_at(http_at(&server.url()), limits(), TIMING);
    upstreams.until_up().await;
    has_moved.store(true, Ordering::Relaxed);
    let sent = operate(&upstreams, Operation::SendMessage, message(), None).await.unwrap();
    assert_eq!(sent["task"]["id"], "t");
    upstreams.shutdown().await;
}

#[tokio::test]
async fn http_json_is_detected_behind_a_redirect() {
    let server = Server::serve(move |seen| {
        let failure = ::a2a::Failure::task_not_found("none");
        let location = format!("{}/", seen.path);
        ready(match seen.path.as_str() {
            "/mcp" => raw_reply(307, "text/plain", b"").with_header("location", &location),
            "/mcp/message:send" => {
                json_reply(200, &json!({ "task": task("a2a-1.0", "completed") }))
            }
            _ => json_reply(404, &failure.to_rest(::a2a::Version::V1).body),
        })
    });
    let server = server.await;
    let upstreams = start_at(http_at(&server.url()), limits(), TIMING);
    upstreams.until_up().await;
    let sent = operate(&upstreams, Operation::SendMessage, message(), None).await.unwrap();
    assert_eq!(sent["task"]["id"], "t");
    assert!(server.all_seen().iter().all(|seen| seen.path != "/mcp/"), "no redirect is followed");
    upstreams.shutdown().await;
}

#[tokio::test]
async fn tenant_of_interface_is_in_each_request() {
    for is_rpc in [true, false] {
        let server = Server::serve(move |seen| {
            let failure = ::a2a::Failure::task_not_found("none");
            let answer = json!({ "task": task("a2a-1.0", "completed") });
            ready(match seen.rpc_method() {
                "GetTask" if is_rpc && seen.body["params"]["tenant"] == "a/b" => {
                    seen.error(200, &failure.to_json_rpc())
                }
                "SendMessage" if is_rpc && seen.body["params"]["tenant"] == "a/b" => {
                    seen.result(&answer)
                }
                "" if seen.path.starts_with("/mcp/a%2Fb/tasks/none") => {
                    json_reply(404, &failure.to_rest(::a2a::Version::V1).body)
                }
                "" if seen.path == "/mcp/a%2Fb/message:send" && seen.body["tenant"].is_null() => {
                    json_reply(200, &answer)
                }
                _ => raw_reply(404, "text/plain", b"no such page"),
            })
        });
        let server = server.await;
        let tenant = Some("a/b".into());
        let target = TargetConfig { tenant, ..target_at(http_at(&server.url())) };
        let upstreams = Upstreams::start_with(&[target], limits(), TIMING);
        upstreams.until_up().await;
        let sent = operate(&upstreams, Operation::SendMessage, message(), None).await.unwrap();
        assert_eq!(sent["task"]["id"], "t");
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
async fn parsed_event_takes_memory_until_it_is_received() {
    for (objects, is_accepted) in [(600, true), (4000, false)] {
        let (_server, upstreams) = start("a2a-1.0", move |_, seen| {
            let data = vec![json!({}); objects];
            let artifact = json!({ "artifactId": "a", "parts": [{ "data": data }] });
            let event = json!({ "artifactUpdate": { "taskId": "t", "contextId": "c",
                "artifact": artifact } });
            let mut sent = events(0);
            let last = sent.split_off(1);
            sent.extend(vec![event; 20]);
            sent.extend(last);
            framed(seen, sent)
        })
        .await;
        let pool = Arc::new(BufferPool::default());
        // A caller has a quarter: a few of the small events, and none of the large ones.
        let buffered = Some(Arc::new(pool.open(None, 8 << 20)));
        let context = RequestContext { buffered, ..RequestContext::default() };
        let operation = Operation::SendStreamingMessage;
        let (received, outcome) = streamed_in(context, &upstreams, operation, message()).await;
        if is_accepted {
            outcome.unwrap();
            assert_eq!(received.len(), 22);
        } else {
            let error = outcome.unwrap_err();
            assert!(matches!(error, Error::QuotaExceeded(_)), "{error:?}");
        }
        assert_eq!(pool.total(), 0);
        upstreams.shutdown().await;
    }
}

#[tokio::test]
async fn stream_without_last_event_is_an_error() {
    let waiting = || {
        json!({ "statusUpdate": { "taskId": "t", "contextId": "c",
            "status": { "state": "TASK_STATE_INPUT_REQUIRED" } } })
    };
    let artifact = || events(1).remove(1);
    for (end, may_end) in
        [(vec![], false), (vec![waiting()], true), (vec![waiting(), artifact()], true)]
    {
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
async fn final_event_of_old_agent_ends_the_stream() {
    let (_server, upstreams) = start("a2a-0.3", |_, seen| {
        let update = json!({ "kind": "status-update", "taskId": "t", "contextId": "c",
            "status": { "state": "working" }, "final": true });
        framed(seen, vec![task("a2a-0.3", "working"), update])
    })
    .await;
    let (received, outcome) = streamed(&upstreams).await;
    outcome.unwrap();
    assert_eq!(received.len(), 2);
    upstreams.shutdown().await;
}

#[tokio::test]
async fn subscription_is_posted_to_agents_without_get() {
    for status in [404, 405] {
        let (server, upstreams) = start("a2a-1.0-http-json", move |_, seen| {
            if seen.http_method == "GET" {
                return raw_reply(status, "text/plain", b"no");
            }
            Reply::events(futures_util::stream::iter(events(1)))
        })
        .await;
        let params = json!({ "id": "t" });
        let (received, outcome) = streamed_by(&upstreams, Operation::SubscribeToTask, params).await;
        outcome.unwrap();
        assert_eq!(received, events(1));
        let posted = server.all_seen().pop().unwrap();
        assert_eq!((posted.http_method.as_str(), posted.body), ("POST", json!({})));
        upstreams.shutdown().await;
    }
}

#[tokio::test]
async fn subscription_to_unknown_task_has_the_first_error() {
    let (_server, upstreams) = start("a2a-1.0-http-json", |_, seen| {
        let failure = ::a2a::Failure::task_not_found("t");
        match seen.http_method.as_str() {
            "GET" => json_reply(404, &failure.to_rest(::a2a::Version::V1).body),
            _ => raw_reply(404, "text/plain", b"no"),
        }
    })
    .await;
    let params = json!({ "id": "t" });
    let (_, outcome) = streamed_by(&upstreams, Operation::SubscribeToTask, params).await;
    let Err(Error::Agent(failure)) = outcome else { panic!("{outcome:?}") };
    assert_eq!(failure.kind, ErrorKind::TaskNotFound);
    upstreams.shutdown().await;
}

#[tokio::test]
async fn old_agent_rejects_subscription_to_ended_task() {
    type Respond = fn(&Received) -> Reply;
    let refusals: [(&str, Respond); 2] = [
        ("a2a-0.3", |seen| seen.error(200, &json!({ "code": -32602, "message": SAID }))),
        ("a2a-0.3-http-json", |_| Reply::events(futures_util::stream::iter(Vec::<Value>::new()))),
    ];
    for (dialect, refuse) in refusals {
        for (state, is_ended) in [("completed", true), ("working", false)] {
            let (_server, upstreams) = start(dialect, move |asked, seen| match asked.operation {
                Operation::GetTask => answer(dialect, seen, &task(dialect, state)),
                _ => refuse(seen),
            })
            .await;
            let params = json!({ "id": "t" });
            let (_, outcome) = streamed_by(&upstreams, Operation::SubscribeToTask, params).await;
            let error = outcome.unwrap_err();
            let is_unsupported = matches!(&error, Error::Agent(failure)
                if failure.kind == ErrorKind::UnsupportedOperation);
            assert_eq!(is_unsupported, is_ended, "{dialect}: {error:?}");
            upstreams.shutdown().await;
        }
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
            |error| matches!(error, Error::Agent(f) if f.is_invalid_answer()),
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
            Some(event) = channel.recv() => received.push(event.event.into_value().unwrap()),
            outcome = &mut sent => assert_eq!(outcome.unwrap(), Value::Null),
        }
    }
    assert_eq!(received, events(3));
    drop(sent);
    upstreams.shutdown().await;
}

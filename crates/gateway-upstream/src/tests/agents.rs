//! Agents that change, fail or lose tasks. A message is sent once.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures_util::StreamExt as _;
use gateway_policy::BufferPool;
use gateway_protocol::jsonrpc::code::METHOD_NOT_FOUND;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::*;

const MESSAGE: Method =
    Method::SendMessage { takes_text: false, gives_text: false, streams: false };
/// A message to an agent whose card has streams.
const STREAMED: Method =
    Method::SendMessage { takes_text: false, gives_text: false, streams: true };

pub(super) fn agent() -> Key {
    "agent/team/under-test@1.0.0".parse().unwrap()
}

/// Starts an agent with these responses. It answers version probes by itself: it supports only this
/// version.
async fn fake(
    answer: impl Fn(&Received) -> Reply + Send + Sync + 'static,
) -> (Server, Arc<Upstreams>) {
    let fake = Server::start(move |seen| {
        let is_look = seen.rpc_method() == "GetTask" && seen.body["params"]["id"] == "none";
        if is_look {
            seen.error(200, &json!({ "code": -32001, "message": "?" }))
        } else {
            answer(seen)
        }
    });
    started(fake.await).await
}

/// Starts the upstreams.
fn start_with(fake: &Server) -> Arc<Upstreams> {
    start_timed(fake, limits(), TIMING)
}

fn start_timed(fake: &Server, limits: UpstreamLimits, timing: Timing) -> Arc<Upstreams> {
    start_at(transport(fake), limits, timing)
}

pub(super) fn start_at(
    transport: TransportConfig,
    limits: UpstreamLimits,
    timing: Timing,
) -> Arc<Upstreams> {
    Upstreams::start_with(&[target_at(transport)], limits, timing)
}

pub(super) fn target_at(transport: TransportConfig) -> TargetConfig {
    target_of(agent(), transport)
}

async fn started(fake: Server) -> (Server, Arc<Upstreams>) {
    let upstreams = start_with(&fake);
    upstreams.until_up().await;
    (fake, upstreams)
}

pub(super) async fn ask(upstreams: &Upstreams) -> Result<Value, Error> {
    ask_with(upstreams, MESSAGE, "{}").await
}

async fn ask_with(upstreams: &Upstreams, method: Method, arguments: &str) -> Result<Value, Error> {
    ask_in(&RequestContext::default(), upstreams, method, arguments).await
}

async fn ask_in(
    context: &RequestContext,
    upstreams: &Upstreams,
    method: Method,
    arguments: &str,
) -> Result<Value, Error> {
    let arguments = RawValue::from_string(arguments.to_owned()).unwrap();
    let request = Request {
        arguments: Some(&arguments),
        is_repeatable: false,
        ..Request::plain(method, &[], context)
    };
    let result = upstreams.send(permit(&agent(), "skill"), request).await?;
    Ok(serde_json::from_str(result.result.get()).unwrap())
}

fn task(seen: &Received, state: &str) -> Reply {
    let task = json!({ "id": "t", "status": { "state": state }, "artifacts":
        [{ "parts": [{ "data": { "made": true } }] }] });
    let is_told = seen.rpc_method() == "GetTask";
    seen.result(&if is_told { task } else { json!({ "task": task }) })
}

#[tokio::test]
async fn agent_version_is_detected_and_redetected() {
    let is_new = Arc::new(AtomicBool::new(false));
    let knows = Arc::clone(&is_new);
    let fake = Server::start(move |seen| {
        let is_v1 = !seen.rpc_method().contains('/');
        assert_eq!(seen.header("a2a-version"), Some(if is_v1 { "1.0" } else { "0.3" }));
        assert_eq!(seen.header("authorization"), Some("Bearer ours"));
        match seen.rpc_method() {
            _ if is_v1 != knows.load(Ordering::Relaxed) => {
                seen.error(200, &json!({ "code": METHOD_NOT_FOUND, "message": "?" }))
            }
            "SendMessage" => seen.result(&json!({ "message": { "parts": [{ "data": 1 }] } })),
            "message/send" => {
                seen.result(&json!({ "kind": "message", "parts": [{ "kind": "data", "data": 3 }] }))
            }
            _ => seen.error(200, &json!({ "code": -32001, "message": "?" })),
        }
    });
    let (fake, upstreams) = started(fake.await).await;
    assert!(matches!(upstreams.state(), TargetState::Up { speaks: "a2a-0.3" }));
    assert_eq!(ask(&upstreams).await.unwrap()["structuredContent"], 3);
    is_new.store(true, Ordering::Relaxed);
    assert_eq!(ask(&upstreams).await.unwrap()["structuredContent"], 1);
    assert_eq!(ask(&upstreams).await.unwrap()["structuredContent"], 1);
    assert_eq!((fake.seen("message/send").len(), fake.seen("SendMessage").len()), (2, 2));
    assert!(upstreams.listed().is_empty());
    upstreams.shutdown().await;
}

#[tokio::test]
async fn text_skill_sends_and_returns_text() {
    let (fake, upstreams) =
        fake(|seen| seen.result(&json!({ "message": { "parts": [{ "text": "1.10" }] } }))).await;
    let text = r#"{"text":"how much?"}"#;
    for (takes_text, gives_text, part, value) in [
        (true, true, json!({ "text": "how much?" }), json!("1.10")),
        (false, false, json!({ "data": { "text": "how much?" } }), json!(1.1)),
    ] {
        let method = Method::SendMessage { takes_text, gives_text, streams: false };
        let result = ask_with(&upstreams, method, text).await.unwrap();
        assert_eq!(result["structuredContent"], value);
        let sent = fake.seen("SendMessage").pop().unwrap();
        assert_eq!(sent.body["params"]["message"]["parts"], json!([part]));
        assert_eq!(sent.header("accept"), Some("application/json"));
    }
    upstreams.shutdown().await;
}

#[tokio::test]
async fn agent_without_supported_version_is_down() {
    const WRONG_VERSION: i64 = -32009;
    for (codes, expected) in [
        ([METHOD_NOT_FOUND; 2], ProtocolViolation::NoTaskMethod),
        ([METHOD_NOT_FOUND, WRONG_VERSION], ProtocolViolation::NoTaskMethod),
        ([WRONG_VERSION; 2], ProtocolViolation::NoCommonVersion),
    ] {
        let refuse = move |seen: &Received| {
            let is_legacy = seen.rpc_method().contains('/');
            seen.error(200, &json!({ "code": codes[usize::from(is_legacy)], "message": "?" }))
        };
        let fake = Server::start(refuse).await;
        let upstreams = start_with(&fake);
        eventually(|| async { matches!(upstreams.state(), TargetState::Down { .. }) }).await;
        let error = ask(&upstreams).await.unwrap_err();
        assert!(matches!(&error, Error::Protocol { what } if *what == expected), "{error}");
        assert!(!error.may_have_run());
        assert!(fake.seen("SendMessage").is_empty());
        upstreams.shutdown().await;
    }
}

#[tokio::test]
async fn unsupported_version_is_recognized_in_all_forms() {
    type Respond = fn(&Received) -> Reply;
    let refusals: [Respond; 4] = [
        |seen| seen.error(200, &json!({ "code": -32600, "message": "no such method" })),
        |seen| seen.error(200, &json!({ "code": -32603, "message": "?" })),
        |seen| seen.error(400, &json!({ "code": -32602, "message": "?" })),
        |_| raw_reply(404, "text/plain", b"no such page"),
    ];
    for refuse in refusals {
        let fake = Server::start(move |seen| match seen.rpc_method() {
            "message/send" => {
                seen.result(&json!({ "kind": "message", "parts": [{ "kind": "data", "data": 3 }] }))
            }
            "tasks/get" => seen.error(200, &json!({ "code": -32001, "message": "?" })),
            _ => refuse(seen),
        });
        let (_fake, upstreams) = started(fake.await).await;
        assert!(matches!(upstreams.state(), TargetState::Up { speaks: "a2a-0.3" }));
        assert_eq!(ask(&upstreams).await.unwrap()["structuredContent"], 3);
        upstreams.shutdown().await;
    }
}

#[tokio::test]
async fn uncertain_probe_keeps_known_version() {
    let is_odd = Arc::new(AtomicBool::new(false));
    let odd = Arc::clone(&is_odd);
    let fake = Server::start(move |seen| match seen.rpc_method() {
        "message/send" => seen.result(&json!({ "kind": "message", "parts": [{ "data": 3 }] })),
        "GetTask" if !odd.load(Ordering::Relaxed) => {
            seen.error(200, &json!({ "code": METHOD_NOT_FOUND, "message": "?" }))
        }
        _ => seen.error(200, &json!({ "code": -32603, "message": "busy" })),
    });
    let (fake, upstreams) = started(fake.await).await;
    is_odd.store(true, Ordering::Relaxed);
    // The second check starts once the gateway has the response to the first.
    for _ in 0..2 {
        let looks = fake.seen("tasks/get").len();
        assert_eq!(upstreams.check(&agent().into()), Some(true));
        eventually(|| async { fake.seen("tasks/get").len() > looks }).await;
    }
    assert!(matches!(upstreams.state(), TargetState::Up { speaks: "a2a-0.3" }));
    upstreams.shutdown().await;
}

#[tokio::test]
async fn vanished_agent_is_noticed_without_a_message() {
    let is_gone = Arc::new(AtomicBool::new(false));
    let gone = Arc::clone(&is_gone);
    let fake = Server::start(move |seen| {
        if gone.load(Ordering::Relaxed) {
            raw_reply(503, "text/plain", b"gone")
        } else {
            seen.error(200, &json!({ "code": -32001, "message": "?" }))
        }
    });
    let fake = fake.await;
    let often = Timing { check: Duration::from_millis(20), ..TIMING };
    let upstreams = start_timed(&fake, limits(), often);
    upstreams.until_up().await;
    is_gone.store(true, Ordering::Relaxed);
    eventually(|| async { matches!(upstreams.state(), TargetState::Down { .. }) }).await;
    upstreams.shutdown().await;
}

#[tokio::test]
async fn failed_version_probe_means_nothing_ran() {
    type Respond = fn(&Received) -> Reply;
    let answers: [(Respond, &str); 4] = [
        (|_| raw_reply(500, "text/plain", b""), "HTTP status 500"),
        (|_| raw_reply(404, "text/plain", b""), "HTTP status 404"),
        (|_| raw_reply(200, "text/html", b"<p>"), "an unexpected media type"),
        (|seen| seen.result(&json!("x".repeat(70_000))), "exceeds 65536"),
    ];
    for (answer, why) in answers {
        let fake = Server::start(answer).await;
        let upstreams = start_with(&fake);
        let error = ask(&upstreams).await.unwrap_err();
        assert!(!error.may_have_run() && error.to_string().contains(why), "{error}");
        assert!(fake.seen("SendMessage").is_empty());
        upstreams.shutdown().await;
    }
}

#[tokio::test]
async fn concurrent_callers_share_one_version_probe() {
    for (list_timeout_ms, call_timeout_ms) in [(200, 2_000), (200, 300), (2_000, 200)] {
        let fake = Server::start(|_| Reply::stall()).await;
        let limits = UpstreamLimits { list_timeout_ms, call_timeout_ms, ..limits() };
        let upstreams = start_timed(&fake, limits, TIMING);
        let asked = futures_util::future::join_all((0..20).map(|_| ask(&upstreams))).await;
        for outcome in asked {
            let error = outcome.unwrap_err();
            assert!(!error.may_have_run(), "{error}");
            assert!(error.to_string().contains("within 200 ms"), "{error}");
        }
        let looks = fake.seen("GetTask").len();
        assert!(looks < 5, "{looks}");
        assert!(fake.seen("SendMessage").is_empty());
        upstreams.shutdown().await;
    }
}

#[tokio::test]
async fn task_is_polled_despite_failed_polls() {
    let asked = AtomicUsize::new(0);
    let (fake, upstreams) = fake(move |seen| match seen.rpc_method() {
        "SendMessage" => task(seen, "TASK_STATE_SUBMITTED"),
        "GetTask" => match asked.fetch_add(1, Ordering::Relaxed) {
            0 => Reply::Close(Vec::new()),
            1 => raw_reply(503, "text/plain", b"starting"),
            2 => task(seen, "TASK_STATE_WORKING"),
            3 => seen.result(&json!({ "id": "other", "status": { "state": "submitted" } })),
            4 => seen.error(200, &json!({ "code": -32603, "message": "busy" })),
            5 => raw_reply(429, "text/plain", b"later"),
            _ => task(seen, "TASK_STATE_COMPLETED"),
        },
        method => panic!("{method}"),
    })
    .await;
    assert_eq!(ask(&upstreams).await.unwrap()["structuredContent"], json!({ "made": true }));
    assert_eq!(fake.seen("SendMessage").len(), 1);
    let asked: Vec<_> = fake.seen("GetTask");
    let ids: Vec<_> = asked.iter().map(|seen| &seen.body["params"]["id"]).collect();
    assert_eq!(ids[ids.len() - 7..], ["t"; 7]);
    upstreams.shutdown().await;
}

#[tokio::test]
async fn task_without_status_has_unknown_outcome() {
    type Respond = fn(&Received) -> Reply;
    let answers: [Respond; 3] = [
        |seen| seen.error(200, &json!({ "code": -32001, "message": "gone" })),
        |_| raw_reply(401, "text/plain", b""),
        |seen| seen.result(&json!({ "id": "t" })),
    ];
    let mut told = Vec::new();
    for answer in answers {
        let (fake, upstreams) = fake(move |seen| match seen.rpc_method() {
            "SendMessage" => task(seen, "TASK_STATE_WORKING"),
            "GetTask" => answer(seen),
            _ => seen.result(&json!({})),
        })
        .await;
        let error = ask(&upstreams).await.unwrap_err();
        assert!(error.may_have_run());
        let Error::OpenTask { why, said } = error else { panic!("{error}") };
        told.push(format!("{why} / {said:?}"));
        eventually(|| async { fake.seen("CancelTask").len() == 1 }).await;
        assert_eq!(fake.seen("SendMessage").len(), 1);
        upstreams.shutdown().await;
    }
    insta::assert_snapshot!(told.join("\n"), @r#"
    the outcome of the agent's task is unknown / Some("gone")
    the outcome of the agent's task is unknown: the upstream rejected the gateway's request (HTTP 401) / None
    the outcome of the agent's task is unknown: the upstream violated the protocol: the result of GetTask is malformed / None
    "#);
}

#[tokio::test]
async fn abandoned_running_task_is_canceled() {
    let is_over = Arc::new(AtomicBool::new(false));
    let over = Arc::clone(&is_over);
    let (fake, upstreams) = fake(move |seen| match seen.rpc_method() {
        "SendMessage" if over.load(Ordering::Relaxed) => task(seen, "TASK_STATE_COMPLETED"),
        "SendMessage" | "GetTask" => task(seen, "TASK_STATE_WORKING"),
        _ => seen.result(&json!({})),
    })
    .await;
    assert!(timeout(Duration::from_millis(200), ask(&upstreams)).await.is_err());
    eventually(|| async { fake.seen("CancelTask").len() == 1 }).await;
    assert_eq!(fake.seen("CancelTask")[0].body["params"], json!({ "id": "t" }));
    is_over.store(true, Ordering::Relaxed);
    // A cancellation of the first task would arrive before the end of the second.
    for _ in 0..2 {
        ask(&upstreams).await.unwrap();
    }
    assert_eq!(fake.seen("CancelTask").len(), 1);
    upstreams.shutdown().await;
}

#[tokio::test]
async fn task_started_after_disconnect_is_canceled() {
    let after = Duration::from_millis(300);
    let (fake, upstreams) = fake(move |seen| match seen.rpc_method() {
        "SendMessage" => late(after, task(seen, "TASK_STATE_WORKING")),
        _ => seen.result(&json!({})),
    })
    .await;
    assert!(timeout(Duration::from_millis(100), ask(&upstreams)).await.is_err());
    assert!(fake.seen("CancelTask").is_empty());
    eventually(|| async { fake.seen("CancelTask").len() == 1 }).await;
    assert_eq!(fake.seen("CancelTask")[0].body["params"], json!({ "id": "t" }));
    // This also holds if the gateway stops meanwhile.
    assert!(timeout(Duration::from_millis(100), ask(&upstreams)).await.is_err());
    upstreams.shutdown().await;
    assert_eq!(fake.seen("CancelTask").len(), 2);
    assert_eq!(fake.seen("SendMessage").len(), 2);
}

/// The events of a stream whose task has the id `t`. The stream stays open if it `hangs`.
fn events(seen: &Received, results: Vec<Value>, hangs: bool) -> Reply {
    let id = seen.body["id"].clone();
    let response = move |result| json!({ "jsonrpc": "2.0", "id": id, "result": result });
    let events = futures_util::stream::iter(results.into_iter().map(response));
    if hangs {
        return Reply::events(events.chain(futures_util::stream::pending()));
    }
    Reply::events(events)
}

fn begun() -> Value {
    json!({ "task": { "id": "t", "status": { "state": "TASK_STATE_WORKING" } } })
}

fn piece(text: &str, append: bool) -> Value {
    let artifact = json!({ "artifactId": "a", "parts": [{ "text": text }] });
    json!({ "artifactUpdate": { "taskId": "t", "artifact": artifact, "append": append } })
}

fn polls(fake: &Server) -> usize {
    let polls = fake.seen("GetTask");
    polls.iter().filter(|seen| seen.body["params"]["id"] == "t").count()
}

#[tokio::test]
async fn streamed_message_returns_the_assembled_task() {
    let (fake, upstreams) = fake(|seen| {
        let ended = json!({ "statusUpdate": { "taskId": "t",
            "status": { "state": "TASK_STATE_COMPLETED" } } });
        events(seen, vec![begun(), piece("a b", false), piece(" c", true), ended], true)
    })
    .await;
    let result = ask_with(&upstreams, STREAMED, "{}").await.unwrap();
    assert_eq!(result["structuredContent"], "a b c");
    assert_eq!((fake.seen("SendStreamingMessage").len(), polls(&fake)), (1, 0));
    upstreams.shutdown().await;
}

#[tokio::test]
async fn interrupted_stream_is_polled() {
    let (fake, upstreams) = fake(|seen| match seen.rpc_method() {
        "SendStreamingMessage" => events(seen, vec![begun(), piece("half", false)], false),
        _ => task(seen, "TASK_STATE_COMPLETED"),
    })
    .await;
    let result = ask_with(&upstreams, STREAMED, "{}").await.unwrap();
    assert_eq!(result["structuredContent"], json!({ "made": true }));
    assert_eq!((fake.seen("SendStreamingMessage").len(), polls(&fake)), (1, 1));
    upstreams.shutdown().await;
}

#[tokio::test]
async fn artifacts_beyond_the_limit_are_polled() {
    let (fake, upstreams) = fake(|seen| match seen.rpc_method() {
        "SendStreamingMessage" => {
            let pieces = (0..3).map(|_| piece(&"x".repeat(30_000), true));
            events(seen, std::iter::once(begun()).chain(pieces).collect(), true)
        }
        _ => task(seen, "TASK_STATE_COMPLETED"),
    })
    .await;
    let result = ask_with(&upstreams, STREAMED, "{}").await.unwrap();
    assert_eq!(result["structuredContent"], json!({ "made": true }));
    assert_eq!(polls(&fake), 1);
    upstreams.shutdown().await;
}

/// Two artifacts fit into the quota of the caller, three do not.
#[tokio::test]
async fn artifacts_without_memory_are_polled() {
    let (fake, upstreams) = fake(|seen| match seen.rpc_method() {
        "SendStreamingMessage" => {
            let pieces = (0..3).map(|_| piece(&"x".repeat(15_000), true));
            events(seen, std::iter::once(begun()).chain(pieces).collect(), true)
        }
        _ => task(seen, "TASK_STATE_COMPLETED"),
    })
    .await;
    let pool = Arc::new(BufferPool::default());
    let buffered = Some(Arc::new(pool.open(None, 4 * 70_000)));
    let context = RequestContext { buffered, ..RequestContext::default() };
    let result = ask_in(&context, &upstreams, STREAMED, "{}").await.unwrap();
    assert_eq!(result["structuredContent"], json!({ "made": true }));
    assert_eq!(polls(&fake), 1);
    upstreams.shutdown().await;
}

#[tokio::test]
async fn agent_without_streams_gets_a_plain_message() {
    let (fake, upstreams) = fake(|seen| match seen.rpc_method() {
        "SendStreamingMessage" => {
            seen.error(200, &json!({ "code": -32004, "message": "no streams" }))
        }
        _ => task(seen, "TASK_STATE_COMPLETED"),
    })
    .await;
    let result = ask_with(&upstreams, STREAMED, "{}").await.unwrap();
    assert_eq!(result["structuredContent"], json!({ "made": true }));
    assert_eq!(fake.seen("SendMessage").len(), 1);
    upstreams.shutdown().await;
}

#[tokio::test]
async fn task_of_abandoned_stream_is_canceled() {
    let (fake, upstreams) = fake(|seen| match seen.rpc_method() {
        "SendStreamingMessage" => events(seen, vec![begun()], true),
        _ => seen.result(&json!({})),
    })
    .await;
    let asked = ask_with(&upstreams, STREAMED, "{}");
    assert!(timeout(Duration::from_millis(200), asked).await.is_err());
    eventually(|| async { fake.seen("CancelTask").len() == 1 }).await;
    assert_eq!(fake.seen("CancelTask")[0].body["params"], json!({ "id": "t" }));
    upstreams.shutdown().await;
}

#[tokio::test]
async fn abandoned_messages_are_limited() {
    let (fake, upstreams) = fake(|_| Reply::stall()).await;
    for _ in 0..70 {
        assert!(timeout(Duration::from_millis(10), ask(&upstreams)).await.is_err());
    }
    let open = || fake.seen("SendMessage").len() - fake.cut_off();
    eventually(|| async { open() == 64 }).await;
    // Another message evicts one.
    assert!(timeout(Duration::from_millis(10), ask(&upstreams)).await.is_err());
    eventually(|| async { fake.seen("SendMessage").len() == 71 && open() == 64 }).await;
}

#[tokio::test]
async fn message_is_sent_once_for_any_response() {
    type Respond = fn(&Received) -> Reply;
    let answers: [(Respond, &str); 5] = [
        (|_| Reply::Close(Vec::new()), "the connection closed"),
        (|_| raw_reply(200, "text/html", b"<p>"), "an unexpected media type"),
        (|_| raw_reply(500, "text/plain", b"oops"), "HTTP status 500"),
        (|seen| seen.result(&json!({ "task": {} })), "is malformed"),
        (|seen| seen.result(&json!({ "message": "x".repeat(70_000) })), "exceeds 65536"),
    ];
    for (answer, why) in answers {
        let (fake, upstreams) = fake(answer).await;
        let error = ask(&upstreams).await.unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
        assert_eq!(fake.seen("SendMessage").len(), 1);
        upstreams.shutdown().await;
    }
    // These codes have other meanings in MCP.
    for code in [-32005, METHOD_NOT_FOUND, -32009, -32020, -32022] {
        let (fake, upstreams) =
            fake(move |seen| seen.error(200, &json!({ "code": code, "message": "no such type" })))
                .await;
        let error = ask(&upstreams).await.unwrap_err();
        assert!(
            matches!(&error, Error::Agent(failure) if failure.message == "no such type"),
            "{error}"
        );
        assert_eq!(fake.seen("SendMessage").len(), 1);
        upstreams.shutdown().await;
    }
}

#[tokio::test]
async fn attempts_of_a_message_have_one_id() {
    let is_lost = AtomicBool::new(true);
    let (fake, upstreams) = fake(move |seen| {
        if seen.rpc_method() == "SendMessage" && is_lost.swap(false, Ordering::SeqCst) {
            return Reply::Close(Vec::new());
        }
        seen.result(&json!({ "message": { "parts": [{ "data": 1 }] } }))
    })
    .await;
    let context = RequestContext::default();
    let request = Request { is_repeatable: true, ..Request::plain(MESSAGE, &[], &context) };
    upstreams.send(permit(&agent(), "skill"), request).await.unwrap();
    ask(&upstreams).await.unwrap();
    let sent = fake.seen("SendMessage");
    let ids: Vec<_> =
        sent.iter().map(|seen| &seen.body["params"]["message"]["messageId"]).collect();
    assert!(ids.len() == 3 && ids[0] == ids[1] && ids[1] != ids[2], "{ids:?}");
    upstreams.shutdown().await;
}

#[tokio::test]
async fn card_is_read_from_the_target_only() {
    let elsewhere = Server::start(|_| raw_reply(404, "text/plain", b"no")).await;
    let other = elsewhere.url();
    let card = json!({ "name": "under-test", "url": other, "protocolVersion": "0.3.0" });
    let text = card.to_string();
    let server = Server::serve(move |seen| {
        let is_known = seen.header("authorization") == Some("Bearer ours");
        let reply = match seen.path.as_str() {
            _ if !is_known => raw_reply(401, "text/plain", b"no"),
            "/mcp/.well-known/agent-card.json" => {
                raw_reply(302, "text/plain", b"").with_header("location", &other)
            }
            "/.well-known/agent-card.json" => json_reply(200, &card),
            _ if seen.http_method == "GET" => raw_reply(404, "text/plain", b"no"),
            _ => seen.error(200, &json!({ "code": -32001, "message": "?" })),
        };
        async move { reply }
    });
    let upstreams = start_at(transport(&server.await), limits(), TIMING);
    let mut definitions = upstreams.definitions();
    let card = |all: &Definitions| Some(all.find(&agent())?.card()?.to_owned());
    let found = definitions.wait_for(|all| card(all).is_some());
    let found = card(&timeout(Duration::from_secs(5), found).await.unwrap().unwrap());
    assert_eq!(found, Some(text));
    assert_eq!(elsewhere.connections(), 0);
    upstreams.shutdown().await;
}

//! Agents that hang, disconnect, send invalid data, flood and disappear: each operation ends in
//! time with an error, the next one succeeds, and no memory is retained.

use std::time::{Duration, Instant};

use acceptance::{Gateway, eventually};
use futures_util::stream;
use gateway_testkit::{Received, Reply, Server, empty, json_reply, raw_reply};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::{Agent, Caller, Scene, skill};

pub(super) const LIMITS: &str = "limits: { responseBytes: 1000000, callTimeoutMs: 2000 }\n";
pub(super) const HUNDRED_MB: usize = 100 << 20;
/// More than the time limit of a call, and less than two of them.
pub(super) const PROMPT: Duration = Duration::from_secs(4);

const JSON_HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
/// Without a length: the body ends with the connection.
const EVENTS_HEAD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";

/// The text of the first part of a message, which selects the fault.
fn fault_of(received: &Received) -> String {
    let text = received.body.pointer("/params/message/parts/0/text");
    text.and_then(Value::as_str).unwrap_or_default().to_owned()
}

pub(super) fn task(state: &str) -> Value {
    json!({ "id": "task-1", "contextId": "context-1", "status": { "state": state } })
}

pub(super) fn artifact(text: &str) -> Value {
    json!({ "artifactUpdate": { "taskId": "task-1", "contextId": "context-1",
        "artifact": { "artifactId": "a", "parts": [{ "text": text }] } } })
}

pub(super) fn status(state: &str) -> Value {
    json!({ "statusUpdate": { "taskId": "task-1", "contextId": "context-1",
        "status": { "state": state } } })
}

pub(super) const WORKING: &str = "TASK_STATE_WORKING";
pub(super) const COMPLETED: &str = "TASK_STATE_COMPLETED";

/// A hundred megabytes of text as a JSON-RPC response with one artifact.
fn huge(received: &Received) -> String {
    let mut task = task(COMPLETED);
    task["artifacts"] = json!([{ "artifactId": "a", "parts": [{ "text": "TEXT" }] }]);
    let response =
        json!({ "jsonrpc": "2.0", "id": received.body["id"], "result": { "task": task } });
    response.to_string().replace("TEXT", &"x".repeat(HUNDRED_MB))
}

fn unary(received: &Received) -> Reply {
    let good = json!({ "message": { "messageId": "reply-1", "role": "ROLE_AGENT",
        "contextId": "context-1", "parts": [{ "text": "good" }] } });
    let json = |body: &[u8]| raw_reply(200, "application/json", body);
    match fault_of(received).as_str() {
        "" => received.result(&good),
        "hangs" => Reply::stall(),
        "hangs in its head" => Reply::Hang(b"HTTP/1.1 200 OK\r\ncontent-type: appl".to_vec()),
        "hangs in its body" => {
            Reply::Hang(format!("{JSON_HEAD}content-length: 1000\r\n\r\n{{").into_bytes())
        }
        "resets" => Reply::Reset,
        "closes" => Reply::Close(Vec::new()),
        "closes in its body" => {
            Reply::Close(format!("{JSON_HEAD}content-length: 1000\r\n\r\n{{").into_bytes())
        }
        "sends no JSON" => json(b"<html>"),
        "sends half of it" => json(&good.to_string().as_bytes()[..30]),
        "sends no result" => {
            json_reply(200, &json!({ "jsonrpc": "2.0", "id": received.body["id"] }))
        }
        "sends another id" => {
            json_reply(200, &json!({ "jsonrpc": "2.0", "id": 999_999, "result": good }))
        }
        "sends neither task nor message" => received.result(&json!({ "unknown": {} })),
        "sends a task without id" => {
            received.result(&json!({ "task": { "status": { "state": COMPLETED } } }))
        }
        "sends a task of unknown state" => received.result(&json!({ "task": task("DONE") })),
        "is too deep" => {
            let nested = format!("{}{}", "[".repeat(50_000), "]".repeat(50_000));
            json(format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{nested}}}").as_bytes())
        }
        "is huge" => json(huge(received).as_bytes()),
        "floods" => Reply::Flood(format!("{JSON_HEAD}connection: close\r\n\r\n").into_bytes()),
        "redirects" => {
            empty(307).with_header("location", "http://169.254.169.254/latest/meta-data/")
        }
        other => panic!("`{other}`"),
    }
}

fn streaming(received: &Received) -> Reply {
    let event = |result: Value| {
        let message = json!({ "jsonrpc": "2.0", "id": received.body["id"], "result": result });
        format!("data: {message}\n\n")
    };
    let begun = format!("{EVENTS_HEAD}{}", event(json!({ "task": task(WORKING) })));
    let close = |more: &str| Reply::Close(format!("{begun}{more}").into_bytes());
    let end = event(status(COMPLETED));
    match fault_of(received).as_str() {
        "" => close(&format!("{}{end}", event(artifact("good")))),
        "continues after its end" => close(&format!("{end}{}", event(artifact("late")))),
        "hangs" => Reply::Hang(begun.into_bytes()),
        "has no final event" => close(&event(artifact("half"))),
        "ends in an event" => close("data: {\"jsonrpc\":"),
        "sends no JSON" => close("data: <html>\n\n"),
        "sends another id" => {
            close(&format!("data: {}\n\n", json!({ "jsonrpc": "2.0", "id": 7, "result": {} })))
        }
        "sends an unknown event" => close(&event(json!({ "unknown": {} }))),
        "sends events of another task" => {
            let mut other = status(COMPLETED);
            other["statusUpdate"]["taskId"] = json!("task-2");
            close(&event(other))
        }
        "sends a huge event" => {
            close(&event(artifact("TEXT")).replace("TEXT", &"x".repeat(HUNDRED_MB)))
        }
        "floods in an event" => Reply::Flood(format!("{begun}data: ").into_bytes()),
        "has no event" => Reply::Close(EVENTS_HEAD.as_bytes().to_vec()),
        "is no stream" => raw_reply(200, "text/html", b"<html>"),
        other => panic!("`{other}`"),
    }
}

/// An agent of 1.0 over JSON-RPC without a card.
fn reply(received: &Received) -> Reply {
    match received.rpc_method() {
        "SendMessage" => unary(received),
        "SendStreamingMessage" => streaming(received),
        "GetTask" => received.error(200, &json!({ "code": -32001, "message": "Task not found" })),
        "" => empty(404),
        _ => received.error(200, &json!({ "code": -32601, "message": "Method not found" })),
    }
}

async fn start(server: &Server, more: &str) -> (Scene, Caller) {
    let agent = Agent::new("faulty", &format!("http://{}/", server.address()), vec![skill("work")]);
    let scene = Scene::start(&[agent], more).await;
    let caller = scene.caller("caller", "faulty");
    (scene, caller)
}

/// Asserts an error of the gateway's own domain and numbers.
pub(super) fn assert_gateway_error(message: &Value, fault: &str) {
    let error = &message["error"];
    assert_eq!(error["data"][0]["domain"], "gateway-agent", "{fault}: {message}");
    assert!([json!(-32000), json!(-32603)].contains(&error["code"]), "{fault}: {message}");
}

pub(super) struct Memory {
    before: u64,
}

impl Memory {
    pub(super) fn of(gateway: &Gateway) -> Self {
        Self { before: gateway.process.resident_bytes() }
    }

    pub(super) fn assert_bounded(&self, gateway: &Gateway) {
        let grown = gateway.process.peak_bytes().saturating_sub(self.before);
        assert!(grown < 64 << 20, "{grown} bytes");
        assert!(!gateway.process.stderr().contains("panicked"));
    }
}

/// Asserts that a fault ends in time with an error, and that the next message succeeds.
pub(super) async fn assert_answer_fails(caller: &Caller, fault: &str) {
    let began = Instant::now();
    let answer = caller.send("work", fault).await;
    assert_gateway_error(&answer.message, fault);
    assert!(began.elapsed() < PROMPT, "{fault} took {:?}", began.elapsed());
    let good = caller.send("work", "").await;
    assert_eq!(good.result()["message"]["parts"][0]["text"], "good", "after `{fault}`");
}

#[tokio::test(flavor = "multi_thread")]
async fn faulty_answers_fail_in_time() {
    let server = Server::start(reply).await;
    let (scene, caller) = start(&server, LIMITS).await;
    let memory = Memory::of(&scene.gateway);
    for fault in [
        "hangs",
        "hangs in its head",
        "hangs in its body",
        "resets",
        "closes",
        "closes in its body",
        "sends no JSON",
        "sends half of it",
        "sends no result",
        "sends another id",
        "sends neither task nor message",
        "sends a task without id",
        "sends a task of unknown state",
        "is too deep",
        "is huge",
        "floods",
        "redirects",
    ] {
        assert_answer_fails(&caller, fault).await;
    }
    memory.assert_bounded(&scene.gateway);
}

#[tokio::test(flavor = "multi_thread")]
async fn faulty_streams_end_with_an_error() {
    let server = Server::start(reply).await;
    let (scene, caller) = start(&server, LIMITS).await;
    let memory = Memory::of(&scene.gateway);
    for (fault, events) in [
        ("hangs", 1),
        ("has no final event", 2),
        ("ends in an event", 1),
        ("sends no JSON", 1),
        ("sends another id", 1),
        ("sends an unknown event", 1),
        ("sends events of another task", 1),
        ("sends a huge event", 1),
        ("floods in an event", 1),
        ("has no event", 0),
        ("is no stream", 0),
    ] {
        let began = Instant::now();
        let messages = caller.stream("work", fault).await.rest().await;
        let (error, before) = messages.split_last().unwrap_or_else(|| panic!("{fault}: no answer"));
        assert_gateway_error(error, fault);
        assert_eq!(before.len(), events, "{fault}: {messages:?}");
        assert!(
            before.iter().all(|message| message["result"].is_object()),
            "{fault}: {messages:?}"
        );
        assert!(began.elapsed() < PROMPT, "{fault} took {:?}", began.elapsed());
        let good = caller.stream("work", "").await.rest().await;
        assert_eq!(good.len(), 3, "after `{fault}`: {good:?}");
    }
    memory.assert_bounded(&scene.gateway);
}

#[tokio::test(flavor = "multi_thread")]
async fn stream_ends_with_the_final_event() {
    let server = Server::start(reply).await;
    let (_scene, caller) = start(&server, "").await;
    let messages = caller.stream("work", "continues after its end").await.rest().await;
    let states = messages.iter().map(|message| {
        let result = &message["result"];
        let update = result.get("task").or_else(|| result.get("statusUpdate"));
        update.and_then(|update| update["status"]["state"].as_str()).unwrap_or_default()
    });
    assert_eq!(states.collect::<Vec<_>>(), [WORKING, COMPLETED]);
}

/// A hundred events of one megabyte, which a caller reads slowly at first.
#[tokio::test(flavor = "multi_thread")]
async fn large_artifact_streams_in_bounded_memory() {
    const CHUNKS: usize = 100;
    let server = Server::start(|received| {
        if received.rpc_method() != "SendStreamingMessage" {
            return reply(received);
        }
        let id = received.body["id"].clone();
        let result = |number: usize| match number {
            0 => json!({ "task": task(WORKING) }),
            1..=CHUNKS => artifact(&"x".repeat(1 << 20)),
            _ => status(COMPLETED),
        };
        let events = (0..CHUNKS + 2)
            .map(move |number| json!({ "jsonrpc": "2.0", "id": id, "result": result(number) }));
        Reply::events(stream::iter(events))
    })
    .await;
    let (scene, caller) = start(&server, "").await;
    let memory = Memory::of(&scene.gateway);
    let mut events = caller.stream("work", "").await;
    assert!(events.next().await.is_some_and(|first| first["result"]["task"].is_object()));
    let mut artifact_bytes = 0;
    let mut last = Value::Null;
    while let Some(message) = events.next().await {
        let chunk = message.pointer("/result/artifactUpdate/artifact/parts/0/text");
        artifact_bytes += chunk.and_then(Value::as_str).map_or(0, str::len);
        last = message;
    }
    assert_eq!(artifact_bytes, CHUNKS << 20);
    assert_eq!(last["result"]["statusUpdate"]["status"]["state"], COMPLETED, "{last}");
    memory.assert_bounded(&scene.gateway);
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_that_disappears_is_unavailable_until_it_returns() {
    let closing = |received: &Received| match reply(received) {
        // No connection outlives the agent.
        Reply::Keep(pieces) => Reply::Close(pieces.concat()),
        other => other,
    };
    let server = Server::start(closing).await;
    let (_scene, caller) = start(&server, LIMITS).await;
    assert!(caller.send("work", "").await.result()["message"].is_object());
    let address = server.address();
    server.stop();
    eventually("the agent is away", || async {
        tokio::net::TcpStream::connect(address).await.is_err()
    })
    .await;
    let answer = caller.send("work", "").await;
    assert_eq!(answer.code(), -32000, "{answer:?}");
    let listener = TcpListener::bind(address).await.expect("the port is free");
    let _returned = Server::start_on(listener, closing);
    eventually("the agent is back", || async {
        caller.send("work", "").await.message["result"].is_object()
    })
    .await;
}

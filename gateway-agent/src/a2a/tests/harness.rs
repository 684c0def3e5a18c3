//! A gateway with the agent `office/helper@1.0.0`, and a request builder.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use a2a::Version;
use axum::{Router, body::Body};
use futures_util::{StreamExt as _, stream};
use gateway_testkit::{Received, Reply, Server, empty, json_reply};
use gateway_upstream::UpstreamLimits;
use http::{Method, Request};
use registry_core::Key;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tower::ServiceExt as _;

use super::super::{A2a, PushConfigs, TaskIndex};
use crate::{
    mcp::tests::harness::{Bench, Got, Setup, http},
    testing::{Registered, agent},
};

/// The id of the task that the agent starts, and that of its context.
pub(super) const OWN_TASK: &str = "task-of-the-agent";
pub(super) const OWN_CONTEXT: &str = "context-of-the-agent";
/// The id of a task that only its errors name.
pub(super) const NEW_TASK: &str = "unlisted-job-of-an-agent";
/// An id in its errors.
pub(super) const OWN_UUID: &str = "7b0f5c1e-2f60-4d8e-9a51-0d2c4f3b6a78";
/// The number of long events in the stream for the text `many`, and the length of their texts.
pub(super) const LONG_EVENTS: usize = 24;
pub(super) const LONG_EVENT_BYTES: usize = 512 << 10;
/// The texts of the events for the text `pieces`, with the agent's address in two of them.
pub(super) const PIECES: [&str; 7] =
    ["One ", "\"two\" ", "é\n at ", "http://127.0", ".0.1:1/x", " and ", "end"];

pub(super) struct A2aBench {
    pub(super) bench: Bench,
    pub(super) surface: A2a,
    pub(super) router: Router,
    /// The agent behind the gateway.
    pub(super) agent: Server,
    pub(super) script: Arc<Script>,
}

/// The changes of the agent's behavior.
#[derive(Debug, Default)]
pub(super) struct Script {
    /// Lets answers to messages with the text `wait` and streams with the text `endless` continue.
    pub(super) released: Notify,
    /// Whether the agent resets all connections.
    pub(super) is_down: AtomicBool,
    /// Whether its tasks need input until their next message.
    pub(super) asks: AtomicBool,
    /// Whether the answer to that message is the state before it.
    pub(super) returns_early: AtomicBool,
    /// Whether the agent answers no `GetTask`.
    pub(super) hangs: AtomicBool,
    /// The card of the agent.
    pub(super) card: Mutex<Option<Value>>,
    /// The number of requests for a card that has not changed.
    pub(super) unchanged_cards: AtomicUsize,
}

/// `office/helper` with one skill, which streams.
pub(super) fn helper() -> Registered {
    let mut helper = agent("office/helper", "1.0.0", &[]);
    let document = &mut helper.document;
    document["url"] = json!("http://helper.internal:9000/rpc");
    // The target is at 127.0.0.1.
    document["description"] = json!("Helps with everything at http://127.0.0.1/help.");
    document["provider"] = json!({ "organization": "o", "url": "http://127.0.0.1" });
    let link = "https://127.0.0.1:9443/icon.png";
    document["metadata"] = json!({ "card": { "documentationUrl": link, "iconUrl": link } });
    document["defaultInputModes"] = json!(["text/plain", "application/json"]);
    document["defaultOutputModes"] = json!(["text/plain", "application/json"]);
    document["capabilities"]["streaming"] = json!(true);
    document["skills"] = json!([{ "id": "work", "name": "Work", "description": "Works.",
        "tags": ["work"], "inputSchema": { "type": "object", "required": ["topic"] } }]);
    helper
}

/// `office/helper` with push notifications.
pub(super) fn pushing_helper() -> Registered {
    let mut helper = helper();
    helper.document["capabilities"]["pushNotifications"] = json!(true);
    helper
}

/// The agent `a`, which declares the skill of `office/helper`.
pub(super) fn caller() -> Registered {
    let mut caller = agent("a", "1.0.0", &[]);
    let declared = json!([{ "type": "agent", "name": "office/helper", "version": "1.0.0",
        "skill": "work" }]);
    caller.document["capabilities"]["extensions"][0]["params"]["depends"] = declared;
    caller
}

impl A2aBench {
    pub(super) async fn start(policies: impl IntoIterator<Item = Registered>) -> Self {
        Self::start_with(Setup::default(), policies).await
    }

    pub(super) async fn start_with(
        setup: Setup,
        policies: impl IntoIterator<Item = Registered>,
    ) -> Self {
        let script = Arc::<Script>::default();
        let used = Arc::clone(&script);
        let agent = Server::serve(move |received| answer(received, Arc::clone(&used))).await;
        let key: Key = "agent/office/helper@1.0.0".parse().unwrap();
        let limits =
            UpstreamLimits { sessions: 8, call_timeout_ms: 5_000, ..UpstreamLimits::default() };
        let setup = Setup { agents: vec![(key, http(&agent))], limits, ..setup };
        let helper = if setup.push.is_some() { pushing_helper() } else { helper() };
        let mut entities = vec![helper, caller(), stranger()];
        entities.extend(policies);
        let bench = Bench::start(setup, entities).await;
        let (index, configs) = (Arc::new(TaskIndex::default()), Arc::new(PushConfigs::default()));
        let surface = A2a::new(bench.handle.clone(), index, configs);
        let router = surface.router();
        Self { bench, surface, router, agent, script }
    }

    pub(super) async fn send(&self, request: Request<Body>) -> axum::response::Response {
        self.router.clone().oneshot(request).await.unwrap()
    }

    pub(super) async fn got(&self, request: Request<Body>) -> Got {
        let (parts, body) = self.send(request).await.into_parts();
        let bytes = axum::body::to_bytes(body, usize::MAX).await.unwrap();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        Got { status: parts.status, headers: parts.headers, text }
    }

    /// A JSON-RPC request of 1.0 to `office/helper`.
    pub(super) async fn rpc(&self, caller: &str, method: &str, params: Value) -> Got {
        self.got(rpc(Version::V1, caller, (method, params))).await
    }

    /// A task that completes after the answer to its message, as `a` knows it.
    pub(super) async fn working_task(&self) -> Value {
        let params = json!({
            "message": { "messageId": "m", "role": "ROLE_USER",
                "parts": [{ "data": { "topic": "long" } }] },
            "configuration": { "returnImmediately": true },
        });
        self.rpc("a", "SendMessage", params).await.result()["task"].clone()
    }

    /// The task that a message starts, as `a` knows it.
    pub(super) async fn started_task(&self) -> Value {
        let got = self.rpc("a", "SendMessage", message("go")).await;
        got.result()["task"].clone()
    }
}

/// An agent that declares nothing.
pub(super) fn stranger() -> Registered {
    agent("stranger", "1.0.0", &[])
}

/// A message of 1.0 with a text and data for the skill.
pub(super) fn message(text: &str) -> Value {
    json!({ "message": { "messageId": "m", "role": "ROLE_USER",
        "parts": [{ "text": text }, { "data": { "topic": text } }] } })
}

/// The same in 0.3.
pub(super) fn old_message(text: &str) -> Value {
    json!({ "message": { "kind": "message", "messageId": "m", "role": "user", "parts": [
        { "kind": "text", "text": text }, { "kind": "data", "data": { "topic": text } }] } })
}

/// A JSON-RPC request to `office/helper`.
pub(super) fn rpc(
    version: Version,
    caller: &str,
    (method, params): (&str, Value),
) -> Request<Body> {
    let body = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params });
    request(version, (Method::POST, "/a2a/office/helper"), (caller, &body))
}

/// A request with these headers, of the agent `caller`.
pub(super) fn request(
    version: Version,
    (method, path): (Method, &str),
    (caller, body): (&str, &Value),
) -> Request<Body> {
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", "localhost:7080")
        .header("a2a-version", version.as_str());
    if !caller.is_empty() {
        request = request.header("x-agent-name", caller);
    }
    if body.is_null() {
        return request.body(Body::empty()).unwrap();
    }
    request.header("content-type", "application/json").body(Body::from(body.to_string())).unwrap()
}

/// The messages of an event stream.
pub(super) fn events(got: &Got) -> Vec<Value> {
    let data = got.text.lines().filter_map(|line| line.strip_prefix("data: "));
    data.map(|data| serde_json::from_str(data).unwrap()).collect()
}

pub(super) fn task(state: &str) -> Value {
    json!({ "id": OWN_TASK, "contextId": OWN_CONTEXT,
        "status": { "state": state },
        "artifacts": [{ "artifactId": "r", "parts": [{ "text": "done" }] }] })
}

/// The task with a history of two messages. The agent ignores `historyLength`.
fn remembering(state: &str) -> Value {
    let said =
        |id: &str| json!({ "messageId": id, "role": "ROLE_USER", "parts": [{ "text": id }] });
    let mut task = task(state);
    task["history"] = json!([said("first"), said("second")]);
    task
}

/// The task with a question.
fn asking() -> Value {
    let mut task = task("TASK_STATE_INPUT_REQUIRED");
    task["status"]["message"] = json!({ "messageId": "question-1", "role": "ROLE_AGENT",
        "parts": [{ "text": "which colour?" }] });
    task
}

/// The card below the URL of the agent, with its digest as the entity tag.
fn card(received: &Received, script: &Script) -> Reply {
    let card = script.card.lock().unwrap().clone();
    let Some(card) = card.filter(|_| received.path == "/mcp/.well-known/agent-card.json") else {
        return json_reply(404, &json!({}));
    };
    let tag = a2a::card::entity_tag(&card);
    if received.header("if-none-match") == Some(tag.as_str()) {
        script.unchanged_cards.fetch_add(1, Ordering::Relaxed);
        return empty(304);
    }
    json_reply(200, &card).with_header("etag", &tag)
}

/// An answer, events or an error with the address of the agent in all places.
fn revealing(received: &Received, text: &str) -> Reply {
    let address = received.header("host").unwrap_or_default();
    let url = format!("http://{address}/files/1");
    let parts = json!([{ "url": url }, { "text": format!("see {url} at {address}") },
        { "data": { address: url } }]);
    let mut task = task("TASK_STATE_COMPLETED");
    task["artifacts"][0] = json!({ "artifactId": url, "name": url, "parts": parts });
    task["status"]["message"] = json!({ "messageId": url, "role": "ROLE_AGENT", "parts": parts });
    task["metadata"] = json!({ "source": url });
    let id = &received.body["id"];
    match text {
        "reveal an error" => {
            let info = json!({ "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                "reason": "BROKEN", "domain": "a.example", "metadata": { "at": url } });
            let help = json!({ "@type": "type.googleapis.com/google.rpc.Help",
                "links": [{ "url": url }] });
            let message = format!("cannot write {url}");
            received
                .error(200, &json!({ "code": -32603, "message": message, "data": [info, help] }))
        }
        "reveal events" => {
            let event = json!({ "jsonrpc": "2.0", "id": id, "result": { "task": task } });
            Reply::events(stream::iter([event]))
        }
        _ => received.result(&json!({ "task": task })),
    }
}

/// The event of a piece with this text, which is appended.
fn appended(piece: &Value, text: &str) -> Value {
    let mut piece = piece.clone();
    piece["append"] = true.into();
    piece["artifact"]["parts"][0]["text"] = text.into();
    json!({ "artifactUpdate": piece })
}

/// The agent: 1.0 over JSON-RPC.
async fn answer(received: Arc<Received>, script: Arc<Script>) -> Reply {
    if script.is_down.load(Ordering::Relaxed) {
        return Reply::Reset;
    }
    if received.http_method == "GET" {
        return card(&received, &script);
    }
    let params = &received.body["params"];
    let text = params["message"]["parts"][0]["text"].as_str().unwrap_or_default();
    let topic = params["message"]["parts"][0]["data"]["topic"].as_str();
    let unknown = || received.error(200, &json!({ "code": -32001, "message": "no such task" }));
    for sent in [text, topic.unwrap_or_default()] {
        if sent.starts_with("reveal") {
            return revealing(&received, sent);
        }
    }
    match received.rpc_method() {
        "GetTask" if script.hangs.load(Ordering::Relaxed) => Reply::stall(),
        "GetTask" if params["id"] != OWN_TASK => unknown(),
        "SendMessage" if text == "reject" => {
            let info = json!({ "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                "domain": "a2a-protocol.org", "reason": "UNSUPPORTED_OPERATION",
                "metadata": { "taskId": OWN_TASK, "context_id": OWN_CONTEXT } });
            let message =
                format!("{OWN_TASK} in {OWN_CONTEXT} is busy with {OWN_UUID} for {NEW_TASK}");
            let detail = json!({ "@type": "x", "note": OWN_UUID });
            let other = json!({ "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                "domain": "a.example", "reason": "BUSY", "metadata": { "taskId": NEW_TASK } });
            let data = json!([info, detail, other]);
            received.error(200, &json!({ "code": -32004, "message": message, "data": data }))
        }
        "SendMessage" => {
            if text == "wait" {
                script.released.notified().await;
            }
            if params["message"]["taskId"] == OWN_TASK {
                script.asks.store(false, Ordering::Relaxed);
                if script.returns_early.load(Ordering::Relaxed) {
                    return received.result(&json!({ "task": asking() }));
                }
            }
            let state = match topic {
                Some("ask") => "TASK_STATE_INPUT_REQUIRED",
                Some("long") => "TASK_STATE_WORKING",
                _ => "TASK_STATE_COMPLETED",
            };
            let reply = received.result(&json!({ "task": remembering(state) }));
            match received.header("a2a-extensions") {
                Some(requested) if text != "deaf" => reply.with_header("A2A-Extensions", requested),
                _ => reply,
            }
        }
        "GetTask" if script.asks.load(Ordering::Relaxed) => received.result(&asking()),
        "GetTask" => received.result(&remembering("TASK_STATE_COMPLETED")),
        "CreateTaskPushNotificationConfig" => received.result(params),
        "DeleteTaskPushNotificationConfig" => received.result(&json!({})),
        "CancelTask" => received.result(&task("TASK_STATE_CANCELED")),
        "SendStreamingMessage" | "SubscribeToTask" => {
            let is_endless = text == "endless";
            let update = json!({ "taskId": OWN_TASK, "contextId": OWN_CONTEXT });
            let artifact = json!({ "artifactId": "r", "parts": [{ "text": "piece" }] });
            let (mut piece, mut last) = (update.clone(), update);
            piece["artifact"] = artifact;
            let needs_input = topic == Some("ask");
            let state =
                if needs_input { "TASK_STATE_INPUT_REQUIRED" } else { "TASK_STATE_COMPLETED" };
            last["status"] = json!({ "state": state });
            if needs_input {
                last["status"] = asking()["status"].clone();
            }
            let mut events = vec![
                json!({ "task": task("TASK_STATE_WORKING") }),
                json!({ "artifactUpdate": piece }),
            ];
            if text == "pieces" {
                events.extend(PIECES.map(|text| appended(&piece, text)));
            } else if text == "many" {
                let mut long = piece.clone();
                long["artifact"]["parts"][0]["text"] = "x".repeat(LONG_EVENT_BYTES).into();
                events.extend((0..LONG_EVENTS).map(|_| json!({ "artifactUpdate": long })));
            }
            // The stream of a long task breaks.
            if !is_endless && topic != Some("long") {
                events.push(json!({ "statusUpdate": last }));
            }
            let id = received.body["id"].clone();
            let in_answer = |event: Value| json!({ "jsonrpc": "2.0", "id": id, "result": event });
            let events = stream::iter(events.into_iter().map(in_answer).collect::<Vec<_>>());
            if is_endless {
                let last = in_answer(json!({ "statusUpdate": last }));
                let released = async move {
                    script.released.notified().await;
                    last
                };
                return Reply::events(events.chain(stream::once(released)));
            }
            Reply::events(events)
        }
        _ => json_reply(404, &json!({})),
    }
}

//! An upstream of either era that sends questions, progress and log messages before its result.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::{StreamExt as _, stream};
use gateway_protocol::mcp::Era;
use gateway_testkit::{Received, Reply, Server, empty};
use gateway_upstream::TransportConfig;
use serde_json::{Value, json};
use tokio::sync::{Notify, broadcast, mpsc, oneshot};

use super::harness::http;

/// A request and its session.
type Seen = (Option<String>, Value);

#[derive(Clone)]
pub(super) struct FarSide {
    era: Era,
    /// All requests and their sessions.
    seen: Arc<Mutex<Vec<Seen>>>,
    waiting: Arc<Mutex<HashMap<String, oneshot::Sender<Value>>>>,
    /// Notifications, optionally for one session.
    news: broadcast::Sender<(Option<String>, Value)>,
    /// Lets a call of `asks` with the argument `later` ask.
    pub(super) late: Arc<Notify>,
}

impl FarSide {
    pub(super) async fn start(era: Era) -> (Self, TransportConfig) {
        let (seen, waiting) = (Arc::default(), Arc::default());
        let side =
            Self { era, seen, waiting, news: broadcast::channel(16).0, late: Arc::default() };
        let scripted = side.clone();
        let server = Server::serve(move |received| {
            let side = scripted.clone();
            async move { reply(&side, &received).await }
        });
        (side, http(&server.await))
    }

    /// All requests of a method and their sessions.
    pub(super) fn seen(&self, method: &str) -> Vec<Seen> {
        let seen = self.seen.lock().unwrap();
        seen.iter().filter(|(_, body)| body["method"] == method).cloned().collect()
    }

    /// The answers to questions.
    pub(super) fn answers(&self) -> usize {
        let seen = self.seen.lock().unwrap();
        seen.iter().filter(|(_, body)| body.get("result").is_some()).count()
    }

    /// Notifies all event streams.
    pub(super) fn tell(&self, method: &str, params: &Value) {
        let message = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        let _ = self.news.send((None, message));
    }

    /// The number of open event streams.
    pub(super) fn listeners(&self) -> usize {
        self.news.receiver_count()
    }

    fn result(&self, mut result: Value) -> Value {
        if self.era == Era::Modern && result.get("resultType").is_none() {
            result["resultType"] = json!("complete");
        }
        result
    }
}

async fn reply(side: &FarSide, received: &Received) -> Reply {
    let session = received.header("mcp-session-id").map(str::to_owned);
    let body = match received.http_method.as_str() {
        "GET" => return stream_of(side, session, None),
        "DELETE" => json!({ "method": "DELETE" }),
        _ => received.body.clone(),
    };
    side.seen.lock().unwrap().push((session.clone(), body.clone()));
    let id = body["id"].clone();
    let Some(method) = body["method"].as_str() else {
        let waiting = side.waiting.lock().unwrap().remove(&id.to_string());
        if let Some(waiting) = waiting {
            let _ = waiting.send(body);
        }
        return empty(202);
    };
    let respond = |result: Value| received.result(&side.result(result));
    let capabilities = json!({ "tools": {}, "prompts": {}, "resources": {}, "completions": {},
        "logging": {}, "extensions": { "io.modelcontextprotocol/tasks": {} } });
    match (method, side.era) {
        ("server/discover", Era::Modern) => respond(json!({ "capabilities": capabilities,
            "supportedVersions": ["2026-07-28"], "instructions": "Be kind." })),
        ("initialize", Era::Legacy) => {
            let number = side.seen("initialize").len();
            let result = json!({ "protocolVersion": "2025-11-25", "capabilities": capabilities });
            respond(result).with_header("mcp-session-id", &format!("up-{number}"))
        }
        ("subscriptions/listen", Era::Modern) => {
            let notifications = &body["params"]["notifications"];
            if notifications["resourceSubscriptions"].to_string().contains("test://slow") {
                tokio::time::sleep(Duration::from_millis(300)).await;
            }
            let first = acknowledged(&id, notifications);
            stream_of(side, session, Some(first))
        }
        ("tasks/get", _) if body["params"]["taskId"] == "slow" => {
            let asked = side.seen("tasks/get");
            let asked = asked.iter().filter(|(_, body)| body["params"]["taskId"] == "slow");
            let is_done = asked.count() > 2;
            let mut task = json!({ "taskId": "slow", "pollIntervalMs": 1, "status":
                if is_done { "completed" } else { "working" } });
            if is_done {
                task["result"] = json!({ "content": [], "_meta":
                    { "registry/steps": [], "io.modelcontextprotocol/x": 1, "own": 2 } });
            }
            respond(task)
        }
        ("tools/call", _) if body["params"]["name"] == "doubts" => {
            let error = json!({ "code": -32_600, "message": "no valid session" });
            received.error(400, &error)
        }
        ("tools/call", _) => call(side, session, &body),
        ("DELETE", _) => empty(204),
        (method, _) if method.starts_with("notifications/") => empty(202),
        (method, _) => match simple(method, &body["params"]) {
            Ok(result) => respond(result),
            Err(code) => received.error(200, &json!({ "code": code, "message": "no" })),
        },
    }
}

fn simple(method: &str, params: &Value) -> Result<Value, i64> {
    Ok(match method {
        "tools/list" => json!({ "tools": [{ "name": "asks", "inputSchema": {} }] }),
        "prompts/list" => json!({ "prompts": [{ "name": "p", "title": "P" }] }),
        "resources/list" => json!({ "resources": [{ "name": "r", "uri": "test://r" }] }),
        "resources/templates/list" => {
            json!({ "resourceTemplates": [{ "name": "t", "uriTemplate": "test://{id}" }] })
        }
        "prompts/get" => json!({ "messages": [{ "role": "user",
            "content": { "type": "resource", "resource": { "uri": "test://r", "text": "t" } } }] }),
        "resources/read" if params["uri"] == "test://r" => {
            json!({ "contents": [{ "uri": "test://r", "text": "t" }] })
        }
        "resources/read" => return Err(-32002),
        "completion/complete" => json!({ "completion": { "values": [params["ref"].to_string()] } }),
        "tasks/get" if params["taskId"] == "structured" => {
            json!({ "taskId": "structured", "status": "completed",
                "result": { "content": [], "structuredContent": { "m": 1 } } })
        }
        "tasks/get" => json!({ "taskId": params["taskId"], "status": "completed",
            "result": { "content": [{ "type": "resource_link", "uri": "test://r", "name": "r" }] } }),
        "resources/subscribe" if params["uri"] == "test://closed" => return Err(-32002),
        "tasks/cancel"
        | "tasks/update"
        | "logging/setLevel"
        | "resources/subscribe"
        | "resources/unsubscribe" => json!({}),
        _ => return Err(-32601),
    })
}

/// The tools, by name.
fn call(side: &FarSide, session: Option<String>, body: &Value) -> Reply {
    let (params, id) = (&body["params"], body["id"].clone());
    let number = format!("\"q-{id}\"");
    let question = params["arguments"]["ask"].as_str().unwrap_or("?");
    let question = json!({ "message": question });
    let own = id.clone();
    let done = move |text: String, side: &FarSide| {
        let content = json!([{ "type": "text", "text": text }]);
        json!({ "jsonrpc": "2.0", "id": own, "result": side.result(json!({ "content": content })) })
    };
    let (send, receive) = mpsc::unbounded_channel();
    match (params["name"].as_str().unwrap(), side.era) {
        ("asks", Era::Modern) => {
            let answers = &params["inputResponses"]["who"];
            let message = if answers.is_null() {
                json!({ "jsonrpc": "2.0", "id": id, "result": { "resultType": "input_required",
                    "requestState": "s-1", "inputRequests":
                        { "who": { "method": "elicitation/create", "params": question } } } })
            } else {
                assert_eq!(params["requestState"], "s-1");
                done(answers.to_string(), side)
            };
            let _ = send.send(message);
        }
        (name @ ("asks" | "aside"), Era::Legacy) => {
            let (tell, told) = oneshot::channel();
            side.waiting.lock().unwrap().insert(number.clone(), tell);
            let number: Value = serde_json::from_str(&number).unwrap();
            let question = json!({ "jsonrpc": "2.0", "id": number,
                "method": "elicitation/create", "params": question });
            if params["arguments"]["later"] == true {
                let (late, send) = (Arc::clone(&side.late), send.clone());
                tokio::spawn(async move {
                    late.notified().await;
                    let _ = send.send(question);
                });
            } else if name == "asks" {
                let _ = send.send(question);
            } else {
                // Some questions name no call.
                let _ = side.news.send((session, question));
            }
            let side = side.clone();
            let done = move |text| done(text, &side);
            let send = send.clone();
            tokio::spawn(async move {
                let answer: Value = told.await.unwrap();
                let is_error = !answer["error"].is_null();
                let said = if is_error { &answer["error"]["code"] } else { &answer["result"] };
                let _ = send.send(done(said.to_string()));
            });
        }
        ("works", _) => {
            let task = params["arguments"]["task"].as_str().unwrap_or("7+7");
            let result = json!({ "resultType": "task", "taskId": task, "status": "working" });
            let _ = send.send(json!({ "jsonrpc": "2.0", "id": id, "result": result }));
        }
        _ => {
            tells(&send, &params["_meta"]["progressToken"]);
            let _ = send.send(done("done".to_owned(), side));
        }
    }
    drop(send);
    let messages =
        stream::unfold(receive, async |mut receive| Some((receive.recv().await?, receive)));
    Reply::events(messages)
}

/// Progress that does not always increase, and log messages of two levels.
fn tells(send: &mpsc::UnboundedSender<Value>, token: &Value) {
    let tell = |method: &str, params: Value| {
        let _ = send.send(json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    };
    for progress in [1, 5, 3, 9] {
        tell("notifications/progress", json!({ "progressToken": token, "progress": progress }));
    }
    for level in ["debug", "warning"] {
        tell("notifications/message", json!({ "level": level, "data": level }));
    }
}

/// The acknowledged notifications: all resources except one.
fn acknowledged(id: &Value, wanted: &Value) -> Value {
    let mut honoured = wanted.clone();
    if let Some(uris) = honoured["resourceSubscriptions"].as_array_mut() {
        uris.retain(|uri| uri != "test://closed");
    }
    json!({ "jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params":
        { "_meta": { "io.modelcontextprotocol/subscriptionId": id }, "notifications": honoured } })
}

fn stream_of(side: &FarSide, session: Option<String>, first: Option<Value>) -> Reply {
    let news = side.news.subscribe();
    let first = stream::iter(first);
    Reply::events(first.chain(stream::unfold((news, session), async |(mut news, session)| {
        loop {
            let (whose, message) = news.recv().await.ok()?;
            if whose.is_none() || whose == session {
                return Some((message, (news, session)));
            }
        }
    })))
}

//! The bridge between a test client and scripted endpoints.

use std::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
};

use axum::{
    Router,
    body::Body,
    extract::{Request as HttpRequest, State},
    response::Response,
};
use futures_util::stream;
use http::{HeaderMap, Method, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, ReadHalf, WriteHalf},
    sync::oneshot,
};

use super::*;

const WAIT: Duration = Duration::from_secs(20);
const LEGACY: &str = "2025-11-25";
const MODERN: &str = "2026-07-28";

/// A request received by the endpoint.
#[derive(Debug, Clone)]
struct Seen {
    method: Method,
    headers: HeaderMap,
    body: Value,
}

impl Seen {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// The JSON-RPC method, or the HTTP method of a request without body.
    fn name(&self) -> &str {
        self.body["method"].as_str().unwrap_or(self.method.as_str())
    }

    fn result(&self, result: &Value) -> Response {
        answer(200, &json!({"jsonrpc": "2.0", "id": self.body["id"], "result": result}))
    }

    fn error(&self, status: u16, code: i64) -> Response {
        let error = json!({"code": code, "message": "no"});
        answer(status, &json!({"jsonrpc": "2.0", "id": self.body["id"], "error": error}))
    }

    fn initialized(&self, session: &str, version: &str) -> Response {
        let mut response = self.result(&json!({"protocolVersion": version}));
        response.headers_mut().insert("mcp-session-id", session.parse().unwrap());
        response
    }
}

fn answer(status: u16, body: &Value) -> Response {
    let response = Response::builder().status(status).header("content-type", "application/json");
    response.body(Body::from(body.to_string())).unwrap()
}

fn empty(status: u16) -> Response {
    Response::builder().status(status).body(Body::empty()).unwrap()
}

enum Part {
    Event(Value),
    Text(&'static str),
    Broken,
}

fn events(parts: impl IntoIterator<Item = Part>) -> Response {
    let parts: Vec<_> = parts
        .into_iter()
        .map(|part| match part {
            Part::Event(message) => Ok(format!("data: {message}\n\n")),
            Part::Text(text) => Ok(text.to_owned()),
            Part::Broken => Err(io::Error::other("the connection broke")),
        })
        .collect();
    let response = Response::builder().header("content-type", "text/event-stream");
    response.body(Body::from_stream(stream::iter(parts))).unwrap()
}

type Script = Box<dyn Fn(&Seen) -> Response + Send + Sync>;

struct Endpoints {
    script: Script,
    seen: Mutex<Vec<Seen>>,
}

/// A client of a bridge with a scripted endpoint.
struct Client {
    to: WriteHalf<DuplexStream>,
    from: tokio::io::Lines<BufReader<ReadHalf<DuplexStream>>>,
    endpoints: Arc<Endpoints>,
    stop: oneshot::Sender<()>,
    bridge: JoinHandle<io::Result<()>>,
}

impl Client {
    fn start(script: impl Fn(&Seen) -> Response + Send + Sync + 'static) -> Self {
        Self::with(Sizes::default(), script)
    }

    fn with(sizes: Sizes, script: impl Fn(&Seen) -> Response + Send + Sync + 'static) -> Self {
        let endpoints = Arc::new(Endpoints { script: Box::new(script), seen: Mutex::default() });
        let routes = Router::new().fallback(serve).with_state(Arc::clone(&endpoints));
        let endpoint = Endpoint::embedded(routes, None, &Identity::default()).unwrap();
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let (input, output) = tokio::io::split(theirs);
        let (stop, stopped) = oneshot::channel();
        let bridge = tokio::spawn(run(endpoint, sizes, (input, output), async move {
            if stopped.await.is_err() {
                std::future::pending::<()>().await;
            }
        }));
        let (from, to) = tokio::io::split(ours);
        Self { to, from: BufReader::new(from).lines(), endpoints, stop, bridge }
    }

    async fn in_session(script: impl Fn(&Seen) -> Response + Send + Sync + 'static) -> Self {
        let mut client = Self::start(script);
        client
            .send(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize",
            "params": {"protocolVersion": LEGACY}}))
            .await;
        client.receive().await;
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        client
    }

    async fn send(&mut self, message: &Value) {
        self.send_text(&format!("{message}\n")).await;
    }

    async fn send_text(&mut self, text: &str) {
        self.to.write_all(text.as_bytes()).await.unwrap();
    }

    async fn request(&mut self, id: &Value, method: &str, params: &Value) {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
    }

    async fn receive(&mut self) -> Value {
        let line = timeout(WAIT, self.from.next_line()).await.expect("a line in time");
        serde_json::from_str(&line.unwrap().expect("the bridge is there")).unwrap()
    }

    /// Waits for `count` requests of this method.
    async fn seen(&self, name: &str, count: usize) -> Vec<Seen> {
        let named = || {
            let seen = self.endpoints.seen.lock().unwrap();
            seen.iter().filter(|seen| seen.name() == name).cloned().collect::<Vec<_>>()
        };
        for _ in 0..500 {
            if named().len() >= count {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let found = named();
        assert_eq!(found.len(), count, "{name}: {found:#?}");
        found
    }

    /// Closes standard input and returns the rest of the output.
    async fn close(mut self) -> Vec<String> {
        self.to.shutdown().await.unwrap();
        let mut rest = Vec::new();
        while let Some(line) = timeout(WAIT, self.from.next_line()).await.unwrap().unwrap() {
            rest.push(line);
        }
        timeout(WAIT, self.bridge).await.expect("an end").unwrap().unwrap();
        drop(self.stop);
        rest
    }
}

async fn serve(State(endpoints): State<Arc<Endpoints>>, request: HttpRequest) -> Response {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let body = serde_json::from_slice(&body).unwrap_or_default();
    let seen = Seen { method: parts.method, headers: parts.headers, body };
    endpoints.seen.lock().unwrap().push(seen.clone());
    (endpoints.script)(&seen)
}

fn meta() -> Value {
    json!({"io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {}, "progressToken": 1})
}

/// Opens the session `s-1`, and answers calls with `call`.
fn session(call: impl Fn(&Seen) -> Response + Send + Sync) -> impl Fn(&Seen) -> Response {
    move |seen| match seen.name() {
        "initialize" => seen.initialized("s-1", LEGACY),
        "GET" if seen.header("last-event-id").is_empty() => empty(405),
        _ if seen.body["id"].is_null() && seen.method == Method::POST => empty(202),
        "DELETE" => empty(204),
        _ => call(seen),
    }
}

#[tokio::test]
async fn session_sends_id_and_version() {
    let mut client =
        Client::in_session(session(|seen| seen.result(&json!({"name": seen.name()})))).await;
    client.request(&json!("a"), "tools/list", &json!({})).await;
    assert_eq!(client.receive().await["result"]["name"], "tools/list");
    client.send(&json!({"jsonrpc": "2.0", "id": 5, "result": {}})).await;
    let listed = &client.seen("tools/list", 1).await[0];
    assert_eq!(listed.header("mcp-session-id"), "s-1");
    assert_eq!(listed.header("mcp-protocol-version"), LEGACY);
    assert_eq!(listed.header("accept"), "application/json, text/event-stream");
    assert_eq!(listed.header("mcp-method"), "");
    let opened = &client.seen("initialize", 1).await[0];
    assert_eq!((opened.header("mcp-session-id"), opened.header("mcp-protocol-version")), ("", ""));
    let stream = &client.seen("GET", 1).await[0];
    assert_eq!(
        (stream.header("accept"), stream.header("mcp-session-id")),
        ("text/event-stream", "s-1")
    );
    client.seen("POST", 1).await;
    let endpoints = Arc::clone(&client.endpoints);
    assert_eq!(client.close().await, [""; 0]);
    let last = endpoints.seen.lock().unwrap().last().cloned().unwrap();
    assert_eq!((last.name(), last.header("mcp-session-id")), ("DELETE", "s-1"));
}

#[tokio::test]
async fn messages_wait_for_opening_session() {
    let mut client = Client::start(|seen| {
        if seen.name() != "initialize" {
            return seen.result(&json!({}));
        }
        let (parts, body) = seen.initialized("s1", LEGACY).into_parts();
        let late = stream::once(async move {
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            body.collect().await.map(http_body_util::Collected::to_bytes)
        });
        Response::from_parts(parts, Body::from_stream(late))
    });
    for message in [
        json!({"jsonrpc": "2.0", "id": 0, "method": "initialize",
            "params": {"protocolVersion": LEGACY}}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 1, "method": "prompts/list"}),
    ] {
        client.send(&message).await;
    }
    for name in ["notifications/initialized", "prompts/list"] {
        assert_eq!(client.seen(name, 1).await[0].header("mcp-session-id"), "s1", "{name}");
    }
}

#[tokio::test]
async fn stateless_request_mirrors_body_in_headers() {
    let schema = json!({"type": "object",
        "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}});
    let mut client = Client::start(move |seen| match seen.name() {
        "tools/list" => seen.result(&json!({"tools": [{"name": "müsli", "inputSchema": schema}]})),
        "tools/call" if seen.header("mcp-param-region").is_empty() => seen.error(400, -32020),
        _ => seen.result(&json!({})),
    });
    let call = json!({"name": "müsli", "arguments": {"region": "eu"}, "_meta": meta()});
    // The tool was not listed before, so the bridge lists the tools itself.
    client.request(&json!(1), "tools/call", &call).await;
    assert_eq!(client.receive().await, json!({"jsonrpc": "2.0", "id": 1, "result": {}}));
    client.request(&json!(2), "tools/call", &call).await;
    assert!(client.receive().await["result"].is_object());
    client
        .request(&json!(3), "resources/read", &json!({"uri": "file:///a", "_meta": meta()}))
        .await;
    client.receive().await;
    client.request(&json!(4), "server/discover", &json!({"_meta": meta()})).await;
    client.receive().await;
    let calls = client.seen("tools/call", 3).await;
    assert_eq!(calls[2].header("mcp-protocol-version"), MODERN);
    assert_eq!(calls[2].header("mcp-method"), "tools/call");
    assert_eq!(calls[2].header("mcp-name"), "=?base64?bcO8c2xp?=");
    assert_eq!(calls[2].header("mcp-param-region"), "eu");
    let list = &client.seen("tools/list", 1).await[0];
    assert_eq!(list.body["params"]["_meta"]["progressToken"], Value::Null);
    assert_eq!(client.seen("resources/read", 1).await[0].header("mcp-name"), "file:///a");
    assert_eq!(client.seen("server/discover", 1).await[0].header("mcp-name"), "");
}

#[tokio::test]
async fn messages_before_response_keep_order() {
    let mut client = Client::in_session(session(|seen| {
        let message = |n: u64| json!({"jsonrpc": "2.0", "method": "m", "params": {"n": n}});
        let response = json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": {}});
        events((0..50).map(message).chain([response]).map(Part::Event))
    }))
    .await;
    client.request(&json!(1), "tools/call", &json!({"name": "a"})).await;
    for n in 0..50 {
        assert_eq!(client.receive().await["params"]["n"], n);
    }
    assert_eq!(client.receive().await["id"], 1);
}

#[tokio::test]
async fn session_stream_resumes_after_disconnect() {
    let mut client = Client::in_session(session(|seen| {
        let response = json!({"jsonrpc": "2.0", "id": 1, "result": {"resumed": true}});
        if seen.method == Method::GET {
            assert_eq!(seen.header("last-event-id"), "e-1");
            return events([Part::Event(response)]);
        }
        events([Part::Text("retry: 10\nid: e-1\ndata:\n\ndata: {\"half"), Part::Broken])
    }))
    .await;
    client.request(&json!(1), "tools/call", &json!({"name": "a"})).await;
    assert_eq!(client.receive().await["result"]["resumed"], true);
    client.seen("tools/call", 1).await;
}

#[tokio::test]
async fn call_with_unknown_outcome_is_not_retried() {
    let mut client = Client::in_session(session(|_| events([Part::Broken]))).await;
    client.request(&json!(1), "tools/call", &json!({"name": "a"})).await;
    let error = client.receive().await["error"].clone();
    assert_eq!(error["data"]["reason"], "outcome-unknown");
    client.seen("tools/call", 1).await;
    client.request(&json!(2), "tools/list", &json!({})).await;
    client.receive().await;
    client.seen("tools/list", 2).await;
}

#[tokio::test]
async fn lost_session_is_reopened_once() {
    let sessions = AtomicUsize::new(0);
    let mut client = Client::in_session(move |seen| match seen.name() {
        "initialize" => {
            let number = sessions.fetch_add(1, Ordering::Relaxed) + 1;
            seen.initialized(&format!("s-{number}"), LEGACY)
        }
        "GET" => empty(405),
        "notifications/initialized" => empty(202),
        "logging/setLevel" => seen.result(&json!({})),
        _ if seen.header("mcp-session-id") == "s-1" => seen.error(404, -32600),
        _ => seen.result(&json!({"session": seen.header("mcp-session-id")})),
    })
    .await;
    client.request(&json!(0), "logging/setLevel", &json!({"level": "debug"})).await;
    client.receive().await;
    for id in 1..=3 {
        client.request(&json!(id), "tools/call", &json!({"name": "a"})).await;
    }
    for _ in 1..=3 {
        assert_eq!(client.receive().await["result"]["session"], "s-2");
    }
    client.seen("initialize", 2).await;
    let initialized = client.seen("notifications/initialized", 2).await;
    assert_eq!(initialized[1].header("mcp-session-id"), "s-2");
    let levels = client.seen("logging/setLevel", 2).await;
    assert_eq!(levels[1].header("mcp-session-id"), "s-2");
}

#[tokio::test]
async fn cancellation_closes_stream_or_is_forwarded() {
    let never = || {
        let response = Response::builder().header("content-type", "text/event-stream");
        response.body(Body::from_stream(stream::pending::<Result<String, io::Error>>())).unwrap()
    };
    let mut client = Client::in_session(session(move |seen| match seen.name() {
        "tools/call" => never(),
        _ => seen.result(&json!({})),
    }))
    .await;
    let cancel = |id: u64| json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
    client.request(&json!(1), "tools/call", &json!({"name": "a", "_meta": meta()})).await;
    client.request(&json!(2), "tools/call", &json!({"name": "a"})).await;
    client.seen("tools/call", 2).await;
    client.send(&cancel(1)).await;
    client.send(&cancel(2)).await;
    client.send(&cancel(3)).await;
    // The endpoint does not end the request, so the cancellation is repeated.
    let cancelled = client.seen("notifications/cancelled", 3).await;
    assert!(cancelled.iter().all(|seen| seen.body["params"]["requestId"] == 2));
    // The id of the stateless request can be reused.
    client.request(&json!(1), "ping", &json!({})).await;
    assert_eq!(client.receive().await, json!({"jsonrpc": "2.0", "id": 1, "result": {}}));
}

#[tokio::test]
async fn broken_subscription_is_renewed_with_changes() {
    let count = AtomicUsize::new(0);
    let mut client = Client::start(move |seen| {
        let acknowledged = json!({"jsonrpc": "2.0",
            "method": "notifications/subscriptions/acknowledged",
            "params": {"_meta": {"io.modelcontextprotocol/subscriptionId": seen.body["id"]},
                "notifications": {"toolsListChanged": true}}});
        let last = json!({"jsonrpc": "2.0", "id": 7, "result": {}});
        match count.fetch_add(1, Ordering::Relaxed) {
            0 => events([Part::Event(acknowledged), Part::Broken]),
            _ => events([acknowledged, last].map(Part::Event)),
        }
    });
    let params = json!({"notifications": {"toolsListChanged": true}, "_meta": meta()});
    client.request(&json!(7), "subscriptions/listen", &params).await;
    assert_eq!(client.receive().await["method"], "notifications/subscriptions/acknowledged");
    let changed = client.receive().await;
    assert_eq!(changed["method"], "notifications/tools/list_changed");
    assert_eq!(changed["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 7);
    assert_eq!(client.receive().await["id"], 7);
}

#[tokio::test]
async fn invalid_lines_get_errors_with_ids() {
    let sizes = Sizes { message_bytes: 1_000, ..Sizes::default() };
    let mut client = Client::with(sizes, |seen| seen.result(&json!({})));
    let long = "x".repeat(2_000);
    for (line, id, code, text) in [
        ("{".to_owned(), Value::Null, -32700, "not JSON"),
        ("\u{feff}{}".to_owned(), Value::Null, -32700, "not JSON"),
        ("7".to_owned(), Value::Null, -32600, "not a JSON object"),
        (r#"{"id":4}"#.to_owned(), json!(4), -32600, "`jsonrpc`"),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#.to_owned(), Value::Null, -32600, "batch"),
        (
            format!(r#"{{"jsonrpc":"2.0","id":"long","method":"{long}"}}"#),
            json!("long"),
            -32600,
            "1000 bytes",
        ),
        (
            format!(r#"{{"method":"a","params":{{"a":"{long}"}},"jsonrpc":"2.0","id":9}}"#),
            json!(9),
            -32600,
            "1000 bytes",
        ),
        (format!(r#"{{"jsonrpc":"2.0","id":3,"result":"{long}"}}"#), Value::Null, -32600, "1000"),
    ] {
        client.send_text(&format!("{line}\n\r\n  \n")).await;
        let response = client.receive().await;
        assert_eq!((&response["id"], &response["error"]["code"]), (&id, &json!(code)), "{line}");
        let message = response["error"]["message"].as_str().unwrap();
        assert!(message.contains(text), "{message}");
    }
    // The last line has no line break.
    client.send_text(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#).await;
    let rest = client.close().await;
    let rest: Vec<Value> = rest.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rest, [json!({ "jsonrpc": "2.0", "id": 1, "result": {} })]);
}

#[tokio::test]
async fn batches_are_split_where_supported() {
    let mut client = Client::start(|seen| match seen.name() {
        "initialize" => seen.initialized("s-1", "2025-03-26"),
        "notifications/a" => empty(202),
        _ => seen.result(&json!({})),
    });
    client.request(&json!(0), "initialize", &json!({})).await;
    client.receive().await;
    client
        .send(&json!([{"jsonrpc": "2.0", "id": 1, "method": "ping"}, {"jsonrpc": "2.0",
            "method": "notifications/a"}, {"id": 2}, {"jsonrpc": "2.0", "id": 3, "method": "ping"}]))
        .await;
    let responses = client.receive().await;
    let ids: Vec<_> = responses.as_array().unwrap().iter().map(|r| r["id"].clone()).collect();
    assert_eq!(ids, [Value::Null, json!(1), json!(3)]);
    client.seen("notifications/a", 1).await;
    client.send(&json!([])).await;
    assert_eq!(client.receive().await["error"]["code"], -32600);
}

#[tokio::test]
async fn responses_without_message_report_status() {
    let mut client = Client::start(|seen| match seen.body["id"].as_u64() {
        Some(1) => empty(502),
        Some(2) => {
            answer(401, &json!({"jsonrpc": "2.0", "error": {"code": -32600, "message": "who"}}))
        }
        Some(3) => answer(200, &json!([])),
        _ => empty(302),
    });
    for (id, text) in [(1, "HTTP 502"), (2, "who"), (3, "JSON-RPC response"), (4, "redirects")] {
        client.request(&json!(id), "ping", &json!({})).await;
        let response = client.receive().await;
        assert_eq!(response["id"], id);
        let message = response["error"]["message"].as_str().unwrap();
        assert!(message.contains(text), "{message}");
    }
}

#[tokio::test]
async fn signal_ends_bridge_with_running_requests() {
    let mut client = Client::start(|_| {
        let response = Response::builder().status(StatusCode::OK);
        let body = Body::from_stream(stream::pending::<Result<String, io::Error>>());
        response.header("content-type", "text/event-stream").body(body).unwrap()
    });
    client.request(&json!(1), "tools/call", &json!({"name": "a", "_meta": meta()})).await;
    client.seen("tools/call", 1).await;
    client.stop.send(()).unwrap();
    let line = client.from.next_line().await.unwrap().expect("a response");
    let response: Value = serde_json::from_str(&line).unwrap();
    assert_eq!((&response["id"], reason(&response)), (&json!(1), "outcome-unknown"));
    timeout(Duration::from_secs(3), client.bridge).await.expect("an end").unwrap().unwrap();
}

fn reason(response: &Value) -> &str {
    response["error"]["data"]["reason"].as_str().unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn hanging_session_fails_all_callers() {
    let opened = AtomicUsize::new(0);
    let mut client = Client::in_session(move |seen| match seen.name() {
        "initialize" if opened.fetch_add(1, Ordering::Relaxed) == 0 => {
            seen.initialized("one", LEGACY)
        }
        "initialize" => {
            let body = Body::from_stream(stream::pending::<Result<String, io::Error>>());
            Response::builder().header("content-type", "application/json").body(body).unwrap()
        }
        "notifications/initialized" => empty(202),
        "GET" => empty(405),
        _ => seen.error(404, -32600),
    })
    .await;
    let begin = tokio::time::Instant::now();
    for id in 1..=3 {
        client.request(&json!(id), "ping", &json!({})).await;
    }
    for _ in 1..=3 {
        let response = client.receive().await;
        assert_eq!(reason(&response), "session-lost", "{response}");
    }
    assert!(begin.elapsed() < Duration::from_secs(11), "{:?}", begin.elapsed());
}

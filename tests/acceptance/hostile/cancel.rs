//! Calls that are canceled at every stage: nothing continues upstream.

use std::{fs, path::Path, sync::Arc, time::Duration};

use acceptance::{Gateway, eventually};
use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt as _, net::TcpStream};

use super::{CALL_HEAD, LEGACY, MODERN, Scene, connect, gateway, modern_call};
use crate::scripted_server::{HUNG_UP, STAY};

/// How a client cancels its call.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Cancellation {
    /// A client without a session closes its connection.
    Disconnect,
    /// A client with a session sends a cancellation.
    Notification,
}

/// A call in progress.
struct Caller {
    stream: TcpStream,
    session: Option<String>,
}

impl Caller {
    async fn start(gateway: &Gateway, cancellation: Cancellation, url: &str) -> Self {
        let session = match cancellation {
            Cancellation::Disconnect => None,
            Cancellation::Notification => Some(open(gateway).await),
        };
        let mut body = modern_call(url);
        let head = match &session {
            None => CALL_HEAD.to_owned(),
            Some(id) => {
                body["params"].as_object_mut().expect("an object").remove("_meta");
                format!("{}Mcp-Session-Id: {id}\r\n", legacy_head())
            }
        };
        let body = body.to_string();
        let mut stream = connect(gateway).await;
        let sent = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
        stream.write_all(sent.as_bytes()).await.expect("the call");
        Self { stream, session }
    }

    async fn takes_it_back(self, gateway: &Gateway) {
        let Some(session) = self.session else { return drop(self.stream) };
        let params = json!({ "requestId": 1 });
        let body =
            json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params });
        assert_eq!(post(gateway, Some(&session), &body).await.status(), 202);
    }
}

fn legacy_head() -> String {
    let lines = CALL_HEAD.split_inclusive("\r\n").filter(|line| !line.starts_with("Mcp-"));
    lines.collect()
}

async fn post(gateway: &Gateway, session: Option<&str>, body: &Value) -> reqwest::Response {
    let mut request = reqwest::Client::new()
        .post(gateway.mcp_url())
        .header("accept", "application/json, text/event-stream")
        .header("content-type", "application/json")
        .body(body.to_string());
    if let Some(session) = session {
        request = request.header("mcp-session-id", session);
    }
    request.send().await.expect("an answer")
}

async fn open(gateway: &Gateway) -> String {
    let params = json!({ "protocolVersion": LEGACY, "capabilities": {} });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params });
    let answer = post(gateway, None, &body).await;
    answer.headers()["mcp-session-id"].to_str().expect("text").to_owned()
}

/// The number of calls in the queue of the upstream.
async fn waiting_calls(gateway: &Gateway) -> String {
    let metrics = reqwest::get(format!("{}/metrics", gateway.url())).await.expect("metrics");
    let metrics = metrics.text().await.expect("text");
    let is_wanted = |line: &&str| {
        line.starts_with("gateway_target_requests") && line.contains("state=\"queued\"")
    };
    let line = metrics.lines().find(is_wanted).expect("a target");
    line.rsplit(' ').next().unwrap_or_default().to_owned()
}

/// An upstream that starts a response or none, and then hangs.
async fn hanging_server(version: &'static str, more: &str) -> Scene {
    let events = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n: working\n\n";
    let call = Arc::new(move |_: &str, message: &Value| {
        let is_begun = message["params"]["arguments"]["url"] == "http://x/begun";
        is_begun.then(|| format!("{events}{STAY}"))
    });
    Scene::start(version, more, call).await
}

#[tokio::test]
async fn http_request_ends_when_caller_disconnects() {
    for version in [MODERN, LEGACY] {
        let scene = hanging_server(version, "").await;
        let count = |text: &str| scene.server.seen().matches(text).count();
        for cancellation in [Cancellation::Disconnect, Cancellation::Notification] {
            for at in ["http://x/silent", "http://x/begun"] {
                let (calls, ends, told) =
                    (count("\"tools/call\""), count(HUNG_UP), count("notifications/cancelled"));
                let caller = Caller::start(&scene.gateway, cancellation, at).await;
                eventually("it is in progress", || async { count("\"tools/call\"") > calls }).await;
                tokio::time::sleep(Duration::from_millis(50)).await;
                assert_eq!(count(HUNG_UP), ends, "{version} {cancellation:?} {at}: too early");
                caller.takes_it_back(&scene.gateway).await;
                eventually("its connection ends", || async { count(HUNG_UP) > ends }).await;
                if version == LEGACY {
                    let is_told = || async { count("notifications/cancelled") > told };
                    eventually("a legacy server receives it", is_told).await;
                }
            }
        }
        let (calls, ends) = (count("\"tools/call\""), count(HUNG_UP));
        assert_eq!((calls, ends), (4, 4), "{version}: none goes on, none was made twice");
    }
}

#[tokio::test]
async fn queued_and_incomplete_calls_are_never_sent() {
    let scene = hanging_server(MODERN, "limits: { upstreamRequests: 1 }\n").await;
    let count = |text: &str| scene.server.seen().matches(text).count();
    let first = Caller::start(&scene.gateway, Cancellation::Disconnect, "http://x/first").await;
    eventually("the first is in progress", || async { count("http://x/first") == 1 }).await;
    let mut waiting = Vec::new();
    for cancellation in [Cancellation::Disconnect, Cancellation::Notification] {
        waiting.push(Caller::start(&scene.gateway, cancellation, "http://x/waits").await);
    }
    let mut half = connect(&scene.gateway).await;
    let body = modern_call("http://x/half").to_string();
    let sent = format!("{CALL_HEAD}Content-Length: {}\r\n\r\n{}", body.len() + 1, body);
    half.write_all(sent.as_bytes()).await.expect("most of it");
    eventually("two calls wait", || async { waiting_calls(&scene.gateway).await == "2" }).await;
    drop(half);
    for caller in waiting {
        caller.takes_it_back(&scene.gateway).await;
    }
    eventually("no call waits", || async { waiting_calls(&scene.gateway).await == "0" }).await;
    first.takes_it_back(&scene.gateway).await;
    eventually("the first ends", || async { count(HUNG_UP) == 1 }).await;
    // The slot is free again, and no canceled call is in the queue.
    let next = Caller::start(&scene.gateway, Cancellation::Disconnect, "http://x/next").await;
    eventually("the next is in progress", || async { count("http://x/next") == 1 }).await;
    next.takes_it_back(&scene.gateway).await;
    assert_eq!((count("http://x/waits"), count("http://x/half")), (0, 0));
}

/// A child that records its messages and answers no call.
fn child(dir: &Path, version: &str) -> String {
    let known = if version == MODERN {
        r#"*'"server/discover"'*) answer '{"supportedVersions":["2026-07-28"]}';;"#
    } else {
        r#"*'"server/discover"'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"?"}}\n' "$id";;
           *'"initialize"'*) answer '{"protocolVersion":"2025-11-25","capabilities":{}}';;"#
    };
    let script = format!(
        r#"answer() {{ printf '{{"jsonrpc":"2.0","id":%s,"result":%s}}\n' "$id" "$1"; }}
        while IFS= read -r line; do printf '%s\n' "$line" >> seen
        id=${{line#*\"id\":}}; id=${{id%%,*}}; case $line in
          {known}
          *'"tools/list"'*) answer '{{"tools":[{{"name":"fetch","inputSchema":{{}}}}]}}';;
        esac; done"#
    );
    fs::write(dir.join("child.sh"), script).expect("a script");
    format!("stdio: {{ command: sh, args: [child.sh], cwd: \"{}\" }}", dir.display())
}

#[tokio::test]
async fn child_receives_cancellation() {
    for version in [MODERN, LEGACY] {
        let dir = tempfile::tempdir().expect("a directory");
        let gateway = gateway(&child(dir.path(), version), "").await;
        let lines = |text: &str| -> Vec<Value> {
            let seen = fs::read_to_string(dir.path().join("seen")).unwrap_or_default();
            let lines = seen.lines().filter(|line| line.contains(text));
            lines.filter_map(|line| serde_json::from_str(line).ok()).collect()
        };
        let calls = || lines("\"tools/call\"");
        for (number, cancellation) in
            [Cancellation::Disconnect, Cancellation::Notification].into_iter().enumerate()
        {
            let caller = Caller::start(&gateway, cancellation, "http://x/silent").await;
            eventually("it is in progress", || async { calls().len() > number }).await;
            assert_eq!(
                lines("notifications/cancelled").len(),
                number,
                "{version} {cancellation:?}: too early"
            );
            caller.takes_it_back(&gateway).await;
            let is_told = || async { lines("notifications/cancelled").len() > number };
            eventually("the child receives it", is_told).await;
            let told = &lines("notifications/cancelled")[number]["params"]["requestId"];
            assert_eq!(*told, calls()[number]["id"], "{version} {cancellation:?}");
        }
    }
}

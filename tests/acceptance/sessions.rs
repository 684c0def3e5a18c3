//! Sessions of clients before 2026-07-28 under faults: killed gateways, replicas, and connections
//! that drop during a call.

use std::{
    os::unix::fs::PermissionsExt as _,
    process::Stdio,
    sync::{
        Arc, Mutex,
        mpsc::{Sender, channel},
    },
};

use acceptance::{Backend, FaultProxy, Gateway, GatewayOptions, eventually, mcp::LEGACY, root};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};

pub(crate) use crate::hostile::page;
use crate::{
    conformance::official,
    hostile::{MODERN, Scene, result_of},
    scripted_server::{HUNG_UP, json_answer},
};

/// A client of one session at any address.
pub(crate) struct Client {
    http: reqwest::Client,
    session: String,
}

fn request(method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": method, "method": method, "params": params })
}

fn fetch() -> Value {
    request("tools/call", &json!({ "name": "fetch", "arguments": { "url": "http://x/" } }))
}

impl Client {
    pub(crate) async fn open(url: &str) -> Self {
        Self::open_with(reqwest::Client::new(), url).await
    }

    async fn open_with(http: reqwest::Client, url: &str) -> Self {
        let client = Self { http, session: String::new() };
        let about = json!({ "name": "test", "version": "1" });
        let params = json!({ "protocolVersion": LEGACY, "capabilities": {}, "clientInfo": about });
        let opened = client.post(url, &request("initialize", &params)).await;
        let session = opened.headers()["mcp-session-id"].to_str().expect("text").to_owned();
        Self { session, ..client }
    }

    fn with_headers(&self, request: reqwest::RequestBuilder) -> reqwest::RequestBuilder {
        let request = request.header("accept", "application/json, text/event-stream");
        if self.session.is_empty() {
            return request;
        }
        request.header("mcp-session-id", &self.session).header("mcp-protocol-version", LEGACY)
    }

    async fn post(&self, url: &str, message: &Value) -> reqwest::Response {
        let request = self.http.post(url).header("content-type", "application/json");
        let request = self.with_headers(request).body(message.to_string());
        request.send().await.expect("the gateway answers")
    }

    /// Returns the HTTP status and the message of the response.
    async fn ask(&self, url: &str, message: &Value) -> (u16, Value) {
        let answer = self.post(url, message).await;
        let status = answer.status().as_u16();
        (status, answer.json().await.expect("JSON"))
    }

    /// Resumes after an event; returns the status and the raw text.
    async fn resume(&self, url: &str, event: &str) -> (u16, String) {
        let request = self.with_headers(self.http.get(url)).header("last-event-id", event);
        let answer = request.send().await.expect("the gateway answers");
        (answer.status().as_u16(), answer.text().await.expect("text"))
    }
}

#[tokio::test]
async fn session_continues_after_kill_and_restart() {
    let backend = Backend::start();
    let options = options(&backend, "");
    let mut gateway = Gateway::start(&options);
    gateway.ready().await;
    let url = gateway.mcp_url();
    let client = Client::open(&url).await;
    let list = request("tools/list", &json!({}));
    let (status, before) = client.ask(&url, &list).await;
    assert_eq!(status, 200, "{before}");
    gateway.process.kill_9();
    gateway.restart(&options);
    gateway.ready().await;
    let (status, after) = client.ask(&url, &list).await;
    assert_eq!(status, 200, "{after}");
    let names = |listed: &Value| -> Vec<String> {
        let tools = listed["result"]["tools"].as_array().expect("tools").iter();
        tools.map(|tool| tool["name"].to_string()).collect()
    };
    assert_eq!(names(&before), names(&after));
    // The list may have changed, so the gateway announces a change.
    let stranger = Client::open(&url).await;
    gateway.process.kill_9();
    gateway.restart(&options);
    gateway.ready().await;
    let mut listening =
        stranger.with_headers(stranger.http.get(&url)).send().await.expect("a stream");
    let first = listening.chunk().await.expect("a part").expect("an event");
    let first = String::from_utf8_lossy(&first).into_owned();
    assert!(first.contains("notifications/tools/list_changed"), "{first}");
    let forged = Client { session: format!("{}A", client.session), ..client };
    assert_eq!(forged.ask(&url, &list).await.0, 404);
    let key = gateway.cache().with_file_name("registry-v2.json.key");
    let mode = std::fs::metadata(key).expect("the key is next to the cache").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

/// The version header selects the era, then the session, then `Mcp-Method`.
#[tokio::test]
async fn session_id_outranks_method_header() {
    let backend = Backend::start();
    let gateway = Gateway::start(&options(&backend, ""));
    gateway.ready().await;
    let url = gateway.mcp_url();
    let client = Client::open(&url).await;
    let session = ("mcp-session-id", client.session.as_str());
    let forged = format!("{}A", client.session);
    let forged = ("mcp-session-id", forged.as_str());
    let method = ("mcp-method", "tools/list");
    let version = |version: &'static str| ("mcp-protocol-version", version);
    for (headers, expected) in [
        (&[session, method][..], 200),
        (&[session], 200),
        (&[session, method, version(LEGACY)], 200),
        (&[forged, method], 404),
        (&[method], 400),
        (&[session, method, version(MODERN)], 400),
    ] {
        let mut post = client.http.post(&url).header("content-type", "application/json");
        post = post.header("accept", "application/json, text/event-stream");
        for (name, value) in headers {
            post = post.header(*name, *value);
        }
        let list = request("tools/list", &json!({}));
        let answer = post.body(list.to_string()).send().await.expect("the gateway answers");
        assert_eq!(answer.status(), expected, "{headers:?}");
        let message: Value = answer.json().await.expect("JSON");
        assert_eq!(message["result"]["tools"].is_array(), expected == 200, "{headers:?} {message}");
        let modern = message["result"].get("resultType");
        assert_eq!(modern, None, "{headers:?}: a result of the era of sessions");
    }
}

fn options(backend: &Backend, more: &str) -> GatewayOptions {
    GatewayOptions {
        source: format!("file://{}", root().join("examples/registry-v2.json").display()),
        targets: backend.targets(),
        runtime: None,
        more: more.to_owned(),
    }
}

#[tokio::test]
async fn replicas_share_sessions_by_key_file() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("session.keys");
    let (old, new) = ("A".repeat(43), format!("B{}", "A".repeat(42)));
    std::fs::write(&file, &old).expect("the key is written");
    let backend = Backend::start();
    let options = options(&backend, &format!("sessionKeyFile: {}\n", file.display()));
    let [mut one, other] = [Gateway::start(&options), Gateway::start(&options)];
    one.ready().await;
    other.ready().await;
    let client = Client::open(&one.mcp_url()).await;
    let list = request("tools/list", &json!({}));
    let (status, listed) = client.ask(&other.mcp_url(), &list).await;
    assert_eq!(status, 200, "{listed}");
    // Key rotation: the new key seals, and the old key still opens.
    std::fs::write(&file, format!("{new}\n{old}\n")).expect("the keys are written");
    one.process.stop();
    one.restart(&options);
    one.ready().await;
    assert_eq!(client.ask(&one.mcp_url(), &list).await.0, 200);
    let later = Client::open(&one.mcp_url()).await;
    assert_eq!(later.ask(&one.mcp_url(), &list).await.0, 200);
}

/// An upstream whose calls wait until the test releases them, and then return this result.
pub(crate) async fn waiting(result: Value) -> (Scene, Sender<()>) {
    let (release, released) = channel();
    let released = Mutex::new(released);
    let call = Arc::new(move |_: &str, message: &Value| {
        // `Err`: the test ended.
        let _ = released.lock().expect("not poisoned").recv();
        Some(json_answer(&result_of(message, &result)))
    });
    (Scene::start(MODERN, "", call).await, release)
}

/// Starts a call, and drops the connection after the first event. Returns the id of that event.
pub(crate) async fn drop_in_the_middle(client: &Client, url: &str) -> String {
    let mut answer = client.post(url, &fetch()).await;
    assert_eq!(answer.headers()["content-type"], "text/event-stream");
    let mut text = String::new();
    loop {
        let part = answer.chunk().await.expect("a part").expect("the stream goes on");
        text.push_str(&String::from_utf8_lossy(&part));
        assert!(!text.contains("\"result\""), "the call is not done: {text}");
        if let Some((event, _)) = text.split_once("\n\n") {
            let mut lines = event.lines();
            let id = lines.next().and_then(|line| line.strip_prefix("id: ")).expect("an id");
            assert_eq!(lines.next(), Some("data: "), "clients need a data line to see the id");
            return id.to_owned();
        }
    }
}

/// Waits until the gateway has finished this number of calls.
async fn finished(scene: &Scene, count: usize) {
    eventually("the call finishes", || async {
        scene.gateway.process.stderr().matches("outcome=\"ok\"").count() == count
    })
    .await;
}

fn calls(scene: &Scene) -> usize {
    scene.server.seen().matches("\"method\":\"tools/call\"").count()
}

#[tokio::test]
async fn dropped_call_is_resumed_once() {
    let (scene, release) = waiting(page()).await;
    let url = scene.gateway.mcp_url();
    let client = Client::open(&url).await;
    for finishes_first in [true, false] {
        let before = calls(&scene);
        let event = drop_in_the_middle(&client, &url).await;
        let finished = || async {
            let log = scene.gateway.process.stderr();
            log.matches("outcome=\"ok\"").count() == before + 1
        };
        let resumed = if finishes_first {
            release.send(()).expect("the call waits");
            eventually("the call finishes without a connection", finished).await;
            client.resume(&url, &event).await
        } else {
            let resumed = tokio::spawn({
                let client = Client { http: client.http.clone(), session: client.session.clone() };
                let (url, event) = (url.clone(), event.clone());
                async move { client.resume(&url, &event).await }
            });
            release.send(()).expect("the call waits");
            resumed.await.expect("it is resumed")
        };
        assert_eq!(resumed.0, 200, "{resumed:?}");
        assert_eq!(resumed.1.matches("\"result\"").count(), 1, "{resumed:?}");
        let last = resumed.1.lines().filter_map(|line| line.strip_prefix("id: ")).next_back();
        let (status, rest) = client.resume(&url, last.expect("the answer has an id")).await;
        assert_eq!((status, rest.as_str()), (200, ""), "no event is repeated");
        assert_eq!(calls(&scene), before + 1, "the far side is called once");
    }
    assert!(!scene.server.seen().contains(HUNG_UP), "no call was cancelled");
    let event = drop_in_the_middle(&client, &url).await;
    let (stream, _) = event.rsplit_once('-').expect("an event's number");
    let (status, told) = client.resume(&url, &format!("{stream}-7")).await;
    assert!(status == 400 && told.contains("Last-Event-ID"), "{told}");
    let other = Client::open(&url).await;
    let (status, told) = other.resume(&url, "unknown-1").await;
    assert!(status == 400 && told.contains("Last-Event-ID"), "{told}");
}

/// A result of 4.5 MB. Three of them fit into the quota of one caller.
fn large() -> Value {
    let mut page = page();
    page["content"][0]["text"] = "x".repeat(4_500_000).into();
    page
}

#[tokio::test]
async fn delivered_responses_are_evicted_first() {
    let (scene, release) = waiting(large()).await;
    let url = scene.gateway.mcp_url();
    let (one, other) = (Client::open(&url).await, Client::open(&url).await);
    for _ in 0..4 {
        let answer = one.post(&url, &fetch()).await;
        release.send(()).expect("the call waits");
        let text = answer.text().await.expect("text");
        assert!(text.starts_with("id: ") && text.contains("\"result\""), "an event stream");
    }
    let event = drop_in_the_middle(&other, &url).await;
    release.send(()).expect("the call waits");
    finished(&scene, 5).await;
    let (status, rest) = other.resume(&url, &event).await;
    let told: String = rest.chars().take(500).collect();
    assert!(status == 200 && rest.contains("\"result\""), "{told}");
}

#[tokio::test]
async fn kept_responses_are_limited_per_address() {
    let (scene, release) = waiting(large()).await;
    let url = scene.gateway.mcp_url();
    let one = Client::open(&url).await;
    let mut events = Vec::new();
    for count in 1..=4 {
        events.push(drop_in_the_middle(&one, &url).await);
        release.send(()).expect("the call waits");
        finished(&scene, count).await;
    }
    let elsewhere =
        reqwest::Client::builder().local_address(std::net::IpAddr::from([127, 0, 0, 2]));
    let other = Client::open_with(elsewhere.build().expect("a client"), &url).await;
    let event = drop_in_the_middle(&other, &url).await;
    release.send(()).expect("the call waits");
    finished(&scene, 5).await;
    let (_, rest) = other.resume(&url, &event).await;
    assert!(rest.contains("\"result\""), "{}", rest.chars().take(500).collect::<String>());
    let (_, last) = one.resume(&url, &events[3]).await;
    assert!(last.contains("16 MiB"), "{}", last.len());
    let (_, first) = one.resume(&url, &events[0]).await;
    assert!(first.contains("\"result\""), "{}", first.chars().take(500).collect::<String>());
}

#[tokio::test]
async fn dropped_call_can_be_canceled() {
    let (scene, _release) = waiting(page()).await;
    let url = scene.gateway.mcp_url();
    let client = Client::open(&url).await;
    let event = drop_in_the_middle(&client, &url).await;
    let params = json!({ "requestId": "tools/call" });
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params });
    assert_eq!(client.post(&url, &cancel).await.status(), 202);
    eventually("the call is cancelled", || async {
        scene.gateway.process.stderr().contains("outcome=\"cancelled\"")
    })
    .await;
    let (status, rest) = client.resume(&url, &event).await;
    assert_eq!((status, rest.as_str()), (200, ""), "a cancelled call has no answer");
}

/// The official client reconnects by itself.
#[tokio::test(flavor = "multi_thread")]
async fn typescript_sdk_resumes_a_dropped_call() {
    let (scene, release) = waiting(page()).await;
    let proxy = FaultProxy::start(&scene.gateway.address).await;
    let script = root().join("tests/acceptance/conformance/resume.mjs");
    let mut command = tokio::process::Command::from(official().node(&script));
    command.arg(official().modules()).arg(format!("http://{}/mcp", proxy.address()));
    let mut client = command.stdout(Stdio::piped()).kill_on_drop(true).spawn().expect("it starts");
    let mut lines = BufReader::new(client.stdout.take().expect("piped")).lines();
    let mut line = async || lines.next_line().await.expect("text").expect("the client prints");
    assert_eq!(line().await, "the stream can be resumed");
    proxy.lead_to(&scene.gateway.address);
    release.send(()).expect("the call waits");
    assert_eq!(line().await, "a page");
    assert!(client.wait().await.expect("it ends").success());
    assert_eq!(calls(&scene), 1);
}

//! Requests in progress and open streams during a configuration reload.

use std::time::Duration;

use acceptance::{Backend, Gateway, GatewayOptions, eventually};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use super::{client_with_headers, gateway, is_research_agent, options};

const KEYS: [&str; 2] = ["the-key-that-goes", "the-key-that-stays"];

/// The API keys of the research agent, in clear text.
fn api_keys(dir: &std::path::Path, keys: &[&str]) -> String {
    let known: Vec<_> = keys
        .iter()
        .map(|key| {
            let file = dir.join(key);
            std::fs::write(&file, key).expect("a file");
            format!("{{ agent: research-agent, keyFile: {} }}", file.display())
        })
        .collect();
    format!("{{ apiKeys: [{}], required: true }}", known.join(", "))
}

/// Sends the head of a request with this key and a part of its body. Returns the rest.
async fn begin_request(gateway: &Gateway, key: &str) -> (TcpStream, String) {
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": { "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {} } } });
    let body = body.to_string();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n\
         Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/list\r\n\
         Authorization: Bearer {key}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let (begin, rest) = body.split_at(20);
    let mut stream = TcpStream::connect(&gateway.address).await.expect("a connection");
    stream.write_all(format!("{head}{begin}").as_bytes()).await.expect("the beginning");
    (stream, rest.to_owned())
}

async fn reload(gateway: &Gateway) {
    let url = format!("{}/admin/reload", gateway.admin_url());
    let reloaded = reqwest::Client::new().post(url).send().await.expect("an answer");
    assert_eq!(reloaded.status(), 200);
}

#[tokio::test]
async fn removed_key_rejects_request_in_progress() {
    let (backend, dir) = (Backend::start(), tempfile::tempdir().expect("a directory"));
    let admin = "admin: 127.0.0.1:0\n";
    let gateway = gateway(&backend, &api_keys(dir.path(), &KEYS), admin);
    for key in KEYS {
        is_research_agent(&client_with_headers(&gateway, &[("x-api-key", key)])).await;
    }
    let [goes, stays] =
        [begin_request(&gateway, KEYS[0]).await, begin_request(&gateway, KEYS[1]).await];
    // The heads are authenticated once the gateway waits for the bodies.
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    gateway.configure(&options(&backend, &api_keys(dir.path(), &KEYS[1..]), admin));
    reload(&gateway).await;
    for ((mut stream, rest), status) in [(goes, "401"), (stays, "200")] {
        stream.write_all(rest.as_bytes()).await.expect("the rest");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("an answer");
        assert_eq!(answer.get(9..12), Some(status), "{answer}");
    }
}

/// Opens the stream of a client that subscribes to tool changes.
async fn listen(gateway: &Gateway) -> reqwest::Response {
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": {
        "notifications": { "toolsListChanged": true },
        "_meta": { "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {} } } });
    let request = reqwest::Client::new()
        .post(gateway.mcp_url())
        .header("accept", "application/json, text/event-stream")
        .header("content-type", "application/json")
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", "subscriptions/listen")
        .body(body.to_string());
    request.send().await.expect("a stream")
}

/// The next event, or "the end".
async fn next(stream: &mut reqwest::Response) -> String {
    let chunk = tokio::time::timeout(Duration::from_secs(30), stream.chunk());
    let chunk = chunk.await.expect("an event in time").expect("a stream").map(|c| c.to_vec());
    chunk.map_or_else(|| "the end".to_owned(), |bytes| String::from_utf8(bytes).expect("text"))
}

/// An event that arrives within a second.
async fn further(stream: &mut reqwest::Response) -> Option<String> {
    tokio::time::timeout(Duration::from_secs(1), next(stream)).await.ok()
}

#[tokio::test]
async fn reload_ends_streams_only_if_identity_changed() {
    let backend = Backend::start();
    let serving = |identity: &str, unknown: &str| GatewayOptions {
        runtime: Some(format!("{{ unknownCaller: {unknown} }}")),
        ..options(&backend, identity, "admin: 127.0.0.1:0\n")
    };
    let gateway = Gateway::start(&serving("{ trustHeaders: true }", "allow"));
    gateway.ready().await;
    let anybody = client_with_headers(&gateway, &[]);
    let tools = async || anybody.tools().await.len();
    eventually("what its upstreams have is known", || async {
        tools().await > 0 && !gateway.targets().await.contains("\"connecting\"")
    })
    .await;
    let mut stream = listen(&gateway).await;
    let first = next(&mut stream).await;
    assert!(first.contains("acknowledged"), "{first}");
    // Tool lists of the upstreams arrive one after another.
    while further(&mut stream).await.is_some() {}
    for _ in 0..2 {
        reload(&gateway).await;
        assert_eq!(further(&mut stream).await, None, "nothing has changed");
    }
    gateway.configure(&serving("{ trustHeaders: true }", "deny"));
    reload(&gateway).await;
    let event = next(&mut stream).await;
    assert!(event.contains("tools/list_changed"), "{event}");
    assert_eq!(tools().await, 0);
    gateway.configure(&serving("{ trustHeaders: false }", "deny"));
    reload(&gateway).await;
    let result = next(&mut stream).await;
    assert!(result.contains("\"complete\""), "{result}");
    assert_eq!(next(&mut stream).await, "the end");
}

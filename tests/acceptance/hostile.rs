//! Hostile and faulty callers and upstreams against a real gateway process.

mod callers;
mod cancel;
mod framing;
mod headers;
mod memory;
mod upstreams;

use std::{sync::Arc, time::Duration};

use acceptance::{Gateway, GatewayOptions};
use gateway_testkit::McpServer;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use crate::scripted_server::{self, Script, ScriptedServer};

pub(crate) const MODERN: &str = "2026-07-28";
pub(crate) const LEGACY: &str = "2025-11-25";

/// The raw reply of the upstream to a call, given the head and the message.
pub(crate) type Call = Arc<dyn Fn(&str, &Value) -> Option<String> + Send + Sync>;

/// A gateway in front of one upstream with the tool `fetch`.
pub(crate) struct Scene {
    pub(crate) gateway: Gateway,
    pub(crate) server: ScriptedServer,
}

impl Scene {
    pub(crate) async fn start(version: &'static str, more: &str, call: Call) -> Self {
        let mcp = if version == MODERN { McpServer::modern() } else { McpServer::legacy() };
        let server = ScriptedServer::mcp(mcp.with_tools(FETCH), calls(call)).await;
        let gateway = gateway(&format!("http: \"{}\"", server.url), more).await;
        Self { gateway, server }
    }
}

/// A gateway with the example's catalog and a running fetch server.
async fn gateway(transport: &str, more: &str) -> Gateway {
    let example = acceptance::root().join("examples/registry-v2.json");
    let gateway = Gateway::start(&GatewayOptions {
        source: format!("file://{}", example.display()),
        targets: format!("targets: [{{ server: fetch-server, version: 1.2.3, {transport} }}]\n"),
        runtime: None,
        more: more.to_owned(),
    });
    gateway.ready().await;
    gateway.upstreams_up(1).await;
    gateway
}

/// A tool list with `fetch`.
const FETCH: &str = r#"[{"name":"fetch","inputSchema":{}}]"#;

/// Replies to calls, and to unknown methods with an error.
fn calls(call: Call) -> Script {
    Arc::new(move |head, body| {
        let message: Value = serde_json::from_str(body).ok()?;
        match message["method"].as_str() {
            Some("tools/call") => call(head, &message),
            _ if head.starts_with("POST") => Some(scripted_server::status("404 Not Found")),
            _ => Some(scripted_server::status("405 Method Not Allowed")),
        }
    })
}

pub(crate) fn result_of(message: &Value, result: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": message["id"], "result": result })
}

/// The result of a fetched page.
pub(crate) fn page() -> Value {
    json!({ "resultType": "complete", "content": [{ "type": "text", "text": "a page" }],
        "structuredContent": { "url": "http://x/", "title": "t", "text": "a page" } })
}

fn modern_call(url: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "fetch", "arguments": { "url": url }, "_meta": {
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": {} } } })
}

/// The head of a complete modern call, without the length of the body.
const CALL_HEAD: &str = "POST /mcp HTTP/1.1\r\nHost: localhost\r\n\
    Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n\
    Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: fetch\r\n";

async fn connect(gateway: &Gateway) -> TcpStream {
    TcpStream::connect(&gateway.address).await.expect("a connection")
}

/// Sends bytes on a connection. Returns everything received until the gateway closes it or is
/// silent for a while, and whether it closed it.
async fn exchange(gateway: &Gateway, bytes: &[u8]) -> (String, bool) {
    let mut stream = connect(gateway).await;
    let _ = stream.write_all(bytes).await; // it may have had enough before the end
    read_all(&mut stream).await
}

async fn read_all(stream: &mut TcpStream) -> (String, bool) {
    let (mut all, mut part) = (Vec::new(), vec![0; 0x4000]);
    loop {
        match timeout(Duration::from_secs(2), stream.read(&mut part)).await {
            Ok(Ok(0) | Err(_)) => return (String::from_utf8_lossy(&all).into_owned(), true),
            Ok(Ok(read)) => all.extend_from_slice(&part[..read]),
            Err(_) => return (String::from_utf8_lossy(&all).into_owned(), false),
        }
    }
}

/// The HTTP status of a raw response.
fn status(answer: &str) -> u16 {
    let code = answer.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
    code.unwrap_or_else(|| panic!("no answer: {answer:?}"))
}

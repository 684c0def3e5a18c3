//! Requests and results that need far more memory or time than their size suggests.

use std::{
    net::{Ipv4Addr, SocketAddr},
    ops::Range,
    sync::Arc,
    time::{Duration, Instant},
};

use acceptance::{Gateway, GatewayOptions, ModernClient, eventually, eventually_within};
use gateway_testkit::McpServer;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
    time::timeout,
};

use super::{CALL_HEAD, FETCH, MODERN, calls, result_of, status};
use crate::scripted_server::{self, Script, ScriptedServer, json_answer};

const MEBIBYTE: u64 = 1 << 20;

/// A gateway with one tool whose arguments and results contain lists of integers.
struct Scene {
    gateway: Gateway,
    _server: ScriptedServer,
    _dir: TempDir,
}

impl Scene {
    /// `result` is the result of the tool.
    async fn start(result: Value, settings: (&str, &str)) -> Self {
        let answer = json_answer(&result_of(&json!({ "id": "ID" }), &result));
        let call = Arc::new(move |_: &str, message: &Value| {
            // The id has the same length as its placeholder, so the content length stays correct.
            Some(answer.replacen("\"ID\"", &format!("{:>4}", message["id"].to_string()), 1))
        });
        Self::start_at(McpServer::modern(), calls(call), settings).await
    }

    /// `script` replies to the requests that `mcp` does not know.
    async fn start_at(mcp: McpServer, script: Script, (runtime, more): (&str, &str)) -> Self {
        let list = json!({ "type": "object", "properties": {
            "list": { "type": "array", "items": { "type": "integer" } } } });
        let registry = json!({ "schemaVersion": "2.0",
            "schemas": [{ "name": "List", "version": "1.0.0", "schema": list }],
            "servers": [{ "name": "fetch-server", "version": "1.2.3",
                "provides": [{ "tool": "fetch", "version": "1.0.0" }] }],
            "tools": [{ "name": "fetch", "version": "1.0.0", "description": "Takes a list",
                "source": { "server": "fetch-server", "serverVersion": "1.2.3", "tool": "fetch" },
                "inputSchema": { "$ref": "#List:1.0.0" }, "outputSchema": { "$ref": "#List:1.0.0" } },
                { "name": "composed", "version": "1.0.0", "description": "Takes a list",
                "depends": [{ "type": "tool", "name": "fetch", "version": "1.0.0" }],
                "spec": { "pipeline": { "steps": [
                    { "id": "only", "operation": { "tool": { "name": "fetch" } } }] } } }] });
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("registry.json");
        std::fs::write(&file, registry.to_string()).expect("a file");
        let server = ScriptedServer::mcp(mcp.with_tools(FETCH), script).await;
        let gateway = Gateway::start(&GatewayOptions {
            source: format!("file://{}", file.display()),
            targets: format!(
                "targets: [{{ server: fetch-server, version: 1.2.3, exposes: [resources], http: \"{}\" }}]\n",
                server.url
            ),
            runtime: (!runtime.is_empty()).then(|| runtime.to_owned()),
            more: more.to_owned(),
        });
        gateway.ready().await;
        gateway.upstreams_up(1).await;
        Self { gateway, _server: server, _dir: dir }
    }

    fn client(&self) -> ModernClient {
        ModernClient::anonymous(&self.gateway.mcp_url())
    }

    /// The growth of the gateway's peak memory.
    fn grown(&self, before: u64) -> u64 {
        self.gateway.process.peak_bytes().saturating_sub(before) / MEBIBYTE
    }
}

fn small() -> Value {
    json!({ "resultType": "complete", "content": [], "structuredContent": { "list": [1] } })
}

fn list(item: &Value, bytes: usize) -> Value {
    json!({ "list": vec![item; bytes / (item.to_string().len() + 1)] })
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_request_costs_memory_in_proportion() {
    let scene = Scene::start(small(), ("{ inputValidation: deny }", "")).await;
    scene.client().call("fetch", json!({ "list": [1] })).await;
    let before = scene.gateway.process.resident_bytes();
    for item in [json!("x"), json!({ "": 0 }), json!([]), json!(null)] {
        let answer = scene.client().call("fetch", list(&item, 3_900_000)).await;
        assert!(answer.is_tool_error(), "{item}");
        let told = answer.text();
        assert!(told.contains("/list/0") && told.contains("\"integer\""), "{told}");
        let grown = scene.grown(before);
        println!("a list of {item}: resident memory grew by at most {grown} MiB");
        assert!(grown < 96, "{grown} MiB for a list of {item}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_result_costs_memory_in_proportion() {
    let mut result = small();
    result["structuredContent"] = list(&json!({ "": 0 }), 15_000_000);
    let scene = Scene::start(result, ("{ outputValidation: deny }", "")).await;
    let before = scene.gateway.process.resident_bytes();
    let answer = scene.client().call("fetch", json!({})).await;
    assert!(answer.is_tool_error() && answer.text().contains("/list/0"), "{}", answer.text());
    let grown = scene.grown(before);
    println!("resident memory grew by at most {grown} MiB");
    assert!(grown < 256, "{grown} MiB");
}

#[tokio::test(flavor = "multi_thread")]
async fn composition_result_memory_is_reserved_before_parsing() {
    let mut result = small();
    result["structuredContent"] = list(&json!({ "": 0 }), 15_000_000);
    let scene = Scene::start(result, ("", "")).await;
    let before = scene.gateway.process.resident_bytes();
    let answer = scene.client().call("composed", json!({})).await;
    assert!(answer.is_tool_error(), "{}", answer.status);
    let told = answer.text();
    assert!(told.contains("`only`") && told.contains("limits.bufferedBytes"), "{told}");
    let grown = scene.grown(before);
    println!("resident memory grew by at most {grown} MiB");
    assert!(grown < 128, "{grown} MiB");
}

/// A complete call as raw text.
fn request_of(arguments: &Value) -> String {
    wire(CALL_HEAD, ("tools/call", json!({ "name": "fetch", "arguments": arguments })))
}

/// A complete request as raw text.
fn wire(head: &str, (method, mut params): (&str, Value)) -> String {
    params["_meta"] = json!({ "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {} });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
    format!("{head}Content-Length: {}\r\n\r\n{body}", body.len())
}

#[tokio::test(flavor = "multi_thread")]
async fn long_validations_do_not_delay_other_callers() {
    let scene = Scene::start(small(), ("", "")).await;
    let request = request_of(&list(&json!("x"), 3_900_000));
    let attack = async |_| {
        let began = Instant::now();
        let mut stream = connect_from(2, &scene.gateway).await;
        stream.write_all(request.as_bytes()).await.expect("the request");
        assert_eq!(status_of(&mut stream).await, 200);
        began.elapsed()
    };
    let attacks = futures_util::future::join_all((0..4).map(attack));
    let client = scene.client();
    let median = async || {
        let mut took = Vec::new();
        for _ in 0..20 {
            let began = Instant::now();
            assert!(!client.call("fetch", json!({ "list": [1] })).await.is_tool_error());
            took.push(began.elapsed());
        }
        took.sort_unstable();
        took[took.len() / 2]
    };
    let idle = median().await;
    let (attacks, busy) = tokio::join!(attacks, median());
    let longest = attacks.into_iter().max().expect("four");
    println!("four long validations took {longest:?}, other calls {busy:?}, without them {idle:?}");
    let near = idle.max(Duration::from_millis(5)) * 10;
    assert!(busy < longest / 4 && busy < near, "{busy:?}, idle {idle:?}, of {longest:?}");
}

/// 64 MiB in total, so 16 MiB per caller.
const LIMITS: &str = "limits: { bufferedBytes: 67108864, responseBytes: 10000000 }\n";

/// Connects from the local address with this last byte.
async fn connect_from(last: u8, gateway: &Gateway) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    // Otherwise the kernel may buffer a whole response, and more responses on a busy machine.
    socket.set_recv_buffer_size(64 << 10).expect("a size");
    socket.bind((Ipv4Addr::new(127, 0, 0, last), 0).into()).expect("an address");
    let address: SocketAddr = gateway.address.parse().expect("an address");
    socket.connect(address).await.expect("a connection")
}

/// Sends two of four announced mebibytes.
async fn half_sent(last: u8, gateway: &Gateway) -> TcpStream {
    let mut stream = connect_from(last, gateway).await;
    let head = format!("{CALL_HEAD}Content-Length: 4194304\r\n\r\n");
    stream.write_all(head.as_bytes()).await.expect("the head");
    // The gateway may reject the request before the end.
    let _ = stream.write_all(&vec![b' '; 2 << 20]).await;
    stream
}

/// The HTTP status, or 0 if the connection is closed without a response.
async fn status_of(stream: &mut TcpStream) -> u16 {
    let mut part = [0; 256];
    match stream.read(&mut part).await {
        Ok(read) if read > 0 => status(&String::from_utf8_lossy(&part[..read])),
        _ => 0,
    }
}

/// The HTTP status within 5 s, before the gateway closes a stalled request, or 0.
async fn early_status(stream: &mut TcpStream) -> u16 {
    timeout(Duration::from_secs(5), status_of(stream)).await.unwrap_or_default()
}

/// Sends thirty incomplete requests at once from each of these addresses.
async fn half_sent_from(addresses: Range<u8>, gateway: &Gateway) -> Vec<u16> {
    let each = addresses.flat_map(|last| [last; 30]).map(async |last| {
        let mut stream = half_sent(last, gateway).await;
        early_status(&mut stream).await
    });
    futures_util::future::join_all(each).await
}

async fn rejections(gateway: &Gateway) -> f64 {
    let text = reqwest::get(format!("{}/metrics", gateway.url())).await.expect("an answer");
    let text = text.text().await.expect("text");
    let line = text.lines().find(|line| {
        line.starts_with("gateway_requests_rejected_total") && line.contains("buffers-full")
    });
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn incomplete_requests_are_limited_per_address() {
    let scene = Scene::start(small(), ("", LIMITS)).await;
    let before = scene.gateway.process.resident_bytes();
    eventually("the share of the address is used up", || async {
        half_sent_from(2..3, &scene.gateway).await.contains(&429)
    })
    .await;
    eventually("the memory for all callers is used up", || async {
        half_sent_from(3..8, &scene.gateway).await.contains(&503)
    })
    .await;
    let held = half_sent_from(2..3, &scene.gateway);
    let other = async {
        let answer = scene.client().call("fetch", json!({ "list": [1] })).await;
        assert!(!answer.is_tool_error(), "another address is served");
    };
    assert!(tokio::join!(held, other).0.contains(&429));
    assert!(rejections(&scene.gateway).await > 0.5);
    let grown = scene.grown(before);
    println!("resident memory grew by at most {grown} MiB");
    // Up to 300 MiB are sent at the same time.
    assert!(grown < 192, "{grown} MiB");
    let mut stalled = half_sent(2, &scene.gateway).await;
    let cut = timeout(Duration::from_mins(1), status_of(&mut stalled)).await;
    assert!(matches!(cut, Ok(0 | 400)), "a stalled request is cut off, not {cut:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_stop_reading_are_disconnected() {
    let mut result = small();
    result["content"] = json!([{ "type": "text", "text": "x".repeat(6 << 20) }]);
    let scene = Scene::start(result, ("", LIMITS)).await;
    let before = scene.gateway.process.resident_bytes();
    let request = request_of(&json!({}));
    let mut silent = Vec::new();
    for _ in 0..12 {
        let mut stream = connect_from(2, &scene.gateway).await;
        stream.write_all(request.as_bytes()).await.expect("the request");
        // After the first bytes of the response, the gateway has the whole result.
        let mut part = [0; 4096];
        let read = stream.read(&mut part).await.expect("an answer");
        silent.push((stream, String::from_utf8_lossy(&part[..read]).into_owned()));
    }
    let is_error = |(_, part): &&(_, String)| part.contains("\"isError\":true");
    let discarded = silent.iter().filter(is_error).count();
    println!("{discarded} of 12 results were discarded");
    assert!((8..12).contains(&discarded), "{discarded}");
    let grown = scene.grown(before);
    println!("resident memory grew by at most {grown} MiB");
    assert!(grown < 64, "{grown} MiB");
    let is_served = async |client: &ModernClient| {
        let answer = client.call("fetch", json!({})).await;
        answer.status == 200 && answer.message["result"]["isError"].is_null()
    };
    assert!(is_served(&scene.client()).await, "another address is served");
    let same = reqwest::Client::builder().local_address(Some([127, 0, 0, 2].into()));
    let same = scene.client().over(same.build().expect("a client"));
    let limit = Duration::from_secs(90);
    eventually_within(limit, "slow readers are cut off", || is_served(&same)).await;
}

/// A page of resources with 6 MB.
fn resources() -> Script {
    let description = "x".repeat(20_000);
    let page: Vec<_> = (0..300)
        .map(|n| json!({ "name": "r", "uri": format!("test://{n}"), "description": description }))
        .collect();
    Arc::new(move |_, body| {
        let message: Value = serde_json::from_str(body).unwrap_or_default();
        let result = match message["method"].as_str() {
            Some("resources/list") => json!({ "resultType": "complete", "resources": page }),
            Some("resources/templates/list") => {
                json!({ "resultType": "complete", "resourceTemplates": [] })
            }
            _ => return Some(scripted_server::status("404 Not Found")),
        };
        Some(json_answer(&result_of(&message, &result)))
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn unread_tool_lists_are_limited() {
    let mcp = McpServer::modern().with_capabilities(json!({ "tools": {}, "resources": {} }));
    let scene = Scene::start_at(mcp, resources(), ("", LIMITS)).await;
    let listed = async |client: &ModernClient| {
        client.request("resources/list", json!({})).await.expect("an answer")
    };
    eventually("the resources are listed", || async {
        !listed(&scene.client()).await.message["result"]["resources"][0].is_null()
    })
    .await;
    let before = scene.gateway.process.resident_bytes();
    let head = CALL_HEAD.replace("tools/call", "resources/list").replace("Mcp-Name: fetch\r\n", "");
    let request = wire(&head, ("resources/list", json!({})));
    let (mut silent, mut statuses) = (Vec::new(), Vec::new());
    for _ in 0..40 {
        let mut stream = connect_from(2, &scene.gateway).await;
        stream.write_all(request.as_bytes()).await.expect("the request");
        statuses.push(status_of(&mut stream).await);
        silent.push(stream);
    }
    let rejected = statuses.iter().filter(|status| **status == 429).count();
    println!("{rejected} of 40 lists were rejected: {statuses:?}");
    assert!((37..40).contains(&rejected), "{statuses:?}");
    let grown = scene.grown(before);
    println!("resident memory grew by at most {grown} MiB");
    assert!(grown < 96, "{grown} MiB");
    assert_eq!(listed(&scene.client()).await.status, 200, "another address is served");
    let same = reqwest::Client::builder().local_address(Some([127, 0, 0, 2].into()));
    let rejection = listed(&scene.client().over(same.build().expect("a client"))).await;
    assert_eq!((rejection.status, rejection.error_code()), (429, -32603), "{rejection:?}");
    let data = json!({ "reason": "buffers-full", "setting": "limits.bufferedBytes",
        "sharedBy": "caller", "limitBytes": 16 << 20 });
    assert_eq!(rejection.message["error"]["data"], data);
}

//! Agents that send too much, read nothing, or use the ids of others.

use std::{io, time::Duration};

use futures_util::future::join_all;
use reqwest::StatusCode;
use serde_json::Map;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpSocket,
    time::timeout,
};

use super::*;

const MEBIBYTE: u64 = 1 << 20;
/// Longer than any exchange here takes.
const PATIENCE: Duration = Duration::from_mins(1);

/// Calls `extractor`, which answers.
async fn assert_served(agents: &Agents, extractor: &mut WebSocket) {
    let answering = async {
        let text = extractor.text().await.expect("a call");
        let request: Value = serde_json::from_str(&text).expect("JSON");
        let answer = json!({ "id": request["id"], "result": { "features": [1.5] } });
        assert!(extractor.send(answer.to_string()).await);
    };
    let both = async { tokio::join!(agents.executed("extractor", "extract"), answering) };
    let (answer, ()) = timeout(PATIENCE, both).await.expect("the agent is called");
    assert_eq!(answer["result"], json!({ "features": [1.5] }), "{answer}");
}

fn heartbeat(agent_id: &str) -> Value {
    json!({ "id": 2, "method": "agent.heartbeat",
        "params": { "agent_id": agent_id, "status": "active" } })
}

#[tokio::test]
async fn unfinished_messages_count_for_buffered_bytes() {
    // A caller may use a quarter of the memory: 2 MiB.
    let config = "identity: { trustHeaders: true }\n\
                  limits: { requestBytes: 1048576, responseBytes: 1048576, \
                  bufferedBytes: 8388608 }\n";
    let agents = Agents::start_with(config, &servers());
    let mut open = Vec::new();
    for _ in 0..2 {
        let mut socket = agents.socket("hostile").await;
        fragment(&mut socket, 900 << 10).await.expect("the fragment is sent");
        // The gateway reads in order, so that its answer to a ping follows the fragment.
        socket.stream().write_all(&[0x89, 0x80, 0, 0, 0, 0]).await.expect("the ping is sent");
        let mut pong = [0; 2];
        socket.stream().read_exact(&mut pong).await.expect("a pong");
        assert_eq!(pong, [0x8a, 0]);
        open.push(socket);
    }
    let mut rejected = agents.socket("hostile").await;
    // The connection can end while the client sends.
    let _ = fragment(&mut rejected, 900 << 10).await;
    let code = timeout(PATIENCE, rejected.close_code()).await.expect("the connection ends");
    // Unread bytes can reset the connection before the close frame arrives.
    assert!(code.is_none_or(|code| code == 1013), "{code:?}");
    drop(open);
    let whole = format!("{{\"x\":\"{}\"}}", "x".repeat(900 << 10));
    eventually("the memory is free again", || async {
        let mut socket = agents.socket("hostile").await;
        socket.send(whole.clone()).await && socket.text().await.is_some()
    })
    .await;
}

/// Sends a text frame that begins a message without its end.
async fn fragment(socket: &mut WebSocket, bytes: u32) -> io::Result<()> {
    let length = u64::from(bytes).to_be_bytes();
    let head = [&[0x01, 0xff][..], &length, &[0; 4]].concat();
    socket.stream().write_all(&head).await?;
    socket.stream().write_all(&vec![b'x'; bytes as usize]).await
}

#[tokio::test]
async fn announced_gigabyte_takes_no_memory() {
    let agents = Agents::start();
    let mut extractor = agents.extractor().await;
    let before = agents.gateway.resident_bytes();
    let mut hostile = agents.socket("hostile").await;
    // The head of a text frame of 1 GiB with its mask.
    let head = [0x81, 0xff, 0, 0, 0, 0, 0x40, 0, 0, 0, 1, 2, 3, 4];
    hostile.stream().write_all(&head).await.expect("the head is sent");
    let (part, mut sent) = (vec![0; 1 << 20], 0);
    while sent < 256 && hostile.stream().write_all(&part).await.is_ok() {
        sent += 1;
    }
    assert!(sent < 256, "{sent} MiB were taken");
    let grown = agents.gateway.peak_bytes().saturating_sub(before) / MEBIBYTE;
    assert!(grown < 32, "{grown} MiB");
    assert_served(&agents, &mut extractor).await;
}

#[tokio::test]
async fn websocket_that_never_reads_is_closed() {
    let agents = Agents::start();
    let mut extractor = agents.extractor().await;
    let before = agents.gateway.resident_bytes();
    let address = agents.gateway.address();
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(4096).expect("an option of sockets");
    let stream = socket.connect(address.parse().expect("an address")).await.expect("connected");
    let opened = WebSocket::over(stream, &address, &[("x-agent-name", "hostile")]).await;
    let mut hostile = opened.expect("a WebSocket");
    let request = json!({ "id": 1, "method": "unknown" }).to_string();
    let flood = async { while hostile.send(request.clone()).await {} };
    timeout(PATIENCE, flood).await.expect("the connection is closed");
    let grown = agents.gateway.peak_bytes().saturating_sub(before) / MEBIBYTE;
    assert!(grown < 32, "{grown} MiB");
    assert_served(&agents, &mut extractor).await;
}

#[tokio::test]
async fn flood_of_heartbeats_is_limited() {
    let agents = Agents::start();
    let mut extractor = agents.extractor().await;
    let mut flooding = agents.socket("hostile").await;
    let answer = flooding.asked(&registration("flooding")).await;
    assert_eq!(answer["result"]["status"], "registered", "{answer}");
    let mut limited = 0;
    for _ in 0..2_000 {
        let answer = flooding.asked(&heartbeat("flooding")).await;
        limited += u32::from(error(&answer) == (-32600, "RATE_LIMITED"));
    }
    assert!(limited > 1_000, "{limited}");
    assert_served(&agents, &mut extractor).await;
    let accepted =
        async { while error(&flooding.asked(&heartbeat("flooding")).await).1 == "RATE_LIMITED" {} };
    timeout(PATIENCE, accepted).await.expect("later heartbeats are accepted");
}

#[tokio::test]
async fn flood_of_heartbeats_over_http_is_limited() {
    let agents = Agents::start();
    let mut extractor = agents.extractor().await;
    let http = reqwest::Client::new();
    let beat = async || {
        let request = http
            .post(format!("http://{}/rpc", agents.gateway.address()))
            .header("content-type", "application/json")
            .header("x-agent-name", "owner")
            .body(heartbeat("extractor").to_string());
        let text = request.send().await.expect("sent").text().await.expect("a body");
        serde_json::from_str::<Value>(&text).expect("JSON")
    };
    let mut limited = 0;
    // On a busy machine, one request after another can stay within the rate of 100 per second.
    for _ in 0..8 {
        let answers = join_all((0..250).map(|_| beat())).await;
        limited += answers.iter().filter(|a| error(a) == (-32600, "RATE_LIMITED")).count();
    }
    assert!(limited > 0);
    assert_served(&agents, &mut extractor).await;
    let accepted = async { while error(&beat().await).1 == "RATE_LIMITED" {} };
    timeout(PATIENCE, accepted).await.expect("later heartbeats are accepted");
}

#[tokio::test]
async fn similar_agent_id_is_rejected() {
    let agents = Agents::start();
    let mut extractor = agents.extractor().await;
    let mut other = agents.socket("other").await;
    for similar in ["Extractor", "EXTRACTOR", "Gateway"] {
        let answer = other.asked(&registration(similar)).await;
        assert_eq!(error(&answer), (-32003, "AGENT_ID_TAKEN"), "{answer}");
    }
    assert_served(&agents, &mut extractor).await;
}

#[tokio::test]
async fn ten_thousand_functions_are_rejected_whole() {
    let agents = Agents::start();
    let mut extractor = agents.extractor().await;
    let before = agents.gateway.resident_bytes();
    let tools = agents.client().tool_names().await;
    let names: Vec<_> = (0..10_000).map(|number| format!("f{number}")).collect();
    let types = json!({ "input": { "symbol": "string" } });
    let mut many = registration("many");
    let schema = names.iter().map(|name| (name.clone(), types.clone()));
    many["params"]["schema"] = schema.collect::<Map<_, _>>().into();
    many["params"]["tools"] = names.into();
    let answer = agents.socket("hostile").await.asked(&many).await;
    assert_eq!(error(&answer), (-32602, "INVALID_PARAMS"), "{answer}");
    assert_eq!(agents.client().tool_names().await, tools);
    let grown = agents.gateway.peak_bytes().saturating_sub(before) / MEBIBYTE;
    assert!(grown < 64, "{grown} MiB");
    assert_served(&agents, &mut extractor).await;
}

/// Types of the argument `a` that no registration may have.
fn hostile_types() -> Vec<Value> {
    let lists = |depth| format!("{}string{}", "list[".repeat(depth), "]".repeat(depth));
    let objects = |depth| (0..depth).fold(json!("string"), |inner, _| json!({ "a": inner }));
    let members = (0..100_000).map(|number| (format!("m{number}"), json!("string")));
    vec![
        json!(lists(100)),
        json!(lists(100_000)),
        json!("list[".repeat(100_000)),
        json!("optional[".repeat(100_000)),
        json!("dict[list[string],string]"),
        json!("any"),
        json!({ "$ref": "http://169.254.169.254/" }),
        json!("x".repeat(1 << 20)),
        json!(null),
        json!(["string"]),
        objects(100),
        objects(1_000),
        members.collect::<Map<_, _>>().into(),
    ]
}

#[tokio::test]
async fn hostile_schemas_are_rejected() {
    let agents = Agents::start();
    let mut extractor = agents.extractor().await;
    let before = agents.gateway.resident_bytes();
    let tools = agents.client().tool_names().await;
    let mut hostile = agents.socket("hostile").await;
    for (number, kind) in hostile_types().into_iter().enumerate() {
        let mut schema = registration("hostile");
        schema["params"]["schema"]["extract"]["input"] = json!({ "a": kind });
        let answer = timeout(PATIENCE, hostile.asked(&schema)).await.expect("an answer in time");
        let (code, reason) = error(&answer);
        assert!([-32602, -32600].contains(&code), "type {number}: {code} {reason}");
        assert!(answer.to_string().len() < 4096, "type {number}: a long answer");
    }
    assert_eq!(agents.client().tool_names().await, tools);
    let grown = agents.gateway.peak_bytes().saturating_sub(before) / MEBIBYTE;
    assert!(grown < 96, "{grown} MiB");
    assert_served(&agents, &mut extractor).await;
}

#[tokio::test]
async fn agent_id_of_another_principal_is_protected() {
    let agents = Agents::start();
    let mut extractor = agents.extractor().await;
    let mut other = agents.socket("other").await;
    let answer = other.asked(&registration("extractor")).await;
    assert_eq!(error(&answer), (-32003, "AGENT_ID_TAKEN"), "{answer}");
    let mut draining = heartbeat("extractor");
    draining["params"]["status"] = "draining".into();
    let answer = other.asked(&draining).await;
    assert_eq!(error(&answer), (-32000, "AGENT_NOT_FOUND"), "{answer}");

    let mut over_http = registration("extractor");
    over_http["params"]["endpoint"] = "http://127.0.0.1:1/mcp".into();
    let request = reqwest::Client::new()
        .post(format!("http://{}/rpc", agents.gateway.address()))
        .header("content-type", "application/json")
        .header("x-agent-name", "other")
        .body(over_http.to_string());
    let answer = request.send().await.expect("an answer");
    assert_eq!(answer.status(), StatusCode::CONFLICT);
    assert_served(&agents, &mut extractor).await;
}

#[tokio::test]
async fn names_of_configured_targets_are_protected() {
    let config = "identity: { trustHeaders: true }\n\
                  targets: [{ server: payments, version: '*', http: 'http://127.0.0.1:1/mcp' }]\n";
    let agents = Agents::start_with(config, &servers());
    let answer = agents.socket("hostile").await.asked(&registration("payments")).await;
    assert_eq!(error(&answer), (-32003, "AGENT_ID_TAKEN"), "{answer}");
    let answer = agents.executed("payments", "extract").await;
    assert_eq!(error(&answer), (-32000, "AGENT_NOT_FOUND"), "{answer}");
}

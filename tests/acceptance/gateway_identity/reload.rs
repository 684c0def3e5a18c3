//! Callers whose request is on its way while the configuration changes.

use acceptance::Gateway;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use super::{Backend, gateway, is_research_agent, options, with};

const KEYS: [&str; 2] = ["the-key-that-goes", "the-key-that-stays"];

/// Takes keys of the research agent, given in the clear.
fn taking(dir: &std::path::Path, keys: &[&str]) -> String {
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

/// The head of a request with this key, and the beginning of its body; then the rest.
async fn begin(gateway: &Gateway, key: &str) -> (TcpStream, String) {
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

#[tokio::test]
async fn a_key_that_goes_while_a_body_comes_lets_nobody_in_any_more() {
    let (backend, dir) = (Backend::start(), tempfile::tempdir().expect("a directory"));
    let admin = "admin: 127.0.0.1:0\n";
    let gateway = gateway(&backend, &taking(dir.path(), &KEYS), admin);
    for key in KEYS {
        is_research_agent(&with(&gateway, &[("x-api-key", key)])).await;
    }
    let [goes, stays] = [begin(&gateway, KEYS[0]).await, begin(&gateway, KEYS[1]).await];
    // Their heads were judged when the gateway waits for the rest.
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    gateway.configure(&options(&backend, &taking(dir.path(), &KEYS[1..]), admin));
    let url = format!("{}/admin/reload", gateway.admin_url());
    let reloaded = reqwest::Client::new().post(url).send().await.expect("an answer");
    assert_eq!(reloaded.status(), 200);
    for ((mut stream, rest), status) in [(goes, "401"), (stays, "200")] {
        stream.write_all(rest.as_bytes()).await.expect("the rest");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("an answer");
        assert_eq!(answer.get(9..12), Some(status), "{answer}");
    }
}

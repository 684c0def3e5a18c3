//! Upstreams that hang, disconnect, send invalid data and flood: each call ends in time with an
//! error, the next call succeeds, and no memory is retained.

use std::{
    fmt::Write as _,
    sync::Arc,
    time::{Duration, Instant},
};

use acceptance::ModernClient;
use serde_json::{Value, json};

use super::{LEGACY, MODERN, Scene, gateway, page, result_of};
use crate::scripted_server::{RESET, STAY, json_answer};

const LIMITS: &str = "limits: { responseBytes: 1000000, callTimeoutMs: 2000 }\n";

const EVENTS: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";

/// A response with a wrong content length.
fn wrong_length(message: &Value, length: &str) -> String {
    let body = result_of(message, &page()).to_string();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
    format!("{head}{length}\r\n\r\n{body}")
}

fn raw(body: &str) -> String {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n";
    format!("{head}content-length: {}\r\n\r\n{body}", body.len())
}

/// A stream of this many notifications, followed by the response.
fn flood(message: &Value, count: usize) -> String {
    let mut text = EVENTS.to_owned();
    for number in 0..count {
        let params = json!({ "progressToken": message["id"], "progress": number,
            "message": "x".repeat(900) });
        let told =
            json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params });
        let _ = write!(text, "data: {told}\n\n");
    }
    let _ = write!(text, "data: {}\n\n", result_of(message, &page()));
    text
}

/// The fault of a call, selected by the last part of the URL to fetch.
fn fault(message: &Value) -> Option<String> {
    let url = message["params"]["arguments"]["url"].as_str()?;
    let good = result_of(message, &page());
    Some(match url.strip_prefix("http://x/")? {
        "" => json_answer(&good),
        "hangs" => return None,
        "hangs in its head" => format!("HTTP/1.1 200 OK\r\ncontent-type: appl{STAY}"),
        "hangs in its body" => format!("{}{STAY}", &json_answer(&good)[..120]),
        "hangs in a stream" => format!("{EVENTS}: still here\n\ndata: {{{STAY}"),
        "resets" => RESET.to_owned(),
        "closes" => String::new(),
        "says more than it sends" => wrong_length(message, "content-length: 100000"),
        "says less than it sends" => wrong_length(message, "content-length: 10"),
        "says two lengths" => wrong_length(message, "content-length: 10\r\ncontent-length: 20"),
        "says a length that is none" => wrong_length(message, "content-length: -1"),
        "says chunks and sends none" => wrong_length(message, "transfer-encoding: chunked"),
        "says it will be huge" => wrong_length(message, "content-length: 99999999999"),
        "says nonsense" => "SSH-2.0-far_side\r\n\r\n".to_owned(),
        "has a head without end" => format!("HTTP/1.1 200 OK\r\n{}", "x: y\r\n".repeat(100_000)),
        "sends no JSON" => raw("<html>"),
        "sends half of it" => raw(&good.to_string()[..40]),
        "sends it twice" => raw(&format!("{good}{good}")),
        "sends a batch" => raw(&format!("[{good}]")),
        "sends bytes" => raw("{\"jsonrpc\":\"2.0\",\"id\":\u{0},\"result\":{}}"),
        "sends a result and an error" => {
            let mut both = good;
            both["error"] = json!({ "code": 1, "message": "both" });
            json_answer(&both)
        }
        "is too deep" => raw(&format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{}{}}}",
            message["id"],
            "[".repeat(50_000),
            "]".repeat(50_000)
        )),
        "is too long" => raw(&format!("{{\"a\":\"{}\"}}", "x".repeat(2_000_000))),
        "responds with another id" => {
            json_answer(&json!({ "jsonrpc": "2.0", "id": 999_999, "result": page() }))
        }
        "responds without an id" => {
            json_answer(&json!({ "jsonrpc": "2.0", "id": null, "result": page() }))
        }
        "answers others in a stream" => {
            let other = json!({ "jsonrpc": "2.0", "id": 999_999, "result": page() });
            format!("{EVENTS}data: {other}\n\n")
        }
        "floods" => flood(message, 5_000),
        "redirects" => {
            "HTTP/1.1 307 X\r\nlocation: http://169.254.169.254/\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
                .to_owned()
        }
        other => panic!("`{other}`"),
    })
}

/// Error messages for callers.
const LATE: &str = "fetch returned no result within 2000 ms. The outcome of the call is unknown.";
const BROKEN: &str =
    "The server behind fetch violated the protocol. The outcome of the call is unknown.";
const LONG: &str =
    "The result of fetch exceeds 1000000 bytes and was discarded. Request less data.";

const FAULTS: [(&str, &str); 27] = [
    ("hangs", LATE),
    ("hangs in its head", LATE),
    ("hangs in its body", LATE),
    ("hangs in a stream", LATE),
    ("resets", BROKEN),
    ("closes", BROKEN),
    ("says more than it sends", BROKEN),
    ("says less than it sends", BROKEN),
    ("says two lengths", BROKEN),
    ("says a length that is none", BROKEN),
    ("says chunks and sends none", BROKEN),
    ("says it will be huge", LONG),
    ("says nonsense", BROKEN),
    ("has a head without end", BROKEN),
    ("sends no JSON", BROKEN),
    ("sends half of it", BROKEN),
    ("sends it twice", BROKEN),
    ("sends a batch", BROKEN),
    ("sends bytes", BROKEN),
    ("sends a result and an error", BROKEN),
    ("is too deep", BROKEN),
    ("is too long", LONG),
    ("responds with another id", BROKEN),
    ("responds without an id", BROKEN),
    ("answers others in a stream", BROKEN),
    // Messages of one stream are read at 1 MiB/s.
    ("floods", LATE),
    ("redirects", BROKEN),
];

#[tokio::test]
async fn faulty_upstreams_fail_calls_in_time() {
    for version in [MODERN, LEGACY] {
        let call = Arc::new(|_: &str, message: &Value| fault(message));
        let scene = Scene::start(version, LIMITS, call).await;
        let client = ModernClient::anonymous(&scene.gateway.mcp_url());
        let fetch = async |what: &str| {
            client.call("fetch", json!({ "url": format!("http://x/{what}") })).await
        };
        assert!(!fetch("").await.is_tool_error());
        let before = scene.gateway.process.resident_bytes();
        for (what, told) in FAULTS {
            let began = Instant::now();
            let answer = fetch(what).await;
            assert_eq!(answer.status, 200, "{what}: {answer:?}");
            assert!(answer.is_tool_error(), "{version}, {what}: {answer:?}");
            assert_eq!(answer.text(), told, "{version}, {what}");
            assert!(began.elapsed() < Duration::from_secs(4), "{what} took {:?}", began.elapsed());
            assert!(!fetch("").await.is_tool_error(), "{version}, after `{what}`");
        }
        let grown = scene.gateway.process.peak_bytes().saturating_sub(before);
        println!("{version}: resident memory grew by at most {} KiB", grown / 1024);
        assert!(grown < 64 << 20, "{grown} bytes");
        assert!(!scene.gateway.process.stderr().contains("panicked"));
    }
}

/// A child that writes many unrequested messages before its response.
const BABBLER: &str = r#"
answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
flood() { yes "$1" | head -n 100000; }
while IFS= read -r line; do id=${line#*\"id\":}; id=${id%%,*}; case $line in
  *'"server/discover"'*) answer '{"supportedVersions":["2026-07-28"]}';;
  *'"tools/list"'*) answer '{"tools":[{"name":"fetch","inputSchema":{}}]}';;
  *'"tools/call"'*)
    flood '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"x"}}'
    flood "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":$id,\"progress\":1}}"
    flood '{"jsonrpc":"2.0","id":999999,"result":{}}'
    flood 'no JSON'; flood 'no JSON' >&2
    answer '{"resultType":"complete","content":[{"type":"text","text":"a page"}]}';;
esac; done
"#;

#[tokio::test]
async fn flooding_child_uses_bounded_memory() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("child.sh"), BABBLER).expect("a script");
    let stdio =
        format!("stdio: {{ command: sh, args: [child.sh], cwd: \"{}\" }}", dir.path().display());
    let gateway = gateway(&stdio, "").await;
    let client = ModernClient::anonymous(&gateway.mcp_url());
    let before = gateway.process.resident_bytes();
    for _ in 0..3 {
        let answer = client.call("fetch", json!({ "url": "http://x/" })).await;
        assert_eq!(answer.text(), "a page", "{answer:?}");
    }
    let grown = gateway.process.peak_bytes().saturating_sub(before);
    println!("after 1,500,000 lines resident memory has grown by at most {} KiB", grown / 1024);
    assert!(grown < 32 << 20, "{grown} bytes");
    let log = gateway.process.stderr();
    let lines = log.matches("child.line=").count();
    assert!((1..400).contains(&lines), "{lines} lines in the log");
}

//! Callers that send too much, send too slowly, or open too many connections or sessions.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use acceptance::{Gateway, ModernClient};
use futures_util::{StreamExt as _, stream};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{CALL_HEAD, LEGACY, MODERN, Scene, connect, page, read_all, result_of, status};
use crate::scripted_server::json_answer;

const MEGABYTE: usize = 1 << 20;

async fn scene() -> Scene {
    let call = Arc::new(|_: &str, message: &Value| Some(json_answer(&result_of(message, &page()))));
    Scene::start(MODERN, "", call).await
}

async fn serves(gateway: &Gateway) {
    let client = ModernClient::anonymous(&gateway.mcp_url());
    let began = Instant::now();
    assert!(!client.call("fetch", json!({ "url": "http://x/" })).await.is_tool_error());
    assert!(began.elapsed() < Duration::from_secs(5), "it took {:?}", began.elapsed());
}

#[tokio::test]
async fn oversized_body_is_rejected_unread() {
    let scene = scene().await;
    serves(&scene.gateway).await;
    let before = scene.gateway.process.resident_bytes();
    let part = vec![b' '; MEGABYTE];
    for is_announced in [true, false] {
        let mut stream = connect(&scene.gateway).await;
        let (length, begin, end) = if is_announced {
            ("Content-Length: 1073741824\r\n", String::new(), "")
        } else {
            ("Transfer-Encoding: chunked\r\n", format!("{MEGABYTE:x}\r\n"), "\r\n")
        };
        let head = format!("{CALL_HEAD}{length}\r\n");
        stream.write_all(head.as_bytes()).await.expect("the head");
        let mut sent = 0;
        while sent < 1024 {
            let bytes = [begin.as_bytes(), &part, end.as_bytes()].concat();
            if stream.write_all(&bytes).await.is_err() {
                break;
            }
            sent += 1;
        }
        let (answer, is_closed) = read_all(&mut stream).await;
        println!("announced: {is_announced}: {sent} MiB were taken, then: {:?}", answer.get(..12));
        assert!(sent < 64, "{sent} MiB were taken");
        assert!(is_closed);
        // Unread data can reset the connection before the response arrives. A response that arrives
        // is a 413.
        assert!(answer.is_empty() || status(&answer) == 413, "{answer}");
    }
    // With `Expect: 100-continue`, the client is rejected before it sends the body.
    let mut stream = connect(&scene.gateway).await;
    let head = format!("{CALL_HEAD}Content-Length: 1073741824\r\nExpect: 100-continue\r\n\r\n");
    stream.write_all(head.as_bytes()).await.expect("the head");
    let (answer, is_closed) = read_all(&mut stream).await;
    assert_eq!((status(&answer), is_closed), (413, true), "{answer}");
    let grown = scene.gateway.process.peak_bytes().saturating_sub(before);
    println!("resident memory grew by at most {} MiB", grown / MEGABYTE as u64);
    assert!(grown < 48 * MEGABYTE as u64, "{grown} bytes");
    serves(&scene.gateway).await;
}

#[tokio::test]
async fn slow_clients_are_disconnected() {
    let scene = scene().await;
    let began = Instant::now();
    let head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\n";
    let body = format!("{CALL_HEAD}Content-Length: 1000\r\n\r\n{{");
    let dribble = async |start: &str, drop: &'static [u8]| {
        let mut stream = connect(&scene.gateway).await;
        stream.write_all(start.as_bytes()).await.expect("the beginning");
        let (mut reading, mut writing) = stream.into_split();
        let dribbling = tokio::spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_secs(1)).await;
                if writing.write_all(drop).await.is_err() {
                    return;
                }
            }
        });
        let mut answer = Vec::new();
        let _ = reading.read_to_end(&mut answer).await;
        dribbling.abort();
        (began.elapsed(), String::from_utf8_lossy(&answer).into_owned())
    };
    let heads = futures_util::future::join_all((0..100).map(|_| dribble(head, b"X")));
    let bodies = futures_util::future::join_all((0..100).map(|_| dribble(&body, b" ")));
    let others = async {
        for _ in 0..10 {
            tokio::time::sleep(Duration::from_secs(5)).await;
            serves(&scene.gateway).await;
        }
    };
    let (heads, bodies, ()) = tokio::join!(heads, bodies, others);
    for (after, _) in heads {
        assert!((25..45).contains(&after.as_secs()), "a head was cut off after {after:?}");
    }
    for (after, answer) in bodies {
        assert!((55..80).contains(&after.as_secs()), "a body was cut off after {after:?}");
        assert!(answer.is_empty() || status(&answer) == 400, "{answer}");
    }
    assert!(!scene.server.seen().contains("{ "), "nothing of it went on");
}

/// Sends a message of a legacy client. Returns its session and the status.
async fn legacy(http: &reqwest::Client, url: &str, session: &str, method: &str) -> (String, u16) {
    let params = json!({ "protocolVersion": LEGACY, "capabilities": {} });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let mut request = http
        .post(url)
        .header("accept", "application/json, text/event-stream")
        .header("content-type", "application/json")
        .body(body.to_string());
    if !session.is_empty() {
        request = request.header("mcp-session-id", session);
    }
    let answer = request.send().await.expect("an answer");
    let given =
        answer.headers().get("mcp-session-id").map(|id| id.to_str().expect("text").to_owned());
    let status = answer.status().as_u16();
    answer.bytes().await.expect("the body");
    (given.unwrap_or_default(), status)
}

#[tokio::test]
async fn ten_thousand_idle_sessions_are_kept() {
    const SESSIONS: usize = 10_000;
    let scene = scene().await;
    let url = scene.gateway.mcp_url();
    // Each address may use a quarter.
    let callers = [2, 3, 4, 5, 6].map(|last| {
        let client = reqwest::Client::builder().local_address(Some([127, 0, 0, last].into()));
        client.build().expect("a client")
    });
    let open = async |number: usize| {
        let http = &callers[number % 4 + number / SESSIONS];
        let (id, _) = legacy(http, &url, "", "initialize").await;
        let (_, status) = legacy(http, &url, &id, "ping").await;
        assert_eq!(status, 200);
        id
    };
    let http = &callers[4];
    let first = open(0).await;
    let before = scene.gateway.process.resident_bytes();
    let ids: Vec<String> =
        stream::iter(1..SESSIONS).map(&open).buffer_unordered(32).collect().await;
    let grown = scene.gateway.process.resident_bytes().saturating_sub(before);
    let each = grown / SESSIONS as u64;
    println!("{SESSIONS} idle sessions: {each} bytes each, {} KiB in all", grown / 1024);
    assert!(each < 8 * 1024, "{each} bytes a session");
    let held = async || {
        let metrics = format!("{}/metrics", scene.gateway.url());
        let text = reqwest::get(metrics).await.expect("metrics").text().await.expect("text");
        let line = text.lines().find_map(|line| line.strip_prefix("gateway_sessions "));
        line.and_then(|number| number.trim().parse::<f64>().ok()).expect("the metric")
    };
    assert!((held().await - 10_000.0).abs() < 0.5, "{}", held().await);

    // A new session replaces the longest idle one, whose client continues with its next request.
    let more = open(SESSIONS).await;
    assert!((9_800.0..10_000.0).contains(&held().await), "{}", held().await);
    for id in [&first, &more, &ids[0], ids.last().expect("some")] {
        assert_eq!(legacy(http, &url, id, "ping").await.1, 200);
    }
    assert_eq!(legacy(http, &url, "made-up", "ping").await.1, 404);
    serves(&scene.gateway).await;
}

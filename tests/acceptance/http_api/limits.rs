//! Limits of calls over Connect: deadlines, sizes and compression.

use std::{
    io::{Read as _, Write as _},
    time::{Duration, Instant},
};

use acceptance::Registry;
use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use serde_json::{Value, json};

use super::{APPLY, Answer, INFO, LIST, call, post, schema};

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

#[tokio::test]
async fn deadline_of_the_client_is_enforced() {
    let registry = Registry::start();
    // The server waits 5 s for this revision.
    let ahead = json!({ "minRevision": 1_000 }).to_string();
    let began = Instant::now();
    let answer =
        Answer::of(post(&registry, LIST).header("connect-timeout-ms", "200").body(ahead)).await;
    assert_eq!(answer.code(), (504, "deadline_exceeded"));
    assert_eq!(answer.reason(), "DEADLINE_EXCEEDED");
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    let bad = post(&registry, LIST).header("connect-timeout-ms", "soon").body("{}");
    assert_eq!(Answer::of(bad).await.code(), (400, "invalid_argument"));
}

#[tokio::test]
async fn deadline_includes_the_body() {
    let registry = Registry::start();
    let never = futures_util::stream::pending::<Result<Vec<u8>, std::io::Error>>();
    let request = post(&registry, LIST).header("connect-timeout-ms", "200");
    let answer = Answer::of(request.body(reqwest::Body::wrap_stream(never))).await;
    assert_eq!(answer.code(), (504, "deadline_exceeded"));
}

#[tokio::test]
async fn messages_are_bounded_before_and_after_decompression() {
    let registry = Registry::start_fresh(&["--max-message-bytes", "10000"]);
    let long = json!({ "message": "x".repeat(20_000) }).to_string();
    let plain = Answer::of(post(&registry, APPLY).body(long.clone())).await;
    assert_eq!((plain.code(), plain.reason()), ((400, "out_of_range"), "MESSAGE_TOO_LARGE"));
    let bomb = gzip(long.as_bytes());
    assert!(bomb.len() < 1_000);
    let compressed = post(&registry, APPLY).header("content-encoding", "gzip").body(bomb);
    let compressed = Answer::of(compressed).await;
    assert_eq!(
        (compressed.code(), compressed.reason()),
        ((400, "out_of_range"), "MESSAGE_TOO_LARGE")
    );
    let stored = post(&registry, APPLY).header("content-encoding", "gzip").body(vec![0; 20_000]);
    assert_eq!(Answer::of(stored).await.code(), (400, "out_of_range"));
    assert_eq!(call(&registry, LIST, &json!({})).await.status, 200);
}

#[tokio::test]
async fn memory_of_incomplete_messages_is_bounded() {
    let registry = Registry::start_fresh(&["--max-buffered-bytes", "10000"]);
    let long = json!({ "message": "x".repeat(20_000) }).to_string();
    let answer = Answer::of(post(&registry, APPLY).body(long)).await;
    assert_eq!(
        (answer.code(), answer.reason()),
        ((429, "resource_exhausted"), "REQUEST_MEMORY_LIMIT")
    );
    assert!(answer.headers.contains_key("retry-after"), "{answer:?}");
}

#[tokio::test]
async fn gzip_works_in_both_directions() {
    let registry = Registry::start();
    let batch = json!({ "changes": (0..50).map(|n| schema(&format!("S{n}"))).collect::<Vec<_>>() });
    let sent = post(&registry, APPLY).header("content-encoding", "gzip");
    let sent = Answer::of(sent.body(gzip(batch.to_string().as_bytes()))).await;
    assert_eq!(sent.status, 200, "{sent:?}");
    let received = post(&registry, LIST).header("accept-encoding", "br, gzip").body("{}");
    let received = received.send().await.expect("an answer");
    assert_eq!(received.headers()["content-encoding"], "gzip");
    let (mut text, body) = (String::new(), received.bytes().await.expect("a body"));
    GzDecoder::new(&*body).read_to_string(&mut text).expect("gzip");
    let listed: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(listed["records"].as_array().map(Vec::len), Some(50));
    let garbage = post(&registry, INFO).header("content-encoding", "gzip").body("{}");
    assert_eq!(Answer::of(garbage).await.code(), (400, "invalid_argument"));
    let brotli = post(&registry, INFO).header("content-encoding", "br").body("{}");
    assert_eq!(Answer::of(brotli).await.code(), (501, "unimplemented"));
}

//! Streamable HTTP with a misbehaving server: each fault has its typed error, and no call is
//! repeated.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::json;

use super::*;

/// The error of a call with this response. The server must see the call exactly once.
async fn fault(call: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> Error {
    let fake = modern_server(call).await;
    let upstreams = start(transport(&fake), limits(), TIMING);
    upstreams.until_up().await;
    let error = upstreams.try_call("{}").await.unwrap_err();
    assert_eq!(fake.seen("tools/call").len(), 1, "a call is never repeated");
    upstreams.shutdown().await;
    error
}

async fn breach(call: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> ProtocolViolation {
    match fault(call).await {
        Error::Protocol { what } => what,
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn closed_connections_are_errors() {
    assert_eq!(breach(|_| Reply::Close(Vec::new())).await, ProtocolViolation::Closed);
    assert_eq!(
        breach(|_| Reply::Close(b"HTTP/1.1 200 OK\r\nconte".to_vec())).await,
        ProtocolViolation::Closed
    );
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n";
    let half = format!("{head}{{\"jsonrpc\":\"2.0\"");
    assert_eq!(breach(move |_| Reply::Close(half.clone().into())).await, ProtocolViolation::Closed);
    assert_eq!(
        breach(|_| sse_reply([b"data: {\"json".as_slice()])).await,
        ProtocolViolation::Closed
    );
    assert_eq!(
        breach(|_| sse_reply([b": nothing\n\n".as_slice()])).await,
        ProtocolViolation::Closed
    );
}

#[tokio::test]
async fn invalid_responses_are_errors() {
    let json = |body: &'static [u8]| move |_: &Received| raw_reply(200, "application/json", body);
    assert!(matches!(breach(json(b"\0\xff garbage")).await, ProtocolViolation::Garbage(_)));
    assert!(matches!(breach(json(b"")).await, ProtocolViolation::Garbage(_)));
    assert!(matches!(breach(json(b"[]")).await, ProtocolViolation::Garbage(_)));
    let request = br#"{"jsonrpc":"2.0","id":1,"method":"m"}"#;
    assert!(matches!(breach(json(request)).await, ProtocolViolation::Garbage(_)));
    assert!(matches!(
        breach(|_| sse_reply([b"data: x\n\n".as_slice()])).await,
        ProtocolViolation::Garbage(_)
    ));
    let nested = br#"{"jsonrpc":"2.0","id":1,"result":"#;
    let nested: Vec<u8> = [&nested[..], &[b'['; 10_000][..]].concat();
    assert!(matches!(
        breach(move |_| raw_reply(200, "application/json", &nested)).await,
        ProtocolViolation::TooDeep { .. }
    ));
    let wrong_id = br#"{"jsonrpc":"2.0","id":999999,"result":{}}"#;
    assert_eq!(breach(json(wrong_id)).await, ProtocolViolation::WrongId);
    let string_id = br#"{"jsonrpc":"2.0","id":"3","result":{}}"#;
    assert_eq!(breach(json(string_id)).await, ProtocolViolation::WrongId);
    assert_eq!(
        breach(|_| raw_reply(200, "text/html", b"<html>")).await,
        ProtocolViolation::ContentType
    );
    assert_eq!(breach(|_| raw_reply(202, "text/plain", b"")).await, ProtocolViolation::ContentType);
    assert_eq!(
        breach(|seen| seen.result(&json!([false]))).await,
        ProtocolViolation::Shape("tools/call")
    );
    assert_eq!(
        breach(|_| raw_reply(500, "text/html", b"<html>")).await,
        ProtocolViolation::Status(500)
    );
    let redirect = b"HTTP/1.1 307 X\r\nlocation: /elsewhere\r\ncontent-length: 0\r\n\r\n";
    assert_eq!(
        breach(|_| Reply::Keep(vec![redirect.to_vec()])).await,
        ProtocolViolation::Status(307)
    );
}

#[tokio::test]
async fn upstream_errors_are_forwarded() {
    for status in [200, 400, 404] {
        let error = json!({"code": -32021, "message": "a \"b\"", "data": {"x": 1.5}});
        match fault(move |seen| seen.error(status, &error)).await {
            Error::Rpc { code: -32021, message, data: Some(data) } => {
                assert_eq!((message.as_str(), data.get()), ("a \"b\"", r#"{"x":1.5}"#));
            }
            other => panic!("{other}"),
        }
    }
}

#[tokio::test]
async fn endless_responses_are_cut_off() {
    let announced =
        b"HTTP/1.1 200 X\r\ncontent-type: application/json\r\ncontent-length: 104857600\r\n\r\n";
    let open_end = b"HTTP/1.1 200 X\r\ncontent-type: application/json\r\n\r\n";
    let events = b"HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\n\r\ndata: ";
    for head in [&announced[..], open_end, events] {
        let fake = modern_server(|_| Reply::Flood(head.to_vec())).await;
        let upstreams = start(transport(&fake), limits(), TIMING);
        upstreams.until_up().await;
        let error = upstreams.try_call("{}").await.unwrap_err();
        assert!(matches!(error, Error::TooLarge { limit_bytes: 65_536 }), "{error}");
        let flooded = fake.flooded_bytes();
        assert!(flooded < 20 * 1024 * 1024, "only sockets' buffers were filled, not {flooded}");
    }
}

/// A stream with `bytes` of small messages before the response.
fn chatty(seen: &Received, bytes: usize) -> Reply {
    let event = format!("data: {}\n\n", json!({"jsonrpc": "2.0", "method": "notifications/x"}));
    let answer = json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": {}});
    let stream = format!("{}data: {answer}\n\n", event.repeat(bytes / event.len()));
    sse_reply(stream.as_bytes().chunks(10_000))
}

#[tokio::test]
async fn messages_before_response_are_rate_limited() {
    let fake = modern_server(|seen| chatty(seen, 400_000)).await;
    let upstreams = start(transport(&fake), limits(), TIMING);
    upstreams.until_up().await;
    let buffers = Arc::new(gateway_policy::BufferPool::default());
    let buffered = Some(Arc::new(buffers.open(None, 4 * 65_536)));
    let context = RequestContext { buffered, ..RequestContext::default() };
    let began = Instant::now();
    let result =
        upstreams.send(permit(&key(), "t"), Request::plain(Method::CallTool, &[], &context)).await;
    assert_eq!(result.unwrap().result.get(), "{}");
    // Of 380,000 bytes, the first 64 KiB are read immediately and the others at 1 MiB/s.
    assert!(began.elapsed() > Duration::from_millis(250), "{:?}", began.elapsed());
}

#[tokio::test]
async fn message_above_response_limit_is_rejected() {
    let message = json!({"jsonrpc": "2.0", "method": "x", "params": {"x": "x".repeat(70_000)}});
    let event = format!("data: {message}\n\n");
    let error = fault(move |_| sse_reply([event.as_bytes()])).await;
    assert!(matches!(error, Error::TooLarge { limit_bytes: 65_536 }), "{error}");
}

#[tokio::test]
async fn questions_do_not_exhaust_connections() {
    let ping = json!({"jsonrpc": "2.0", "id": "p", "method": "ping"});
    let pings = format!("data: {ping}\n\n").repeat(500);
    let fake = Server::start(move |seen| {
        let is_answer = seen.http_method == "POST" && seen.body["method"].is_null();
        let result = json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": {"content": []}});
        let events = format!("{pings}data: {result}\n\n");
        let basics = if is_answer { Some(Reply::stall()) } else { legacy().reply(seen) };
        basics.unwrap_or_else(|| sse_reply([events.as_bytes()]))
    })
    .await;
    let upstreams = start(transport(&fake), limits(), TIMING);
    upstreams.until_up().await;
    let before = fake.connections();
    upstreams.must_call("{}").await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(fake.connections() < before + 12, "{} more", fake.connections() - before);
}

#[tokio::test]
async fn total_list_size_is_limited() {
    // Each page is well below the limit of 64 KiB.
    let text = "x".repeat(20_000);
    let fake = Server::start(move |seen| match seen.rpc_method() {
        "tools/list" => {
            let page = seen.body["params"]["cursor"].as_str().unwrap_or("0");
            let next = (page.parse::<u32>().unwrap() + 1).to_string();
            let tool = json!({"name": next, "description": text});
            seen.result(&json!({"tools": [tool], "nextCursor": next}))
        }
        _ => modern().reply(seen).unwrap(),
    })
    .await;
    let timing = Timing { retry_first: Duration::from_mins(1), ..TIMING };
    let upstreams = start(transport(&fake), limits(), timing);
    eventually(|| async {
        matches!(upstreams.state(), TargetState::Down { error, .. }
        if error == "the response of the upstream exceeds 262144 bytes")
    })
    .await;
    assert_eq!(fake.seen("tools/list").len(), 14);
}

#[tokio::test]
async fn total_list_time_is_limited() {
    let fake = Server::start(|seen| match seen.rpc_method() {
        "tools/list" => {
            let page = seen.result(&json!({"tools": [], "nextCursor": "again"}));
            late(Duration::from_millis(30), page)
        }
        _ => modern().reply(seen).unwrap(),
    })
    .await;
    let limits = UpstreamLimits { list_timeout_ms: 100, ..limits() };
    let upstreams = start(transport(&fake), limits, TIMING);
    eventually(|| async {
        matches!(upstreams.state(), TargetState::Down { error, .. }
        if error == "no complete list of tools within 400 ms; raise `timeout` of the upstream")
    })
    .await;
}

#[tokio::test]
async fn silent_call_times_out_and_is_cancelled() {
    let fake = modern_server(|_| Reply::stall()).await;
    let limits = UpstreamLimits { call_timeout_ms: 100, ..limits() };
    let upstreams = start(transport(&fake), limits, TIMING);
    upstreams.until_up().await;
    let error = upstreams.try_call("{}").await.unwrap_err();
    assert!(matches!(error, Error::Timeout { phase: Phase::Call, after_ms: 100 }), "{error}");
    eventually(|| async { fake.cut_off() == 1 }).await;
}

#[tokio::test]
async fn handshake_and_list_timeouts_are_distinguished() {
    let fake = Server::start(|_| Reply::stall()).await;
    let limits = UpstreamLimits { list_timeout_ms: 100, ..limits() };
    let upstreams = start(transport(&fake), limits, TIMING);
    let error = upstreams.try_call("{}").await.unwrap_err();
    assert!(matches!(error, Error::Timeout { phase: Phase::Handshake, after_ms: 100 }), "{error}");

    let fake = Server::start(|seen| match seen.rpc_method() {
        "tools/list" => Reply::stall(),
        _ => modern().reply(seen).unwrap_or_else(|| seen.result(&json!({}))),
    })
    .await;
    let upstreams = start(transport(&fake), limits, TIMING);
    assert_eq!(upstreams.must_call("{}").await, "{}");
    eventually(|| async {
        matches!(upstreams.state(), TargetState::Down { error, .. }
            if error == "no complete list of tools within 100 ms; raise `timeout` of the upstream")
    })
    .await;
}

#[tokio::test]
async fn disconnect_cancels_in_both_eras() {
    for fake in [modern_server(|_| Reply::stall()).await, legacy_server(|_| Reply::stall()).await] {
        let upstreams = start(transport(&fake), limits(), TIMING);
        upstreams.until_up().await;
        {
            let call = upstreams.try_call("{}");
            let sent = eventually(|| async { fake.seen("tools/call").len() == 1 });
            tokio::select! {
                _ = call => panic!("nobody answered"),
                () = sent => {}
            }
        }
        eventually(|| async { fake.cut_off() == 1 }).await;
        if matches!(upstreams.state(), TargetState::Up { speaks: "legacy" }) {
            eventually(|| async { fake.seen("notifications/cancelled").len() == 1 }).await;
            let cancelled = fake.seen("notifications/cancelled").remove(0);
            let call = fake.seen("tools/call").remove(0);
            assert_eq!(cancelled.body["params"]["requestId"], call.body["id"]);
        } else {
            assert!(fake.seen("notifications/cancelled").is_empty());
        }
    }
}

#[tokio::test]
async fn lost_list_is_retried_and_endless_list_rejected() {
    let fake = Server::start(|seen| {
        static LISTS: AtomicUsize = AtomicUsize::new(0);
        match seen.rpc_method() {
            "tools/list" if LISTS.fetch_add(1, Ordering::SeqCst) == 0 => Reply::Close(Vec::new()),
            _ => modern().reply(seen).unwrap(),
        }
    })
    .await;
    let timing = Timing { retry_first: Duration::from_mins(1), ..TIMING };
    let upstreams = start(transport(&fake), limits(), timing);
    upstreams.until_up().await;
    assert_eq!(fake.seen("tools/list").len(), 2);

    let endless = ProtocolViolation::EndlessList.to_string();
    let fake = Server::start(|seen| match seen.rpc_method() {
        "tools/list" => seen.result(&json!({"tools": [], "nextCursor": "again"})),
        _ => modern().reply(seen).unwrap(),
    })
    .await;
    let upstreams = start(transport(&fake), limits(), timing);
    eventually(|| async {
        matches!(upstreams.state(), TargetState::Down { error, .. } if error.ends_with(&endless))
    })
    .await;
}

/// A modern server that replies with this fault while it is set.
async fn failing(
    fault: &Arc<AtomicBool>,
    reply: impl Fn() -> Reply + Send + Sync + 'static,
) -> Server {
    let fault = Arc::clone(fault);
    Server::start(move |seen| {
        if fault.load(Ordering::SeqCst) {
            return reply();
        }
        modern().reply(seen).unwrap_or_else(|| seen.result(&json!({})))
    })
    .await
}

async fn probed(upstreams: &Upstreams, within: Duration) -> TargetState {
    upstreams.probe(&key().into(), within).await.unwrap().state
}

#[tokio::test]
async fn probe_ends_retry_delay_of_target() {
    let is_down = Arc::new(AtomicBool::new(true));
    let fake = failing(&is_down, || Reply::Close(Vec::new())).await;
    let delay = Duration::from_mins(10);
    let timing = Timing { retry_first: delay, retry_longest: delay, ..TIMING };
    let upstreams = start(transport(&fake), limits(), timing);
    upstreams.until_down().await;
    let within = Duration::from_secs(5);
    assert!(matches!(probed(&upstreams, within).await, TargetState::Down { was_up: false, .. }));

    is_down.store(false, Ordering::SeqCst);
    assert!(matches!(probed(&upstreams, within).await, TargetState::Up { .. }));
    assert!(matches!(upstreams.state(), TargetState::Up { .. }));
    assert_eq!(upstreams.listed(), ["t"]);

    is_down.store(true, Ordering::SeqCst);
    assert!(matches!(probed(&upstreams, within).await, TargetState::Down { was_up: true, .. }));
    assert!(matches!(upstreams.state(), TargetState::Down { .. }));
}

#[tokio::test]
async fn probe_of_connecting_target_fetches_no_second_list() {
    let fake = Server::start(|seen| match seen.rpc_method() {
        "tools/list" => Reply::stall(),
        _ => modern().reply(seen).unwrap(),
    })
    .await;
    let upstreams = start(transport(&fake), limits(), TIMING);
    eventually(|| async { fake.seen("tools/list").len() == 1 }).await;
    let found = probed(&upstreams, Duration::from_millis(50)).await;
    assert!(matches!(found, TargetState::Down { was_up: false, .. }), "{found:?}");
    assert!(matches!(upstreams.state(), TargetState::Connecting));
    assert_eq!(fake.seen("tools/list").len(), 1);
}

#[tokio::test]
async fn late_probe_leaves_slow_target_up() {
    let is_slow = Arc::new(AtomicBool::new(false));
    let fake = failing(&is_slow, Reply::stall).await;
    let upstreams = start(transport(&fake), limits(), TIMING);
    upstreams.until_up().await;
    is_slow.store(true, Ordering::SeqCst);
    let found = probed(&upstreams, Duration::from_millis(50)).await;
    assert!(matches!(found, TargetState::Down { .. }), "{found:?}");
    assert!(matches!(upstreams.state(), TargetState::Up { .. }));
}

//! Overloaded and failing upstreams: queue limits, the circuit breaker, and retries.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

#[tokio::test]
async fn full_queue_rejects_immediately() {
    let fake = modern_server(|_| Reply::stall()).await;
    let limits = UpstreamLimits { requests: 1, waiting: 1, ..limits() };
    let upstreams = start(transport(&fake), limits, TIMING);
    upstreams.until_up().await;
    let calls = [upstreams.clone(), upstreams.clone()]
        .map(|upstreams| tokio::spawn(async move { upstreams.try_call("{}").await.map(|_| ()) }));
    eventually(|| async { fake.seen("tools/call").len() == 1 }).await;
    eventually(|| async { upstreams.health()[0].load.waiting == 1 }).await;
    let error = upstreams.try_call("{}").await.unwrap_err();
    assert!(matches!(error, Error::LimitReached(LimitReached::All { waiting: 1 })), "{error}");
    assert_eq!(fake.seen("tools/call").len(), 1, "the second request is queued");
    calls.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn failing_upstream_opens_breaker_and_recovers() {
    let fake = modern_server(|seen| match seen.body["params"]["arguments"]["fail"].as_bool() {
        Some(true) => Reply::stall(),
        _ => seen.result(&serde_json::json!({ "content": [] })),
    })
    .await;
    let limits = UpstreamLimits { call_timeout_ms: 30, ..limits() };
    let upstreams = start(transport(&fake), limits, TIMING);
    upstreams.until_up().await;
    for _ in 0..5 {
        let error = upstreams.try_call(r#"{"fail":true}"#).await.unwrap_err();
        assert!(matches!(error, Error::Timeout { phase: Phase::Call, .. }), "{error}");
    }
    let asked = fake.seen("tools/call").len();
    let error = upstreams.try_call("{}").await.unwrap_err();
    assert!(matches!(error, Error::CircuitOpen(_)), "{error}");
    assert!(upstreams.health()[0].is_circuit_open);
    assert_eq!(fake.seen("tools/call").len(), asked, "nothing was sent");
    eventually(|| async { upstreams.try_call("{}").await.is_ok() }).await;
    assert!(!upstreams.health()[0].is_circuit_open);
}

#[tokio::test]
async fn successful_lists_keep_breaker_open() {
    let fake = modern_server(|_| Reply::stall()).await;
    let limits = UpstreamLimits { call_timeout_ms: 20, ..limits() };
    let upstreams = start(transport(&fake), limits, TIMING);
    upstreams.until_up().await;
    for _ in 0..5 {
        assert!(upstreams.try_call("{}").await.is_err());
    }
    assert!(upstreams.health()[0].is_circuit_open);
    // The second list is requested once the gateway has the first.
    for _ in 0..2 {
        let lists = fake.seen("tools/list").len();
        assert_eq!(upstreams.check(&key().into()), Some(true));
        eventually(|| async { fake.seen("tools/list").len() > lists }).await;
    }
    assert!(matches!(upstreams.state(), TargetState::Up { .. }));
    assert!(upstreams.health()[0].is_circuit_open);
    let error = upstreams.try_call("{}").await.unwrap_err();
    assert!(matches!(error, Error::CircuitOpen(_)), "{error}");
}

#[tokio::test]
async fn queue_timeout_does_not_count_as_failure() {
    let fake = modern_server(|seen| match seen.body["params"]["arguments"]["stay"].as_bool() {
        Some(true) => Reply::stall(),
        _ => seen.result(&serde_json::json!({ "content": [] })),
    })
    .await;
    let limits = UpstreamLimits { requests: 1, call_timeout_ms: 400, ..limits() };
    let upstreams = start(transport(&fake), limits, TIMING);
    upstreams.until_up().await;
    let first = upstreams.clone();
    let first = tokio::spawn(async move { first.try_call(r#"{"stay":true}"#).await.map(|_| ()) });
    eventually(|| async { fake.seen("tools/call").len() == 1 }).await;
    // One request gets the place of the first when that times out; the others time out in the
    // queue.
    let waiting: Vec<_> = (0..8)
        .map(|_| {
            let upstreams = upstreams.clone();
            let call = async move { upstreams.try_call(r#"{"stay":true}"#).await.map(|_| ()) };
            tokio::spawn(call)
        })
        .collect();
    for call in std::iter::once(first).chain(waiting) {
        assert!(call.await.unwrap().is_err());
    }
    assert!(fake.seen("tools/call").len() < 5, "most requests timed out in the queue");
    assert!(!upstreams.health()[0].is_circuit_open);
    assert!(upstreams.try_call("{}").await.is_ok());
}

#[tokio::test]
async fn lost_request_is_retried_only_if_repeatable() {
    for (is_repeatable, attempts) in [(true, 2), (false, 1)] {
        let lost = AtomicUsize::new(0);
        let fake = modern_server(move |seen| {
            if lost.fetch_add(1, Ordering::SeqCst) == 0 {
                return Reply::Close(Vec::new());
            }
            seen.result(&serde_json::json!({ "content": [] }))
        })
        .await;
        let upstreams = start(transport(&fake), limits(), TIMING);
        upstreams.until_up().await;
        let context = RequestContext::default();
        let request = Request::plain(Method::CallTool, &[], &context);
        let outcome =
            upstreams.send(permit(&key(), "t"), Request { is_repeatable, ..request }).await;
        assert_eq!(outcome.is_ok(), is_repeatable, "{outcome:?}");
        assert_eq!(fake.seen("tools/call").len(), attempts);
    }
}

#[tokio::test]
async fn rejected_retry_keeps_outcome_unknown() {
    let lost = AtomicUsize::new(0);
    let fake = modern_server(move |_| {
        if lost.fetch_add(1, Ordering::SeqCst) == 0 {
            return Reply::Close(Vec::new());
        }
        raw_reply(403, "text/plain", b"no")
    })
    .await;
    let upstreams = start(transport(&fake), limits(), TIMING);
    upstreams.until_up().await;
    let context = RequestContext::default();
    let request = Request::plain(Method::CallTool, &[], &context);
    let request = Request { is_repeatable: true, ..request };
    let error = upstreams.send(permit(&key(), "t"), request).await.unwrap_err();
    assert!(error.may_have_run(), "{error:?}");
    assert_eq!(fake.seen("tools/call").len(), 2);
}

#[derive(Debug)]
struct NoResend;

impl crate::ResendApproval for NoResend {
    fn approve(&self) -> bool {
        false
    }
}

#[tokio::test]
async fn lost_request_is_not_resent_without_approval() {
    let fake = modern_server(|_| Reply::Close(Vec::new())).await;
    let upstreams = start(transport(&fake), limits(), TIMING);
    upstreams.until_up().await;
    let context = RequestContext::default();
    let request = Request::plain(Method::CallTool, &[], &context);
    let request = Request { is_repeatable: true, resend: Some(&NoResend), ..request };
    upstreams.send(permit(&key(), "t"), request).await.unwrap_err();
    assert_eq!(fake.seen("tools/call").len(), 1);
}

#[tokio::test]
async fn hanging_upstream_is_noticed_between_lists() {
    let is_there = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
    let known = is_there.clone();
    let fake = Server::start(move |seen| {
        if !known.load(Ordering::SeqCst) {
            return Reply::stall();
        }
        modern().reply(seen).unwrap_or_else(|| seen.result(&serde_json::json!({ "content": [] })))
    })
    .await;
    let timing = Timing { check: Duration::from_millis(50), ..TIMING };
    let upstreams = start(transport(&fake), limits(), timing);
    upstreams.until_up().await;
    is_there.store(false, Ordering::SeqCst);
    let hangs = Instant::now();
    let error = upstreams.until_down().await;
    assert!(hangs.elapsed() < Duration::from_secs(5), "earlier than the list timeout");
    assert!(error.contains("4000 ms") && error.contains("`timeout`"), "{error}");
    is_there.store(true, Ordering::SeqCst);
}

#[tokio::test]
async fn failed_health_check_reports_its_reason() {
    let is_well = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
    let known = is_well.clone();
    let fake = Server::start(move |seen| match modern().reply(seen) {
        Some(reply) if known.load(Ordering::SeqCst) => reply,
        _ => raw_reply(502, "text/plain", b"no"),
    })
    .await;
    let timing = Timing { check: Duration::from_millis(50), ..TIMING };
    let upstreams = start(transport(&fake), limits(), timing);
    upstreams.until_up().await;
    is_well.store(false, Ordering::SeqCst);
    let error = upstreams.until_down().await;
    assert!(error.contains("502"), "{error}");
}

#[tokio::test]
async fn unanswered_questions_are_not_upstream_failures() {
    let fake = legacy_server(|_| {
        let question = r#"data: {"jsonrpc":"2.0","id":1,"method":"elicitation/create"}"#;
        let chunk = format!("{:x}\r\n{question}\n\n\r\n", question.len() + 2);
        let head = "HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\n\
                    transfer-encoding: chunked\r\n\r\n";
        Reply::Keep(vec![format!("{head}{chunk}").into_bytes()])
    })
    .await;
    let limits = UpstreamLimits { call_timeout_ms: 50, ..limits() };
    let timing = Timing { answer: Duration::from_millis(100), ..TIMING };
    let upstreams = start(transport(&fake), limits, timing);
    upstreams.until_up().await;
    for _ in 0..6 {
        let (channel, mut meanwhile) = ClientChannel::open();
        let context = RequestContext::default();
        let request = Request::plain(Method::CallTool, &[], &context);
        let began = Instant::now();
        let called =
            upstreams.send(permit(&key(), "t"), Request { channel: Some(&channel), ..request });
        let (outcome, asked) = tokio::join!(called, meanwhile.recv());
        assert!(matches!(asked, InterimMessage::Question(_)), "{asked:?}");
        let error = outcome.unwrap_err();
        assert!(matches!(error, Error::Timeout { phase: Phase::Call, .. }), "{error}");
        assert!(began.elapsed() >= Duration::from_millis(150));
        assert!(!upstreams.health()[0].is_circuit_open);
    }
}

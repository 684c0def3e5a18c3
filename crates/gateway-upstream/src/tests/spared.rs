//! An upstream that has too much to do, fails again and again, or loses connections: what its callers
//! are told at once, and what is tried once more.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

#[tokio::test]
async fn who_finds_no_room_is_told_at_once() {
    let fake = modern_server(|_| Reply::stall()).await;
    let limits = UpstreamLimits { requests: 1, waiting: 1, ..limits() };
    let upstreams = start(transport(&fake), limits, TIMING);
    upstreams.until_up().await;
    let calls = [upstreams.clone(), upstreams.clone()]
        .map(|upstreams| tokio::spawn(async move { upstreams.try_call("{}").await.map(|_| ()) }));
    eventually(|| async { fake.seen("tools/call").len() == 1 }).await;
    eventually(|| async { upstreams.health()[0].load.waiting == 1 }).await;
    let error = upstreams.try_call("{}").await.unwrap_err();
    assert!(matches!(error, Error::Overloaded(Overloaded::All { waiting: 1 })), "{error}");
    assert_eq!(fake.seen("tools/call").len(), 1, "the second waits for the first");
    calls.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn an_upstream_that_fails_again_and_again_is_spared_and_taken_up_again() {
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
    assert!(matches!(error, Error::Spared(_)), "{error}");
    assert!(upstreams.health()[0].is_spared);
    assert_eq!(fake.seen("tools/call").len(), asked, "nothing was sent");
    eventually(|| async { upstreams.try_call("{}").await.is_ok() }).await;
    assert!(!upstreams.health()[0].is_spared);
}

#[tokio::test]
async fn lists_that_come_well_do_not_end_the_sparing_of_one_whose_calls_fail() {
    let fake = modern_server(|_| Reply::stall()).await;
    let limits = UpstreamLimits { call_timeout_ms: 20, ..limits() };
    let upstreams = start(transport(&fake), limits, TIMING);
    upstreams.until_up().await;
    for _ in 0..5 {
        assert!(upstreams.try_call("{}").await.is_err());
    }
    assert!(upstreams.health()[0].is_spared);
    // The second list is requested once the gateway has the first.
    for _ in 0..2 {
        let lists = fake.seen("tools/list").len();
        assert_eq!(upstreams.check(&key().into()), Some(true));
        eventually(|| async { fake.seen("tools/list").len() > lists }).await;
    }
    assert!(matches!(upstreams.state(), TargetState::Up { .. }));
    assert!(upstreams.health()[0].is_spared);
    let error = upstreams.try_call("{}").await.unwrap_err();
    assert!(matches!(error, Error::Spared(_)), "{error}");
}

#[tokio::test]
async fn who_waits_in_vain_for_its_turn_says_nothing_of_the_upstream() {
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
    // One comes in when the first is given up; the others have come too early for that.
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
    assert!(fake.seen("tools/call").len() < 5, "most have waited in vain");
    assert!(!upstreams.health()[0].is_spared);
    assert!(upstreams.try_call("{}").await.is_ok());
}

#[tokio::test]
async fn what_was_lost_is_tried_once_more_only_where_that_does_no_harm() {
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
        let context = Context::default();
        let request = Request::plain(Method::CallTool, &[], &context);
        let outcome = upstreams.send(permit(&key(), "t"), Request { is_repeatable, ..request }).await;
        assert_eq!(outcome.is_ok(), is_repeatable, "{outcome:?}");
        assert_eq!(fake.seen("tools/call").len(), attempts);
    }
}

#[tokio::test]
async fn an_upstream_that_hangs_is_noticed_between_two_lists() {
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
    assert!(hangs.elapsed() < Duration::from_secs(5), "sooner than the time limit of a list");
    assert_eq!(error, "waited longer than 4000 ms to connect to the upstream");
    is_there.store(true, Ordering::SeqCst);
}

#[tokio::test]
async fn an_upstream_that_fails_between_two_lists_is_down_for_that_reason() {
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
    assert!(error.contains("the answer has the HTTP status 502"), "{error}");
}

#[tokio::test]
async fn callers_that_do_not_answer_are_no_fault_of_the_upstream_that_asks_them() {
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
        let (side, mut meanwhile) = Side::open();
        let context = Context::default();
        let request = Request::plain(Method::CallTool, &[], &context);
        let began = Instant::now();
        let called = upstreams.send(permit(&key(), "t"), Request { side: Some(&side), ..request });
        let (outcome, asked) = tokio::join!(called, meanwhile.recv());
        assert!(matches!(asked, Some(Meanwhile::Question(_))), "{asked:?}");
        let error = outcome.unwrap_err();
        assert!(matches!(error, Error::Timeout { phase: Phase::Call, .. }), "{error}");
        assert!(began.elapsed() >= Duration::from_millis(150));
        assert!(!upstreams.health()[0].is_spared);
    }
}

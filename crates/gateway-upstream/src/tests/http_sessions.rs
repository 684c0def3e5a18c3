//! Streamable HTTP with changing servers: sessions and eras are renegotiated only where that helps.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::{Value, json};
use tokio::sync::Notify;

use super::*;

#[tokio::test]
async fn expired_session_is_reopened_once() {
    let calls = AtomicUsize::new(0);
    let fake = legacy_server(move |seen| match calls.fetch_add(1, Ordering::SeqCst) {
        0 => raw_reply(404, "text/plain", b"session not found"),
        1 | 3 => seen.result(&json!({})),
        2 => {
            let error = json!({"code": -32001, "message": "Session not found"});
            json_reply(404, &json!({"jsonrpc": "2.0", "error": error, "id": null}))
        }
        _ => raw_reply(404, "text/plain", b"no session lasts"),
    })
    .await;
    let upstreams = start(transport(&fake), limits(), TIMING);
    upstreams.until_up().await;
    assert_eq!(upstreams.must_call("{}").await, "{}");
    assert_eq!(fake.seen("initialize").len(), 2);
    assert_eq!(upstreams.must_call("{}").await, "{}");
    assert_eq!(fake.seen("initialize").len(), 3);

    let error = upstreams.try_call("{}").await.unwrap_err();
    assert!(matches!(error, Error::Protocol { what: ProtocolViolation::Status(404) }), "{error}");
    assert_eq!(fake.seen("tools/call").len(), 6);
}

#[tokio::test]
async fn server_that_becomes_legacy_is_probed_again() {
    let is_old = Arc::new(AtomicBool::new(false));
    let rolled_back = Arc::clone(&is_old);
    let fake = Server::start(move |seen| {
        let is_modern = !rolled_back.load(Ordering::SeqCst);
        let basics = if is_modern { modern().reply(seen) } else { legacy().reply(seen) };
        basics.unwrap_or_else(|| match (is_modern, seen.header("mcp-session-id")) {
            (false, None) => raw_reply(400, "text/plain", b"no session"),
            _ => seen.result(&json!({})),
        })
    })
    .await;
    let upstreams = start(transport(&fake), limits(), TIMING);
    assert_eq!(upstreams.must_call("{}").await, "{}");
    is_old.store(true, Ordering::SeqCst);
    let error = upstreams.try_call("{}").await.unwrap_err();
    assert!(matches!(error, Error::Protocol { what: ProtocolViolation::Status(400) }), "{error}");
    assert_eq!(upstreams.must_call("{}").await, "{}");
    assert_eq!(fake.seen("initialize").len(), 1);
}

/// A server that is modern until it is rolled back. Then its handler responds to requests without a
/// session.
async fn rolled_back(
    has_rolled: Arc<AtomicBool>,
    to_strangers: impl Fn(&Received) -> Reply + Send + Sync + 'static,
) -> Server {
    Server::start(move |seen| {
        if !has_rolled.load(Ordering::SeqCst) {
            return modern().reply(seen).unwrap_or_else(|| seen.result(&json!({})));
        }
        let is_stranger = seen.header("mcp-session-id").is_none();
        match seen.rpc_method() {
            "tools/list" | "tools/call" if is_stranger => to_strangers(seen),
            _ => legacy().reply(seen).unwrap_or_else(|| seen.result(&json!({}))),
        }
    })
    .await
}

#[tokio::test]
async fn rolled_back_server_is_renegotiated_for_any_error() {
    let words = [(400, -32_000), (404, -32_001), (400, -32_600)];
    for (status, code) in words {
        let has_rolled = Arc::<AtomicBool>::default();
        let no_session = move |seen: &Received| {
            seen.error(status, &json!({"code": code, "message": "No valid session ID provided"}))
        };
        let fake = rolled_back(Arc::clone(&has_rolled), no_session).await;
        let upstreams = start(transport(&fake), limits(), TIMING);
        upstreams.until_up().await;
        has_rolled.store(true, Ordering::SeqCst);
        upstreams.try_call("{}").await.unwrap_err();
        assert_eq!(upstreams.must_call("{}").await, "{}", "{status} {code}");
        assert_eq!(fake.seen("initialize").len(), 1);
    }
}

#[tokio::test]
async fn failed_list_renegotiates() {
    let has_rolled = Arc::<AtomicBool>::default();
    let too_early = |seen: &Received| {
        seen.error(200, &json!({"code": -32_602, "message": "Invalid request parameters"}))
    };
    let fake = rolled_back(Arc::clone(&has_rolled), too_early).await;
    let timing = Timing { relist: Duration::from_millis(20), ..TIMING };
    let upstreams = start(transport(&fake), limits(), timing);
    upstreams.until_up().await;
    has_rolled.store(true, Ordering::SeqCst);
    eventually(|| async { matches!(upstreams.state(), TargetState::Up { speaks: "legacy" }) })
        .await;
}

#[tokio::test]
async fn credential_rejection_does_not_renegotiate() {
    for status in [401, 403, 429] {
        let refuse = move |_: &Received| raw_reply(status, "text/plain", b"no");
        for fake in [modern_server(refuse).await, legacy_server(refuse).await] {
            let upstreams = start(transport(&fake), limits(), TIMING);
            upstreams.until_up().await;
            let before = fake.all_seen().len();
            for _ in 0..5 {
                let error = upstreams.try_call("{}").await.unwrap_err();
                assert!(matches!(error, Error::Refused { status: s } if s == status), "{error}");
            }
            assert_eq!(fake.all_seen().len(), before + 5, "only the calls");
        }
    }
    let fake = Server::start(|_| raw_reply(401, "text/plain", b"who are you?")).await;
    let upstreams = start(transport(&fake), limits(), TIMING);
    let error = upstreams.try_call("{}").await.unwrap_err().to_string();
    assert!(error.contains("(HTTP 401)"), "{error}");
    assert!(fake.seen("initialize").is_empty());
}

#[tokio::test]
async fn abandoned_session_is_deleted() {
    let calls = AtomicUsize::new(0);
    let fake = legacy_server(move |seen| match calls.fetch_add(1, Ordering::SeqCst) {
        0 => seen.error(400, &json!({"code": -32_000, "message": "?"})),
        _ => seen.result(&json!({})),
    })
    .await;
    let upstreams = start(transport(&fake), limits(), TIMING);
    upstreams.until_up().await;
    upstreams.try_call("{}").await.unwrap_err();
    let ended = || fake.all_seen().into_iter().filter(|seen| seen.http_method == "DELETE");
    eventually(|| async { ended().count() == 1 }).await;
    let sessions: Vec<Value> = ended().map(|seen| json!(seen.header("mcp-session-id"))).collect();
    assert_eq!(sessions, ["s-1"]);
    assert_eq!(upstreams.must_call("{}").await, "{}");
    assert_eq!(fake.seen("initialize").len(), 2);
}

/// A call of a client with a session.
async fn call_in(upstreams: &Upstreams, session: &str) -> Result<RawResult, Error> {
    let context = RequestContext { session: Some(session.into()), ..RequestContext::default() };
    upstreams.send(permit(&key(), "t"), Request::plain(Method::CallTool, &[], &context)).await
}

#[tokio::test]
async fn session_with_a_running_request_is_not_replaced() {
    let calls = AtomicUsize::new(0);
    let fake = legacy_server(move |seen| match calls.fetch_add(1, Ordering::SeqCst) {
        0 => Reply::stall(),
        _ => seen.result(&json!({})),
    })
    .await;
    let limits = UpstreamLimits { sessions: 1, ..limits() };
    let upstreams = start(transport(&fake), limits, TIMING);
    upstreams.until_up().await;
    let ended = || fake.all_seen().into_iter().filter(|seen| seen.http_method == "DELETE").count();
    let first = tokio::spawn({
        let upstreams = upstreams.clone();
        async move { call_in(&upstreams, "one").await.map(|_| ()) }
    });
    eventually(|| async { fake.seen("tools/call").len() == 1 }).await;
    let error = call_in(&upstreams, "two").await.unwrap_err();
    let full = LimitReached::CallerSessions { most: 1 };
    assert!(matches!(error, Error::LimitReached(why) if why == full), "{error}");
    assert_eq!(ended(), 0);
    first.abort();
    eventually(|| async { call_in(&upstreams, "two").await.is_ok() }).await;
    eventually(|| async { ended() == 1 }).await;
}

/// A legacy server whose tool waits for its release, or fails with this status and code.
async fn failing(status: u16, code: i64, released: Arc<Notify>) -> Server {
    let reply = move |seen: Arc<Received>, released: Arc<Notify>| async move {
        let arguments = &seen.body["params"]["arguments"];
        if arguments["wait"] == true {
            released.notified().await;
            return seen.result(&json!({"waited": true}));
        }
        match arguments["bad"].as_bool() {
            Some(true) => seen.error(status, &json!({"code": code, "message": "?"})),
            _ => seen.result(&json!({})),
        }
    };
    legacy().serve(move |seen| reply(seen, Arc::clone(&released))).await
}

/// A caller's bad request while another caller's request runs. Returns the number of sessions.
async fn sessions_after_failure(status: u16, code: i64) -> usize {
    let released = Arc::new(Notify::new());
    let fake = failing(status, code, Arc::clone(&released)).await;
    let upstreams = start(transport(&fake), limits(), TIMING);
    upstreams.until_up().await;
    let running = tokio::spawn({
        let upstreams = upstreams.clone();
        async move { upstreams.must_call(r#"{"wait":true}"#).await }
    });
    eventually(|| async { fake.seen("tools/call").len() == 1 }).await;
    upstreams.try_call(r#"{"bad":true}"#).await.unwrap_err();
    assert_eq!(upstreams.must_call("{}").await, "{}");
    let ended = || fake.all_seen().into_iter().filter(|seen| seen.http_method == "DELETE").count();
    assert_eq!(ended(), 0, "{status} {code}: a request still runs in the session");
    released.notify_one();
    assert_eq!(running.await.unwrap(), r#"{"waited":true}"#, "{status} {code}");
    let sessions = fake.seen("initialize").len();
    eventually(|| async { ended() == sessions - 1 }).await;
    sessions
}

#[tokio::test]
async fn rejected_arguments_do_not_end_the_shared_session() {
    for (status, code) in [(400, -32_602), (404, -32_602), (405, -32_601), (400, -32_603)] {
        assert_eq!(sessions_after_failure(status, code).await, 1, "{status} {code}");
    }
}

#[tokio::test]
async fn doubtful_session_ends_after_its_last_request() {
    for (status, code) in [(400, -32_000), (400, -32_001), (400, -32_600)] {
        assert_eq!(sessions_after_failure(status, code).await, 2, "{status} {code}");
    }
}

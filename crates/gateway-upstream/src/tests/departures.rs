//! Requests whose time is over, or whose caller goes away, before they could be sent: they never are, and
//! it is certain that nothing was done.

use std::sync::atomic::{AtomicU64, Ordering};

use axum::{Json, Router, extract::State, routing::post};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::{agents::start_at, fake::*, *};
use crate::{AuthConfig, ClientAuthentication, Grant, secret::SecretSource};

/// How long the token endpoint takes to answer, in milliseconds.
type Delay = Arc<AtomicU64>;

/// A token for each single request, from an endpoint that takes its time.
async fn with_tokens(fake: &Fake, delay: &Delay) -> TransportConfig {
    async fn issue(State(delay): State<Delay>) -> Json<Value> {
        sleep(Duration::from_millis(delay.load(Ordering::Relaxed))).await;
        Json(json!({ "access_token": "t", "token_type": "Bearer", "expires_in": 0 }))
    }
    let router = Router::new().route("/", post(issue)).with_state(Arc::clone(delay));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let token_url = format!("http://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    let auth = AuthConfig {
        grant: Grant::ClientCredentials,
        token_url,
        tls: None,
        client_id: "gateway".to_owned(),
        client_secret: SecretSource::text("secret"),
        client_authentication: ClientAuthentication::Basic,
        scopes: Vec::new(),
        audience: Vec::new(),
        resource: Vec::new(),
    };
    let TransportConfig::Http { url, tls, addresses, .. } = fake.transport() else { panic!() };
    let (headers, auth) = (BTreeMap::new(), Some(Box::new(auth)));
    TransportConfig::Http { url, headers, auth, tls, addresses }
}

fn short() -> UpstreamLimits {
    UpstreamLimits { call_timeout_ms: 150, ..limits() }
}

#[tokio::test]
async fn a_message_that_has_not_left_when_nobody_waits_any_more_never_does() {
    let fake = Fake::start(|seen| match seen.rpc_method() {
        "GetTask" => seen.error(200, &json!({ "code": -32001, "message": "?" })),
        _ => seen.result(&json!({ "message": { "parts": [] } })),
    });
    let fake = fake.await;
    let delay = Delay::default();
    let transport = with_tokens(&fake, &delay).await;
    let upstreams = start_at(transport, short(), TIMING);
    upstreams.until_up().await;
    agents::ask(&upstreams).await.unwrap();
    delay.store(400, Ordering::Relaxed);
    assert!(timeout(Duration::from_millis(50), agents::ask(&upstreams)).await.is_err());
    let error = agents::ask(&upstreams).await.unwrap_err();
    assert!(matches!(error, Error::Timeout { phase: Phase::Connect, after_ms: 150 }), "{error}");
    assert!(!error.may_have_run());
    sleep(Duration::from_millis(900)).await;
    assert_eq!(fake.seen("SendMessage").len(), 1, "the first one, for which somebody waited");
    upstreams.shutdown().await;
}

/// Refused unread for its token, it waits for another one, and has not left.
#[tokio::test]
async fn a_message_that_came_back_has_not_left() {
    let delay = Delay::default();
    let slow = Arc::clone(&delay);
    let fake = Fake::start(move |seen| {
        if seen.rpc_method() == "GetTask" {
            return seen.error(200, &json!({ "code": -32001, "message": "?" }));
        }
        slow.store(400, Ordering::Relaxed);
        raw_reply(401, "text/plain", b"another token, please")
    });
    let fake = fake.await;
    let transport = with_tokens(&fake, &delay).await;
    let upstreams = start_at(transport, short(), TIMING);
    upstreams.until_up().await;
    let error = agents::ask(&upstreams).await.unwrap_err();
    assert!(matches!(error, Error::Timeout { phase: Phase::Connect, after_ms: 150 }), "{error}");
    sleep(Duration::from_millis(900)).await;
    assert_eq!(fake.seen("SendMessage").len(), 1);
    upstreams.shutdown().await;
}

#[tokio::test]
async fn a_call_that_has_not_left_in_time_never_does_and_one_that_has_may_have_run() {
    let slow = Arc::new(AtomicU64::new(0));
    let is_slow = Arc::clone(&slow);
    let fake = Fake::modern(move |seen| match is_slow.load(Ordering::Relaxed) {
        0 => seen.result(&json!({ "content": [], "resultType": "complete" })),
        _ => Reply::Stall,
    })
    .await;
    let delay = Delay::default();
    let transport = with_tokens(&fake, &delay).await;
    let upstreams = start(transport, short(), TIMING);
    upstreams.until_up().await;
    upstreams.must_call("{}").await;
    delay.store(400, Ordering::Relaxed);
    let error = upstreams.try_call("{}").await.unwrap_err();
    assert!(matches!(error, Error::Timeout { phase: Phase::Connect, after_ms: 150 }), "{error}");
    delay.store(0, Ordering::Relaxed);
    // Also whatever else waits for a token by now has it then.
    sleep(Duration::from_millis(900)).await;
    assert_eq!(fake.seen("tools/call").len(), 1);
    slow.store(1, Ordering::Relaxed);
    let error = upstreams.try_call("{}").await.unwrap_err();
    assert!(matches!(error, Error::Timeout { phase: Phase::Call, after_ms: 150 }), "{error}");
    assert!(error.may_have_run());
    upstreams.shutdown().await;
}

//! Requests that time out or are cancelled before they are sent: they are never sent, and certainly
//! had no effect.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::json;
use tokio::time::{sleep, timeout};

use super::{agents::start_at, *};
use crate::{AuthConfig, ClientAuthentication, Grant, secret::SecretSource};

/// The authorization of the gateway itself at a token endpoint.
pub(super) fn client_credentials(token_url: String) -> AuthConfig {
    AuthConfig {
        grant: Grant::ClientCredentials,
        token_url,
        tls: None,
        client_id: "gateway".to_owned(),
        client_secret: SecretSource::text("secret"),
        client_authentication: ClientAuthentication::Basic,
        scopes: Vec::new(),
        audience: Vec::new(),
        resource: Vec::new(),
    }
}

/// A token endpoint whose tokens are valid for one request.
struct Tokens {
    server: Server,
    /// In milliseconds.
    delay: Arc<AtomicU64>,
    /// Each pending request has a reference.
    pending: Arc<()>,
}

impl Tokens {
    async fn start() -> Self {
        let (delay, pending) = (Arc::new(AtomicU64::new(0)), Arc::new(()));
        let (delays, requests) = (Arc::clone(&delay), Arc::downgrade(&pending));
        let server = Server::serve(move |_| {
            let (delay, request) = (delays.load(Ordering::Relaxed), requests.upgrade());
            async move {
                sleep(Duration::from_millis(delay)).await;
                drop(request);
                let token = json!({ "access_token": "t", "token_type": "Bearer", "expires_in": 0 });
                json_reply(200, &token)
            }
        });
        Self { server: server.await, delay, pending }
    }

    /// The transport to a server that needs these tokens.
    fn transport(&self, fake: &Server) -> TransportConfig {
        let auth = client_credentials(self.server.url());
        let TransportConfig::Http { url, tls, addresses, is_grpc, .. } = transport(fake) else {
            panic!()
        };
        let (headers, auth) = (BTreeMap::new(), Some(Box::new(auth)));
        TransportConfig::Http { url, headers, auth, tls, addresses, is_grpc }
    }

    fn set_delay(&self, milliseconds: u64) {
        self.delay.store(milliseconds, Ordering::Relaxed);
    }

    /// Waits for all pending tokens, and for a later request. Requests that waited for those tokens
    /// would have been sent before.
    async fn settled(&self, upstreams: &Upstreams, target: &TargetId, checks: impl Fn() -> usize) {
        self.set_delay(0);
        eventually(|| async { Arc::strong_count(&self.pending) == 1 }).await;
        for _ in 0..2 {
            let before = checks();
            assert_eq!(upstreams.check(target), Some(true));
            eventually(|| async { checks() > before }).await;
        }
    }
}

fn short() -> UpstreamLimits {
    UpstreamLimits { call_timeout_ms: 150, ..limits() }
}

#[tokio::test]
async fn message_cancelled_before_send_is_never_sent() {
    let fake = Server::start(|seen| match seen.rpc_method() {
        "GetTask" => seen.error(200, &json!({ "code": -32001, "message": "?" })),
        _ => seen.result(&json!({ "message": { "parts": [] } })),
    });
    let fake = fake.await;
    let tokens = Tokens::start().await;
    let upstreams = start_at(tokens.transport(&fake), short(), TIMING);
    upstreams.until_up().await;
    agents::ask(&upstreams).await.unwrap();
    tokens.set_delay(400);
    assert!(timeout(Duration::from_millis(50), agents::ask(&upstreams)).await.is_err());
    let error = agents::ask(&upstreams).await.unwrap_err();
    assert!(matches!(error, Error::Timeout { phase: Phase::Connect, after_ms: 150 }), "{error}");
    assert!(!error.may_have_run());
    tokens.settled(&upstreams, &agents::agent().into(), || fake.seen("GetTask").len()).await;
    assert_eq!(fake.seen("SendMessage").len(), 1, "only the first message");
    upstreams.shutdown().await;
}

/// The message was rejected unprocessed for its token, so it counts as unsent while it waits for a
/// new one.
#[tokio::test]
async fn rejected_message_counts_as_unsent() {
    let tokens = Tokens::start().await;
    let slow = Arc::clone(&tokens.delay);
    let fake = Server::start(move |seen| {
        if seen.rpc_method() == "GetTask" {
            return seen.error(200, &json!({ "code": -32001, "message": "?" }));
        }
        slow.store(400, Ordering::Relaxed);
        raw_reply(401, "text/plain", b"another token, please")
    });
    let fake = fake.await;
    let upstreams = start_at(tokens.transport(&fake), short(), TIMING);
    upstreams.until_up().await;
    let error = agents::ask(&upstreams).await.unwrap_err();
    assert!(matches!(error, Error::Timeout { phase: Phase::Connect, after_ms: 150 }), "{error}");
    tokens.settled(&upstreams, &agents::agent().into(), || fake.seen("GetTask").len()).await;
    assert_eq!(fake.seen("SendMessage").len(), 1);
    upstreams.shutdown().await;
}

#[tokio::test]
async fn timed_out_call_may_have_run_only_if_sent() {
    let slow = Arc::new(AtomicU64::new(0));
    let is_slow = Arc::clone(&slow);
    let fake = modern_server(move |seen| match is_slow.load(Ordering::Relaxed) {
        0 => seen.result(&json!({ "content": [], "resultType": "complete" })),
        _ => Reply::stall(),
    })
    .await;
    let tokens = Tokens::start().await;
    let upstreams = start(tokens.transport(&fake), short(), TIMING);
    upstreams.until_up().await;
    upstreams.must_call("{}").await;
    tokens.set_delay(400);
    let error = upstreams.try_call("{}").await.unwrap_err();
    assert!(matches!(error, Error::Timeout { phase: Phase::Connect, after_ms: 150 }), "{error}");
    tokens.settled(&upstreams, &key().into(), || fake.seen("tools/list").len()).await;
    assert_eq!(fake.seen("tools/call").len(), 1);
    slow.store(1, Ordering::Relaxed);
    let error = upstreams.try_call("{}").await.unwrap_err();
    assert!(matches!(error, Error::Timeout { phase: Phase::Call, after_ms: 150 }), "{error}");
    assert!(error.may_have_run());
    upstreams.shutdown().await;
}

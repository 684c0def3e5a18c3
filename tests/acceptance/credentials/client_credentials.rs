//! Access tokens of the gateway by client credentials.

use std::time::{Duration, Instant};

use acceptance::{
    ModernClient, eventually,
    tls::{Authority, Mounted},
};
use futures_util::future::join_all;
use registry_tls::{Acceptor, ClientAuth, MetricsHooks, ServerFiles};
use serde_json::json;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
};

use super::{
    SECRET, assert_kept, auth, fetch, gateway, is_up,
    upstream::{TokenEndpoint, Upstream, token_error, valid_for},
};
use crate::scripted_server::json_answer;

#[tokio::test]
async fn access_token_is_fetched_once_and_reused() {
    for (legacy, method) in [(false, "client_secret_basic"), (true, "client_secret_post")] {
        let upstream = if legacy { Upstream::legacy().await } else { Upstream::modern().await };
        let tokens = TokenEndpoint::start().await;
        let more = format!(
            "clientAuthentication: {method}, scopes: [docs:read, docs:write], audience: far, \
             resource: [\"https://far.example/mcp\", \"urn:x\"]"
        );
        upstream.accept_only(&["Bearer token-1"]);
        let gateway = gateway(&upstream, &auth("clientCredentials", &tokens, &more), "");
        let client = ModernClient::anonymous(&gateway.mcp_url());
        gateway.ready().await;
        for answer in join_all((0..20).map(|_| fetch(&client))).await {
            assert_eq!(answer.text(), "fetched", "{answer:?}");
        }
        is_up(&gateway).await;
        let received = upstream.received();
        assert!(
            received.iter().all(|received| received.authorization == "Bearer token-1"),
            "{received:?}"
        );
        assert!(received.iter().any(|received| received.method == "tools/list"), "{received:?}");
        let requests = tokens.requests();
        assert_eq!(requests.len(), 1, "{requests:?}");
        assert_eq!(requests[0].client.is_some(), !legacy, "{requests:?}");
        for (name, value) in [
            ("grant_type", "client_credentials"),
            ("scope", "docs:read docs:write"),
            ("audience", "far"),
            ("resource", "https://far.example/mcp urn:x"),
            ("subject_token", ""),
        ] {
            assert_eq!(requests[0].field(name), value, "{requests:?}");
        }
        assert_kept(&gateway, &[SECRET, "token-1"]).await;
    }
}

#[tokio::test]
async fn access_token_is_renewed_before_expiry() {
    let (upstream, tokens) = (Upstream::modern().await, TokenEndpoint::start().await);
    tokens.set_behavior(valid_for(2));
    let gateway = gateway(&upstream, &auth("clientCredentials", &tokens, ""), "");
    is_up(&gateway).await;
    let client = ModernClient::anonymous(&gateway.mcp_url());
    assert_eq!(fetch(&client).await.text(), "fetched");
    let first = upstream.last_call().authorization;
    tokio::time::sleep(Duration::from_millis(1_700)).await;
    assert_eq!(fetch(&client).await.text(), "fetched");
    assert_ne!(upstream.last_call().authorization, first, "it had 0.3 s left");
}

#[tokio::test]
async fn rejected_access_token_is_renewed_once() {
    let (upstream, tokens) = (Upstream::modern().await, TokenEndpoint::start().await);
    let gateway = gateway(&upstream, &auth("clientCredentials", &tokens, ""), "");
    is_up(&gateway).await;
    let client = ModernClient::anonymous(&gateway.mcp_url());
    upstream.accept_calls_only(&["Bearer token-2"]);
    assert_eq!(fetch(&client).await.text(), "fetched");
    let calls: Vec<_> = upstream
        .received_of("tools/call")
        .into_iter()
        .map(|received| (received.authorization, received.status))
        .collect();
    let expected = [("Bearer token-1".to_owned(), 401), ("Bearer token-2".to_owned(), 200)];
    assert_eq!(calls, expected);

    upstream.accept_calls_only(&["nobody"]);
    let before = upstream.received_of("tools/call").len();
    let answer = fetch(&client).await;
    assert!(answer.is_tool_error() && answer.text().contains("HTTP 401"), "{answer:?}");
    assert_eq!(upstream.received_of("tools/call").len() - before, 2, "once more, and no more");
    assert_kept(&gateway, &[SECRET, "token-1", "token-2"]).await;
}

#[tokio::test]
async fn token_endpoint_failure_is_reported_separately() {
    let (upstream, tokens) = (Upstream::modern().await, TokenEndpoint::start().await);
    tokens.set_behavior(valid_for(1));
    let limits = "limits: { connectTimeoutMs: 1000 }\n";
    let gateway = gateway(&upstream, &auth("clientCredentials", &tokens, ""), limits);
    is_up(&gateway).await;
    let client = ModernClient::anonymous(&gateway.mcp_url());
    let elsewhere = TokenEndpoint::start().await;
    let there = elsewhere.url.clone();
    let huge = "x".repeat(70_000);
    let behaviors: Vec<(&str, &str, super::upstream::TokenBehavior)> = vec![
        ("refuses", "invalid_grant", {
            Box::new(|_, _| Some(token_error("400 Bad Request", "invalid_grant")))
        }),
        ("is broken", "could not get", {
            Box::new(|_, _| Some(token_error("500 Internal Server Error", SECRET)))
        }),
        ("hangs", "could not get", Box::new(|_, _| None)),
        ("goes away", "could not get", Box::new(|_, _| Some("HTTP/1.1 200 OK\r\n".to_owned()))),
        ("redirects", "could not get", {
            let head = format!("HTTP/1.1 307 Temporary Redirect\r\nlocation: {there}\r\n");
            Box::new(move |_, _| Some(format!("{head}content-length: 0\r\n\r\n")))
        }),
        ("is huge", "could not get", {
            Box::new(move |_, _| Some(json_answer(&json!({ "access_token": huge }))))
        }),
        ("gives something else", "could not get", {
            let mac = json!({ "access_token": "tok3n", "token_type": "mac" });
            Box::new(move |_, _| Some(json_answer(&mac)))
        }),
        ("gives a header", "could not get", {
            let evil = json!({ "access_token": "tok3n\r\nx-evil: 1", "token_type": "Bearer" });
            Box::new(move |_, _| Some(json_answer(&evil)))
        }),
    ];
    for (what, told, behavior) in behaviors {
        tokens.set_behavior(behavior);
        // The cached token is valid for 0.8 s, and a failure is cached for 1 s.
        tokio::time::sleep(Duration::from_millis(1_100)).await;
        let calls = upstream.received_of("tools/call").len();
        let requests = tokens.requests().len();
        let began = Instant::now();
        for answer in join_all((0..6).map(|_| fetch(&client))).await {
            assert!(answer.is_tool_error() && answer.text().contains(told), "{what}: {answer:?}");
        }
        assert!(began.elapsed() < Duration::from_secs(3), "{what}: {:?}", began.elapsed());
        assert!(tokens.requests().len() <= requests + 3, "{what}: it is left in peace");
        assert_eq!(upstream.received_of("tools/call").len(), calls, "{what}: nothing was sent");
        assert!(gateway.targets().await.contains("\"circuitOpen\":false"), "{what}");
    }
    assert!(elsewhere.requests().is_empty(), "a redirect was followed");
    tokens.set_behavior(valid_for(600));
    eventually("it goes on", || async { !fetch(&client).await.is_tool_error() }).await;
    upstream.assert_never_saw(&["x-evil", SECRET]);
    assert_kept(&gateway, &[SECRET, "tok3n", "tenant=t"]).await;
    let reason = "the token endpoint rejected the request (HTTP 400, invalid_grant)";
    assert!(gateway.process.stderr().contains(reason));
}

/// Adds TLS in front of the token endpoint and returns its URL.
async fn with_tls(tokens: &TokenEndpoint, mounted: &Mounted) -> String {
    let files = ServerFiles {
        certificate: mounted.path("tls.crt"),
        key: mounted.path("tls.key"),
        client_ca: None,
        client_crl: None,
        client_auth: ClientAuth::Required,
        protocols: &["http/1.1"],
    };
    let tls = Acceptor::open(files, MetricsHooks { reloaded: |_| (), rejected: || () });
    let tls = tls.expect("good files");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let (behind, path) = tokens.url["http://".len()..].split_once('/').expect("a path");
    let behind = behind.to_owned();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (tls, behind) = (tls.clone(), behind.clone());
            tokio::spawn(async move {
                let Some(mut stream) = tls.accept(stream).await else { return };
                let mut behind = TcpStream::connect(behind).await.expect("the endpoint");
                let _ = copy_bidirectional(&mut stream, &mut behind).await;
            });
        }
    });
    format!("https://{address}/{path}")
}

#[tokio::test]
async fn token_endpoint_certificate_must_be_trusted() {
    let (upstream, mut tokens) = (Upstream::modern().await, TokenEndpoint::start().await);
    let (authority, other) = (Authority::new(), Authority::new());
    tokens.url = with_tls(&tokens, &Mounted::new(&authority)).await;
    for (ca, is_trusted) in [(Some(&authority), true), (Some(&other), false), (None, false)] {
        let tls = ca.map(|ca| format!("tls: {{ caFile: {} }}", ca.ca.display()));
        let auth = auth("clientCredentials", &tokens, &tls.unwrap_or_default());
        let gateway = gateway(&upstream, &auth, "");
        gateway.ready().await;
        let client = ModernClient::anonymous(&gateway.mcp_url());
        let before = tokens.requests().len();
        let answer = fetch(&client).await;
        assert_eq!(answer.is_tool_error(), !is_trusted, "{answer:?}");
        if !is_trusted {
            assert!(!gateway.process.logged(&["WARN", "certificate"]).is_empty());
            assert_eq!(tokens.requests().len(), before);
        }
        assert_kept(&gateway, &[SECRET]).await;
    }
}

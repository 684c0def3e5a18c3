//! What becomes of a caller's credentials: they end here, and sessions belong to whom they prove.

use registry_core::Digest;
use serde_json::json;

use super::harness::{Ask, Bench, Setup};
use crate::{
    config::{ApiKeyConfig, ProofsConfig},
    view::testing::tool,
};

const KEYS: [&str; 2] = ["first-secret", "second-secret"];

/// A gateway where both keys are the same agent's.
async fn bench() -> Bench {
    let key = |key: &str| ApiKeyConfig {
        agent: "team/a".to_owned(),
        version: None,
        digest: Digest::of(key.as_bytes()),
        scopes: Vec::new(),
    };
    let proofs = ProofsConfig {
        required: true,
        api_keys: KEYS.map(key).to_vec(),
        ..ProofsConfig::default()
    };
    Bench::start(Setup { proofs, ..Setup::default() }, vec![tool("t", "1.0.0", json!({}))]).await
}

fn bearer(key: &str) -> String {
    format!("Bearer {key}")
}

#[tokio::test]
async fn no_credential_of_a_caller_reaches_an_upstream() {
    let bench = bench().await;
    let params = json!({ "name": "t", "arguments": {} });
    for (header, value) in [("authorization", bearer(KEYS[0])), ("x-api-key", KEYS[0].to_owned())] {
        let ask = Ask::modern("tools/call", params.clone()).with(header, &value);
        bench.got(ask.build()).await.result();
    }
    let calls = bench.calls();
    assert_eq!(calls.len(), 2);
    for seen in calls {
        assert!(!format!("{:?} {}", seen.headers, seen.body).contains("secret"), "{seen:?}");
        assert!(!seen.headers.contains_key("authorization"), "{seen:?}");
    }
}

#[tokio::test]
async fn a_session_is_of_whoever_proved_who_it_is_and_of_nobody_else() {
    let bench = bench().await;
    let opened = Ask::initialize("2025-11-25").with("authorization", &bearer(KEYS[0]));
    let opened = bench.got(opened.build()).await;
    let session = opened.headers["mcp-session-id"].to_str().unwrap();
    let list = |ask: Ask| bench.got(ask.build());
    let ask = || Ask::legacy(session, "tools/list", json!({}));
    assert_eq!(list(ask().with("x-api-key", KEYS[0])).await.status, 200);
    assert_eq!(list(ask().with("x-api-key", KEYS[1])).await.status, 404, "the same agent");
    let nobody = list(ask()).await;
    assert_eq!(
        (nobody.error(), &nobody.headers["www-authenticate"]),
        ((401, -32600), &"Bearer".parse().unwrap())
    );
}

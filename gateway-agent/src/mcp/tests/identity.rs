//! Credentials of callers are not forwarded, and sessions belong to verified callers.

use std::collections::BTreeMap;

use futures_util::StreamExt as _;
use gateway_protocol::mcp::Era;
use registry_core::Digest;
use serde_json::json;

use super::{
    far_side::FarSide,
    harness::{Ask, Bench, Setup},
    relayed::messages,
};
use crate::{
    identity::settings::{ApiKeyConfig, AuthenticationConfig},
    testing::tool,
};

const KEYS: [&str; 2] = ["first-secret", "second-secret"];

/// Both keys belong to one agent.
fn authentication() -> AuthenticationConfig {
    let key = |key: &str| ApiKeyConfig {
        agent: "team/a".to_owned(),
        version: None,
        digest: Digest::compute(key.as_bytes()),
        scopes: Vec::new(),
    };
    AuthenticationConfig {
        required: true,
        api_keys: KEYS.map(key).to_vec(),
        ..AuthenticationConfig::default()
    }
}

async fn bench() -> Bench {
    let setup = Setup { authentication: authentication(), ..Setup::default() };
    Bench::start(setup, vec![tool("t", "1.0.0", json!({}))]).await
}

fn bearer(key: &str) -> String {
    format!("Bearer {key}")
}

#[tokio::test]
async fn caller_credentials_are_not_forwarded() {
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
async fn session_belongs_to_verified_caller() {
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

#[tokio::test]
async fn scopes_are_checked_again_after_input() {
    let (far_side, transport) = FarSide::start(Era::Modern).await;
    let mut authentication = authentication();
    authentication.scopes = BTreeMap::from([("works".to_owned(), vec!["w".to_owned()])]);
    let setup = Setup { authentication, transport: Some(transport), ..Setup::default() };
    let tools = || vec![tool("asks", "1.0.0", json!({})), tool("works", "1.0.0", json!({}))];
    let bench = Bench::start(setup, tools()).await;
    let authorized = |ask: Ask| ask.with("x-api-key", KEYS[0]);
    let mut open = Ask::initialize("2025-11-25");
    open.body["params"]["capabilities"] = json!({ "elicitation": {} });
    let opened = bench.got(authorized(open).build()).await;
    let session = opened.headers["mcp-session-id"].to_str().unwrap();
    let call = Ask::legacy(session, "tools/call", json!({ "name": "asks" }));
    let mut body = bench.send(authorized(call).build()).await.into_body().into_data_stream();
    let mut text = String::new();
    let question = loop {
        text.push_str(std::str::from_utf8(&body.next().await.unwrap().unwrap()).unwrap());
        if let Some(question) = messages(&text).pop() {
            break question;
        }
    };
    assert_eq!(question["method"], "elicitation/create");
    // The newest version contains a tool that the caller has no scope for.
    let mut newest = tool("asks", "2.0.0", json!({}));
    newest.document = json!({ "name": "asks", "version": "2.0.0",
        "depends": [{ "type": "tool", "name": "works", "version": "1.0.0" }],
        "spec": { "pipeline": { "steps": [
            { "id": "s", "operation": { "tool": { "name": "works" } } }] } } });
    bench.publish(2, tools().into_iter().chain([newest]).collect());
    let mut reply = Ask::legacy(session, "", json!({}));
    reply.body =
        json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "action": "accept" } });
    assert_eq!(bench.got(authorized(reply).build()).await.status, 202);
    let mut rest = String::new();
    while let Some(Ok(chunk)) = body.next().await {
        rest.push_str(std::str::from_utf8(&chunk).unwrap());
        if !messages(&rest).is_empty() {
            break;
        }
    }
    let answer = messages(&rest).pop().unwrap();
    assert_eq!(answer["error"]["code"], -32600, "{answer}");
    insta::assert_snapshot!(
        answer["error"]["message"].as_str().unwrap(),
        @"insufficient scope; required scopes: w"
    );
    assert_eq!(far_side.seen("tools/call").len(), 1);
}

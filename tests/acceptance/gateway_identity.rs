//! Who is calling a gateway: tokens, keys, certificates, headers of trusted hops; and what whoever
//! proves too little is told.

mod audited;
pub(crate) mod issuer;
mod others;
mod reload;
mod tokens;

use acceptance::{Backend, Gateway, GatewayOptions, ModernClient, mcp::Answer};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::json;

/// A gateway with the example, this `identity` block and more, where nobody unknown may call.
fn gateway(backend: &Backend, identity: &str, more: &str) -> Gateway {
    Gateway::start(&options(backend, identity, more))
}

fn options(backend: &Backend, identity: &str, more: &str) -> GatewayOptions {
    let example = acceptance::root().join("examples/registry-v2.json");
    GatewayOptions {
        source: format!("file://{}", example.display()),
        targets: backend.targets(),
        runtime: Some("{ unknownCaller: deny }".to_owned()),
        more: format!("identity: {identity}\n{more}"),
    }
}

/// A client that sends these headers with each request.
fn with(gateway: &Gateway, headers: &[(&str, &str)]) -> ModernClient {
    let header = |(name, value): &(&str, &str)| {
        let name: HeaderName = name.parse().expect("a name");
        (name, HeaderValue::from_str(value).expect("a value"))
    };
    let headers: HeaderMap = headers.iter().map(header).collect();
    let http = reqwest::Client::builder().default_headers(headers).build().expect("a client");
    ModernClient::anonymous(&gateway.mcp_url()).over(http)
}

pub(crate) fn bearing(gateway: &Gateway, token: &str) -> ModernClient {
    with(gateway, &[("authorization", &format!("Bearer {token}"))])
}

/// Waits until the gateway serves the research agent its three tools.
async fn is_research_agent(client: &ModernClient) {
    acceptance::eventually("the agent is known", || async {
        let answer = client.request("tools/list", json!({})).await.expect("an answer");
        answer.message["result"]["tools"].as_array().is_some_and(|tools| tools.len() == 3)
    })
    .await;
}

async fn list(client: &ModernClient) -> Answer {
    client.request("tools/list", json!({})).await.expect("an answer")
}

/// Whether this answer says that a credential is wrong, in HTTP and in JSON-RPC.
fn assert_refused(what: &str, answer: &Answer) {
    assert_eq!(answer.status, 401, "{what}: {answer:?}");
    assert!(answer.challenge.contains("error=\"invalid_token\""), "{what}: {answer:?}");
    assert_eq!(answer.error_code(), -32600, "{what}: {answer:?}");
}

//! TLS between callers and a gateway, and between a gateway and its upstreams.

mod callers;
mod upstreams;

use std::path::Path;

use acceptance::{
    Backend, Gateway, GatewayOptions, ModernClient,
    tls::{Authority, Files},
};
use serde_json::json;

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// `certFile` and `keyFile` as members of a flow mapping.
fn pair(Files { certificate, key }: &Files) -> String {
    format!("certFile: {}, keyFile: {}", text(certificate), text(key))
}

/// A gateway with the example, these targets and this `tls` block, or none.
fn gateway(targets: &str, tls: &str) -> Gateway {
    let example = acceptance::root().join("examples/registry-v2.json");
    let more = if tls.is_empty() { String::new() } else { format!("tls: {{ {tls} }}\n") };
    Gateway::start(&GatewayOptions {
        source: format!("file://{}", example.display()),
        targets: targets.to_owned(),
        runtime: None,
        more,
    })
}

/// A client of the research agent over this HTTP client.
fn agent(gateway: &Gateway, http: reqwest::Client) -> ModernClient {
    ModernClient::agent(&gateway.mcp_url(), "research-agent", "2.1.0").over(http)
}

/// Waits until the agent lists its tools and can call one.
async fn works(agent: &ModernClient) {
    acceptance::eventually("tools are listed and called", || async {
        let Ok(listed) = agent.request("tools/list", json!({})).await else { return false };
        let tools = listed.message["result"]["tools"].as_array();
        tools.is_some_and(|tools| tools.len() == 3) && is_answered(agent).await
    })
    .await;
}

/// Whether a call of the document service succeeds.
async fn is_answered(agent: &ModernClient) -> bool {
    let called = agent.call("search_documents", json!({ "query": "gateway" })).await;
    called.message["result"]["content"].is_array() && !called.is_tool_error()
}

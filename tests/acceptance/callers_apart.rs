//! What each caller of a gateway has for itself: its tasks, and a share of what upstreams are given.
//!
//! Deliberately absent: who callers are (`gateway_identity.rs`), and what they may call
//! (`enforcement.rs`).

mod tasks;

use std::sync::Arc;

use acceptance::{Gateway, GatewayOptions, ModernClient, eventually};
use serde_json::{Value, json};

use crate::liar::{Liar, Script, json_answer};

const MODERN: &str = "2026-07-28";
const TASKS: &str = "io.modelcontextprotocol/tasks";

/// What a far side answers to a request: a result, or nothing at all.
type Method = Arc<dyn Fn(&str, &Value) -> Option<Value> + Send + Sync>;

/// A gateway in front of one far side, which has the tool `fetch`.
struct Scene {
    gateway: Gateway,
    liar: Liar,
}

impl Scene {
    async fn start(capabilities: Value, more: &str, method: Method) -> Self {
        let liar = Liar::start(modern(capabilities, method)).await;
        let example = acceptance::root().join("examples/registry-v2.json");
        let gateway = Gateway::start(&GatewayOptions {
            source: format!("file://{}", example.display()),
            targets: format!(
                "targets: [{{ server: fetch-server, version: 1.2.3, http: \"{}\" }}]\n",
                liar.url
            ),
            runtime: None,
            more: more.to_owned(),
        });
        gateway.ready().await;
        eventually("the far side is up", || async {
            gateway.process.stderr().contains("upstream is up")
        })
        .await;
        Self { gateway, liar }
    }

    /// An agent of the example, or nobody, with these capabilities.
    fn client(&self, agent: &str, capabilities: Value) -> ModernClient {
        let url = self.gateway.mcp_url();
        let client = match agent.split_once('@') {
            Some((name, version)) => ModernClient::agent(&url, name, version),
            None => ModernClient::anonymous(&url),
        };
        client.declaring(capabilities)
    }

    /// The audit events of this method.
    fn audited(&self, event: &str) -> Vec<String> {
        let log = self.gateway.process.stderr();
        let is_it = |line: &&str| line.contains("audit") && line.contains(event);
        log.lines().filter(is_it).map(str::to_owned).collect()
    }
}

/// A modern MCP server with the tool `fetch`; what else it answers is the test's.
fn modern(capabilities: Value, method: Method) -> Script {
    Arc::new(move |_, body| {
        let message: Value = serde_json::from_str(body).ok()?;
        let mut result = match message["method"].as_str()? {
            "server/discover" => {
                json!({ "supportedVersions": [MODERN], "capabilities": capabilities })
            }
            "tools/list" => json!({ "tools": [{ "name": "fetch", "inputSchema": {} }] }),
            name => method(name, &message["params"])?,
        };
        if result.get("resultType").is_none() {
            result["resultType"] = json!("complete");
        }
        Some(json_answer(&json!({ "jsonrpc": "2.0", "id": message["id"], "result": result })))
    })
}

//! What each caller of a gateway has for itself: its tasks, and a share of what upstreams are given.

mod audited;
mod compositions;
mod questions;
mod shares;
mod tasks;

use std::{
    collections::BTreeSet,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

use acceptance::{Gateway, GatewayOptions, ModernClient, eventually};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::liar::{Liar, STAY, Script, json_answer};

const MODERN: &str = "2026-07-28";
const LEGACY: &str = "2025-11-25";
const CATALOG: &str = "registry.json";
const TASKS: &str = "io.modelcontextprotocol/tasks";

/// What a far side answers to a request: a result, or nothing at all.
type Method = Arc<dyn Fn(&str, &Value) -> Option<Value> + Send + Sync>;

/// An agent that declares `fetch`, and one that does not.
const DECLARING: &str = "claude-demo-agent@1.0.0";
const OTHER: &str = "adk-demo-agent@1.0.0";

/// A gateway in front of one far side, which has the tool `fetch` and shows its resources.
struct Scene {
    gateway: Gateway,
    options: GatewayOptions,
    liar: Liar,
    dir: TempDir,
}

impl Scene {
    async fn start(far_side: Script, more: &str) -> Self {
        let liar = Liar::start(far_side).await;
        let dir = tempfile::tempdir().expect("a directory");
        let catalog = dir.path().join(CATALOG);
        std::fs::write(&catalog, exposing().to_string()).expect("a catalog");
        let options = GatewayOptions {
            source: format!("file://{}", catalog.display()),
            targets: format!(
                "targets: [{{ server: fetch-server, version: 1.2.3, http: \"{}\" }}]\n",
                liar.url
            ),
            runtime: None,
            more: more.to_owned(),
        };
        let gateway = Gateway::start(&options);
        gateway.ready().await;
        eventually("the far side is up", || async {
            gateway.process.stderr().contains("upstream is up")
        })
        .await;
        Self { gateway, options, liar, dir }
    }

    /// The file with the catalog.
    fn catalog(&self) -> PathBuf {
        self.dir.path().join(CATALOG)
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

/// The example, whose fetch server shows its resources.
fn exposing() -> Value {
    let example = acceptance::root().join("examples/registry-v2.json");
    let text = std::fs::read_to_string(example).expect("the example");
    let mut catalog: Value = serde_json::from_str(&text).expect("JSON");
    let servers = catalog["servers"].as_array_mut().expect("servers");
    let fetch = servers.iter_mut().find(|server| server["name"] == "fetch-server");
    fetch.expect("it is there")["exposes"] = json!(["resources"]);
    catalog
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

/// A server with sessions whose tool `fetch` does as its `url` says: it asks and waits for the answer
/// (`asks`), asks and never comes to an end (`stays`), never answers (`hangs`), or gives a page.
fn asking() -> Script {
    let answered = Arc::<Mutex<BTreeSet<String>>>::default();
    Arc::new(move |head, body| {
        let empty = |line: &str| {
            Some(format!("HTTP/1.1 {line}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"))
        };
        let id = head.lines().find_map(|line| line.strip_prefix("last-event-id: "));
        if let Some(id) = id {
            return Some(events(&rest(&answered, id)));
        }
        let message: Value = serde_json::from_str(body).unwrap_or_default();
        let (id, method) = (&message["id"], message["method"].as_str());
        let result = match method {
            _ if !head.starts_with("POST") => return empty("405 Method Not Allowed"),
            None => {
                let id = id.as_str().expect("of a question").to_owned();
                answered.lock().expect("not poisoned").insert(id);
                return empty("202 Accepted");
            }
            Some(_) if id.is_null() => return empty("202 Accepted"),
            Some("initialize") => {
                let capabilities = json!({ "tools": {}, "resources": { "subscribe": true } });
                json!({ "protocolVersion": LEGACY, "capabilities": capabilities,
                    "serverInfo": { "name": "asking", "version": "1" } })
            }
            Some("tools/list") => json!({ "tools": [{ "name": "fetch", "inputSchema": {} }] }),
            Some("resources/list") => json!({ "resources": [] }),
            Some("resources/templates/list") => json!({ "resourceTemplates": [] }),
            Some("tools/call") => match message["params"]["arguments"]["url"].as_str()? {
                "http://asks/" => return Some(events(&question(id))),
                "http://stays/" => return Some(format!("{}{STAY}", events(&question(id)))),
                "http://hangs/" => return None,
                _ => page(),
            },
            Some("resources/subscribe" | "resources/unsubscribe") => json!({}),
            Some(_) => return empty("404 Not Found"),
        };
        Some(json_answer(&json!({ "jsonrpc": "2.0", "id": id, "result": result })))
    })
}

fn page() -> Value {
    json!({ "content": [{ "type": "text", "text": "a page" }] })
}

/// A question in the middle of the call with this id.
fn question(id: &Value) -> String {
    let message = json!({ "jsonrpc": "2.0", "id": format!("q{id}"),
        "method": "elicitation/create", "params": { "message": "?", "requestedSchema": {} } });
    format!("retry: 10\nid: {id}\ndata: {message}\n\n")
}

/// What follows on a question once it is answered.
fn rest(answered: &Mutex<BTreeSet<String>>, id: &str) -> String {
    for _ in 0..3_000 {
        if answered.lock().expect("not poisoned").contains(&format!("q{id}")) {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let id: Value = serde_json::from_str(id).expect("a number");
    format!("data: {}\n\n", json!({ "jsonrpc": "2.0", "id": id, "result": page() }))
}

fn events(events: &str) -> String {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    format!("{head}{events}")
}

/// What a client declares that can be asked.
fn able() -> Value {
    json!({ "elicitation": {} })
}

//! Isolation of callers at a gateway: tasks, cached results, and quotas of upstream capacity.

mod audit;
mod compositions;
mod elicitation;
mod quotas;
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

use crate::scripted_server::{STAY, Script, ScriptedServer, json_answer};

const MODERN: &str = "2026-07-28";
const LEGACY: &str = "2025-11-25";
const CATALOG: &str = "registry.json";
const TASKS: &str = "io.modelcontextprotocol/tasks";

/// The upstream's result of a request, or `None` for no reply.
type Method = Arc<dyn Fn(&str, &Value) -> Option<Value> + Send + Sync>;

/// An agent that declares `fetch`.
const DECLARING: &str = "claude-demo-agent@1.0.0";
const OTHER: &str = "adk-demo-agent@1.0.0";

/// A gateway in front of one upstream with the tool `fetch`, whose resources are exposed.
struct Scene {
    gateway: Gateway,
    options: GatewayOptions,
    server: ScriptedServer,
    dir: TempDir,
}

impl Scene {
    async fn start(upstream: Script, more: &str) -> Self {
        let server = ScriptedServer::start(upstream).await;
        let dir = tempfile::tempdir().expect("a directory");
        let catalog = dir.path().join(CATALOG);
        std::fs::write(&catalog, exposing_registry().to_string()).expect("a catalog");
        let options = GatewayOptions {
            source: format!("file://{}", catalog.display()),
            targets: format!(
                "targets: [{{ server: fetch-server, version: 1.2.3, http: \"{}\" }}]\n",
                server.url
            ),
            runtime: None,
            more: more.to_owned(),
        };
        let gateway = Gateway::start(&options);
        gateway.ready().await;
        gateway.upstreams_up(1).await;
        Self { gateway, options, server, dir }
    }

    fn catalog(&self) -> PathBuf {
        self.dir.path().join(CATALOG)
    }

    /// A client of an agent of the example, or an anonymous one, with these capabilities.
    fn client(&self, agent: &str, capabilities: Value) -> ModernClient {
        let url = self.gateway.mcp_url();
        let client = match agent.split_once('@') {
            Some((name, version)) => ModernClient::agent(&url, name, version),
            None => ModernClient::anonymous(&url),
        };
        client.declaring(capabilities)
    }

    fn audited(&self, event: &str) -> Vec<String> {
        let log = self.gateway.process.stderr();
        let is_it = |line: &&str| line.contains("audit") && line.contains(event);
        log.lines().filter(is_it).map(str::to_owned).collect()
    }
}

/// The example registry with the resources of its fetch server exposed.
fn exposing_registry() -> Value {
    let example = acceptance::root().join("examples/registry-v2.json");
    let text = std::fs::read_to_string(example).expect("the example");
    let mut catalog: Value = serde_json::from_str(&text).expect("JSON");
    let servers = catalog["servers"].as_array_mut().expect("servers");
    let fetch = servers.iter_mut().find(|server| server["name"] == "fetch-server");
    fetch.expect("it exists")["exposes"] = json!(["resources"]);
    catalog
}

/// A modern MCP server with the tool `fetch`. The test defines all other responses.
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

/// A server with sessions. The `url` argument of its tool `fetch` selects the behavior: ask and
/// wait for the answer (`asks`), ask and never finish (`stays`), never reply (`hangs`), or return a
/// page.
fn eliciting_server() -> Script {
    let answered = Arc::<Mutex<BTreeSet<String>>>::default();
    Arc::new(move |head, body| {
        let empty = |line: &str| {
            Some(format!("HTTP/1.1 {line}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"))
        };
        let id = head.lines().find_map(|line| line.strip_prefix("last-event-id: "));
        if let Some(id) = id {
            return Some(events(&rest_of_stream(&answered, id)));
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

/// An elicitation during the call with this id.
fn question(id: &Value) -> String {
    let message = json!({ "jsonrpc": "2.0", "id": format!("q{id}"),
        "method": "elicitation/create", "params": { "message": "?", "requestedSchema": {} } });
    format!("retry: 10\nid: {id}\ndata: {message}\n\n")
}

/// The rest of the stream after the elicitation is answered.
fn rest_of_stream(answered: &Mutex<BTreeSet<String>>, id: &str) -> String {
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

/// Client capabilities with elicitation.
fn elicitation_capabilities() -> Value {
    json!({ "elicitation": {} })
}

//! Tasks of 2025-11-25 through the gateway, between clients and servers of the first TypeScript and
//! Python SDKs.

use std::{path::Path, process::Command};

use acceptance::{Gateway, GatewayOptions, ModernClient, Process, PythonEnvironment};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::conformance::{fixture, official, run};

const TOOLS: [&str; 3] = ["slow", "confirm", "endless"];

/// A gateway in front of `tasks.mjs`.
struct Scene {
    gateway: Gateway,
    _server: Option<Process>,
    _dir: TempDir,
}

impl Scene {
    async fn start(is_stdio: bool) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let arguments = [fixture("tasks.mjs"), official().modules()];
        let (server, transport) = if is_stdio {
            let [script, modules] = &arguments;
            let child = json!({ "command": official().node_path(),
                "args": [script, modules, "--stdio"] });
            (None, json!({ "stdio": child }))
        } else {
            let mut command = Command::new(official().node_path());
            command.args(arguments);
            let server =
                Process::run("tasks", dir.path(), command).unwrap_or_else(|e| panic!("{e}"));
            let url = format!("http://{}/mcp", server.address());
            (Some(server), json!({ "http": url }))
        };
        let gateway = gateway(&dir, &TOOLS, &transport).await;
        Self { gateway, _server: server, _dir: dir }
    }

    /// Runs a client with this name, which checks its tasks, and returns their ids.
    fn client(&self, name: &str) -> Vec<String> {
        let mut client = official().node(&fixture("task-client.mjs"));
        client.arg(official().modules()).args([&self.gateway.mcp_url(), name]);
        serde_json::from_str(&run(client)).expect("ids")
    }
}

/// A gateway in front of the server with these tools.
async fn gateway(dir: &TempDir, tools: &[&str], transport: &Value) -> Gateway {
    let mut target = json!({ "server": "tasks", "version": "1.0.0" });
    let members = target.as_object_mut().expect("an object");
    members.extend(transport.as_object().cloned().expect("an object"));
    let catalog = dir.path().join("registry.json");
    std::fs::write(&catalog, registry(tools).to_string()).expect("a registry file");
    let gateway = Gateway::start(&GatewayOptions {
        source: format!("file://{}", catalog.display()),
        targets: format!("targets: [{target}]\n"),
        runtime: None,
        more: String::new(),
    });
    gateway.ready().await;
    gateway.upstreams_up(1).await;
    gateway
}

fn registry(names: &[&str]) -> Value {
    let provides: Vec<_> =
        names.iter().map(|tool| json!({ "tool": tool, "version": "1.0.0" })).collect();
    let server = json!({ "name": "tasks", "version": "1.0.0", "provides": provides });
    let tool = |tool: &&str| {
        let source = json!({ "server": "tasks", "serverVersion": "1.0.0", "tool": tool });
        json!({ "name": tool, "version": "1.0.0", "description": "Works", "source": source })
    };
    let mut tools: Vec<_> = names.iter().map(tool).collect();
    // A step cannot be a task, so this composition is hidden from all clients.
    let steps = [json!({ "id": "one", "operation": { "tool": { "name": "confirm" } } })];
    let depends = [json!({ "type": "tool", "name": "confirm", "version": "1.0.0" })];
    tools.push(json!({ "name": "composed", "version": "1.0.0", "description": "Composes",
        "depends": depends, "spec": { "pipeline": { "steps": steps } } }));
    json!({ "schemaVersion": "2.0", "servers": [server], "tools": tools })
}

/// A session of a client with this protocol version.
struct Session {
    url: String,
    version: &'static str,
    id: String,
}

impl Session {
    async fn open(gateway: &Gateway, version: &'static str) -> Self {
        let url = gateway.mcp_url();
        let mut session = Self { url, version, id: String::new() };
        let params = json!({ "protocolVersion": version, "capabilities": {},
            "clientInfo": { "name": "test", "version": "1" } });
        let response = session.send("initialize", params).await;
        let id = response.headers().get("mcp-session-id").expect("a session");
        id.to_str().expect("text").clone_into(&mut session.id);
        session
    }

    async fn send(&self, method: &str, params: Value) -> reqwest::Response {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let mut request = reqwest::Client::new().post(&self.url).json(&body);
        if !self.id.is_empty() {
            request = request.header("mcp-session-id", &self.id);
            request = request.header("mcp-protocol-version", self.version);
        }
        request.header("accept", "application/json, text/event-stream").send().await.expect("sent")
    }

    async fn ask(&self, method: &str, params: Value) -> Value {
        self.send(method, params).await.json().await.expect("JSON")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_work_between_official_clients_and_servers() {
    for is_stdio in [false, true] {
        let scene = Scene::start(is_stdio).await;
        let (one, other) = (scene.client("Ann"), scene.client("Bob"));
        assert!(one.iter().all(|id| !other.contains(id)), "each client lists its own tasks only");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_work_between_python_clients_and_servers() {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("official/2025");
    let python = PythonEnvironment::of(&fixture("requirements-2025.txt"), &place);
    let dir = tempfile::tempdir().expect("a directory");
    let child = json!({ "command": python.program("python"), "args": [fixture("tasks.py")] });
    let gateway = gateway(&dir, &["confirm"], &json!({ "stdio": child })).await;
    let mut client = python.python();
    client.arg(fixture("task_client.py")).arg(gateway.mcp_url());
    run(client);
}

#[tokio::test(flavor = "multi_thread")]
async fn required_task_is_hidden_from_clients_without_tasks() {
    let scene = Scene::start(true).await;
    let modern = ModernClient::anonymous(&scene.gateway.mcp_url());
    let older = Session::open(&scene.gateway, "2025-06-18").await;
    let listed = older.ask("tools/list", json!({})).await["result"]["tools"].clone();
    for tools in [json!(modern.tools().await), listed] {
        let tools = tools.as_array().expect("a list");
        assert_eq!(tools.len(), 1, "{tools:?}");
        assert_eq!((&tools[0]["name"], tools[0].get("execution")), (&json!("slow"), None));
    }
    let hidden = ["gateway_agent::view", "tool.name=confirm", "clients="];
    assert!(!scene.gateway.process.logged(&hidden).is_empty());

    let call = |name: &str| json!({ "name": name, "arguments": {} });
    let answer = modern.call("confirm", json!({})).await;
    assert_eq!(answer.error_code(), -32601, "{answer:?}");
    let answer = older.ask("tools/call", call("confirm")).await;
    assert_eq!(answer["error"]["code"], -32601, "{answer}");
    // A parameter of a revision that the client does not speak is ignored.
    let mut augmented = call("slow");
    augmented["task"] = json!({ "ttl": 1000 });
    let answer = older.ask("tools/call", augmented).await;
    assert_eq!(answer["result"]["content"][0]["text"], "done", "{answer}");
    assert_eq!(older.ask("tasks/list", json!({})).await["error"]["code"], -32601);
    let newer = Session::open(&scene.gateway, "2025-11-25").await;
    assert_eq!(newer.ask("tools/call", call("endless")).await["error"]["code"], -32601);
}

#[tokio::test(flavor = "multi_thread")]
async fn task_ids_belong_to_their_callers() {
    let scene = Scene::start(true).await;
    let session = Session::open(&scene.gateway, "2025-11-25").await;
    let params = json!({ "name": "endless", "arguments": {}, "task": {} });
    let task = session.ask("tools/call", params).await["result"]["task"].clone();
    let id = task["taskId"].as_str().expect("an id").to_owned();
    let got = session.ask("tasks/get", json!({ "taskId": id })).await;
    assert_eq!(got["result"]["taskId"], json!(id), "{got}");
    // A truncated id is unknown.
    let never = json!({ "taskId": &id[..id.len() - 1] });
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        let answer = session.ask(method, never.clone()).await;
        assert_eq!(answer["error"]["code"], -32602, "{method}: {answer}");
    }
    let other = Session::open(&scene.gateway, "2025-11-25").await;
    assert_eq!(other.ask("tasks/list", json!({})).await["result"]["tasks"], json!([]));
    let listed = session.ask("tasks/list", json!({})).await;
    assert_eq!(listed["result"]["tasks"][0]["taskId"], json!(id), "{listed}");
}

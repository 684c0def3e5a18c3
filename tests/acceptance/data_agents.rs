//! Data agents: one of another process registers over a WebSocket, is called in each spelling, dies, and
//! returns; hostile ones harm no other.

mod hostile;
mod registry;
mod registry_scope;
mod scopes;

use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
};

use acceptance::{
    Gateway, GatewayOptions, ModernClient, Process, WebSocket, binary, eventually, root,
};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The tool of the agent's function.
const TOOL: &str = "feature_extractor.extract_features";

struct Agents {
    gateway: Process,
    dir: TempDir,
}

impl Agents {
    /// Starts a gateway without a registry that accepts registrations.
    fn start() -> Self {
        Self::start_with("identity: { trustHeaders: true }\n", &servers())
    }

    /// Starts one with this configuration and these MCP servers.
    fn start_with(config: &str, servers: &Value) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let servers = json!({ "mcpServers": servers }).to_string();
        fs::write(dir.path().join("servers.json"), servers).expect("written");
        let config = format!(
            "agents: {{ selfRegistration: accept, endpoints: [\"http://127.0.0.1:1\"] }}\n{config}"
        );
        fs::write(dir.path().join("gateway.yaml"), config).expect("written");
        Self { gateway: run(dir.path(), "127.0.0.1:0"), dir }
    }

    /// Kills the gateway, and starts it again at its address.
    fn restart(&mut self) {
        let address = self.gateway.address();
        self.gateway.kill_9();
        self.gateway = run(self.dir.path(), &address);
    }

    /// Starts the agent.
    fn agent(&self) -> Agent {
        let address = self.gateway.address();
        let (host, port) = address.split_once(':').expect("HOST:PORT");
        let mut command = Command::new("python3");
        command.arg(root().join("tests/acceptance/data_agents/agent.py")).args([host, port]);
        Agent(command.stdout(Stdio::null()).spawn().expect("python3 is installed"))
    }

    fn client(&self) -> ModernClient {
        ModernClient::anonymous(&format!("http://{}/mcp", self.gateway.address()))
    }

    /// The mark of the tool in `tools/list`. `None`: it is not listed.
    async fn mark(&self) -> Option<Value> {
        let tools = self.client().tools().await;
        let tool = tools.into_iter().find(|tool| tool["name"] == TOOL)?;
        Some(tool["_meta"]["registry/availability"].clone())
    }

    async fn is_available(&self) -> bool {
        self.mark().await == Some(Value::Null)
    }

    /// Calls the function of the Python agent with `agent.execute` over HTTP.
    async fn execute(&self) -> Value {
        self.executed("feature_extractor", "extract_features").await
    }

    async fn executed(&self, agent_id: &str, function: &str) -> Value {
        let body = json!({ "method": "agent.execute", "params": {
            "agent_id": agent_id, "function": function,
            "input": { "symbol": "AAPL" }, "meta": { "task_id": "task_001" } } });
        self.posted(&body).await
    }

    /// The answer to a body at `/rpc`.
    async fn posted(&self, body: &Value) -> Value {
        let url = format!("http://{}/rpc", self.gateway.address());
        let request = reqwest::Client::new().post(url).header("content-type", "application/json");
        let response = request.body(body.to_string()).send().await.expect("sent");
        let text = response.text().await.expect("a body");
        serde_json::from_str(&text).expect("JSON")
    }

    /// A WebSocket of an agent.
    async fn socket(&self, agent: &str) -> WebSocket {
        let opened = WebSocket::open(&self.gateway.address(), &[("x-agent-name", agent)]).await;
        opened.expect("a WebSocket")
    }

    /// The WebSocket of the registered agent `extractor`.
    async fn extractor(&self) -> WebSocket {
        let mut socket = self.socket("owner").await;
        let answer = socket.asked(&registration("extractor")).await;
        assert!(answer["result"]["version"].is_string(), "{answer}");
        socket
    }
}

/// The servers of a gateway without a registry, which needs one.
fn servers() -> Value {
    json!({ "time": { "command": binary("demo-backend"), "args": ["--stdio", "time-server"] } })
}

/// `server.register` of an agent with the function `extract`.
fn registration(agent_id: &str) -> Value {
    let schema = json!({ "extract": { "input": { "symbol": "string" },
        "output": { "features": "list[float]" } } });
    json!({ "id": 1, "method": "server.register", "params": {
        "agent_id": agent_id, "tools": ["extract"], "schema": schema } })
}

/// The code and the reason of an error.
fn error(answer: &Value) -> (i64, &str) {
    let error = &answer["error"];
    let reason = error["data"]["reason"].as_str();
    (error["code"].as_i64().unwrap_or_default(), reason.unwrap_or_default())
}

fn run(dir: &Path, listen: &str) -> Process {
    Process::start("gateway-agent", dir, |command| {
        command.arg("--mcp-servers").arg(dir.join("servers.json"));
        command.arg("--config").arg(dir.join("gateway.yaml"));
        command.arg("--data").arg(dir.join("data")).current_dir(dir);
        command.args(["--listen", listen]);
    })
}

/// A running agent. Dropping it kills it.
struct Agent(Child);

impl Agent {
    /// Kills the agent as `kill -9` does.
    fn kill(mut self) {
        self.end();
    }

    fn end(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.end();
    }
}

#[tokio::test]
async fn agent_is_called_in_each_spelling() {
    let agents = Agents::start();
    let _agent = agents.agent();
    eventually("the agent is registered", || agents.is_available()).await;
    let answer = agents.execute().await;
    assert_eq!(answer["result"], json!({ "features": [4.0, 2.0] }), "{answer}");
    assert_eq!(answer["meta"]["status"], "success", "{answer}");

    let called = agents.client().call(TOOL, json!({ "symbol": "AAPL", "interval": "1h30" })).await;
    assert_eq!(called.result()["structuredContent"], json!({ "features": [4.0, 4.0] }));
    let arguments = json!({ "agent_id": "feature_extractor", "function": "extract_features",
        "input": { "symbol": "A" }, "meta": { "task_id": "task_002" } });
    let called = agents.client().call("agent.execute", arguments).await;
    assert_eq!(called.result()["structuredContent"], json!({ "features": [1.0, 2.0] }));
}

#[tokio::test]
async fn killed_agent_is_unavailable_until_it_returns() {
    let agents = Agents::start();
    let agent = agents.agent();
    eventually("the agent is registered", || agents.is_available()).await;
    agent.kill();
    let is_marked = || async { agents.mark().await == Some("unavailable".into()) };
    eventually("the tool is marked", is_marked).await;
    let error = agents.execute().await["error"].clone();
    assert_eq!((&error["code"], &error["data"]["reason"]), (&json!(-32001), &json!("UNREACHABLE")));

    let _agent = agents.agent();
    eventually("the agent is back", || agents.is_available()).await;
    assert_eq!(agents.execute().await["meta"]["status"], "success");
}

#[tokio::test]
async fn registration_survives_kill_of_the_gateway() {
    let mut agents = Agents::start();
    let agent = agents.agent();
    eventually("the agent is registered", || agents.is_available()).await;
    agent.kill();
    agents.restart();
    let is_marked = || async { agents.mark().await == Some("unavailable".into()) };
    eventually("the tool is listed and marked", is_marked).await;
    let _agent = agents.agent();
    eventually("the agent is back", || agents.is_available()).await;
    let file = fs::read(agents.dir.path().join("data/agents.json")).expect("the registrations");
    let file: Value = serde_json::from_slice(&file).expect("JSON");
    assert_eq!(file["servers"][0]["version"], "1.0.0", "equal content is registered once");
}

#[tokio::test]
async fn agent_connects_again_after_kill_of_gateway() {
    let mut agents = Agents::start();
    let _agent = agents.agent();
    eventually("the agent is registered", || agents.is_available()).await;
    agents.restart();
    eventually("the agent is back", || agents.is_available()).await;
    assert_eq!(agents.execute().await["result"], json!({ "features": [4.0, 2.0] }));
}

#[tokio::test]
async fn later_server_with_name_of_agent_is_served() {
    let mut agents = Agents::start();
    let answer = agents.socket("owner").await.asked(&registration("late")).await;
    assert_eq!(answer["result"]["status"], "registered", "{answer}");
    let server = json!({ "command": binary("demo-backend"), "args": ["--stdio", "time-server"] });
    let servers = json!({ "mcpServers": { "late": server } }).to_string();
    fs::write(agents.dir.path().join("servers.json"), servers).expect("written");
    agents.restart();
    let is_served = || async { agents.client().tool_names().await == ["get_current_time"] };
    eventually("the server is served instead of the agent", is_served).await;
}

#[tokio::test]
async fn unreadable_registrations_stop_no_gateway_without_registration() {
    let mut agents = Agents::start();
    let dir = agents.dir.path();
    fs::write(dir.join("gateway.yaml"), "identity: { trustHeaders: true }\n").expect("written");
    fs::create_dir_all(dir.join("data")).expect("a directory");
    fs::write(dir.join("data/agents.json"), "[").expect("written");
    agents.restart();
    let warned = agents.gateway.logged(&[" WARN gateway_agent::server: ", "agents.json"]);
    assert_eq!(warned.len(), 1, "{warned:?}");
}

#[tokio::test]
async fn lost_connection_ends_its_call_at_once() {
    let agents = Agents::start();
    let mut extractor = agents.extractor().await;
    let lose = async {
        let request = extractor.text().await.expect("a call");
        assert!(request.contains("agent.execute"), "{request}");
        drop(extractor);
    };
    let (answer, ()) = tokio::join!(agents.executed("extractor", "extract"), lose);
    assert_eq!(error(&answer), (-32001, "UNREACHABLE"), "{answer}");
    assert!(answer["meta"]["execution_time_ms"].as_u64() < Some(10_000), "{answer}");
}

#[tokio::test]
async fn registration_before_first_catalog_is_unreachable() {
    let gateway = Gateway::start(&GatewayOptions {
        source: "grpc://127.0.0.1:1".to_owned(),
        targets: String::new(),
        runtime: None,
        more: "agents: { selfRegistration: accept }\n".to_owned(),
    });
    let opened = WebSocket::open(&gateway.address, &[("x-agent-name", "owner")]).await;
    let answer = opened.expect("a WebSocket").asked(&registration("extractor")).await;
    assert_eq!(error(&answer), (-32001, "UNREACHABLE"), "{answer}");
}

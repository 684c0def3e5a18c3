//! A data agent of another process: it registers over a WebSocket, is called in each spelling, dies, and
//! returns.

use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
};

use acceptance::{ModernClient, Process, eventually, root};
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
        let dir = tempfile::tempdir().expect("a directory");
        fs::write(dir.path().join("servers.json"), r#"{"mcpServers":{}}"#).expect("written");
        let config = "agents:\n  selfRegistration: accept\n";
        fs::write(dir.path().join("gateway.yaml"), config).expect("written");
        Self { gateway: run(dir.path()), dir }
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

    /// Calls the function with `agent.execute` over HTTP.
    async fn execute(&self) -> Value {
        let body = json!({ "method": "agent.execute", "params": {
            "agent_id": "feature_extractor", "function": "extract_features",
            "input": { "symbol": "AAPL" }, "meta": { "task_id": "task_001" } } });
        let url = format!("http://{}/rpc", self.gateway.address());
        let response = reqwest::Client::new().post(url).json(&body).send().await.expect("sent");
        response.json().await.expect("JSON")
    }
}

fn run(dir: &Path) -> Process {
    Process::start("gateway-agent", dir, |command| {
        command.arg("--mcp-servers").arg(dir.join("servers.json"));
        command.arg("--config").arg(dir.join("gateway.yaml"));
        command.arg("--data").arg(dir.join("data")).current_dir(dir);
        command.args(["--listen", "127.0.0.1:0"]);
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
    agents.gateway.kill_9();
    drop(agent);
    agents.gateway = run(agents.dir.path());
    let is_marked = || async { agents.mark().await == Some("unavailable".into()) };
    eventually("the tool is listed and marked", is_marked).await;
    let _agent = agents.agent();
    eventually("the agent is back", || agents.is_available()).await;
    let file = fs::read(agents.dir.path().join("data/agents.json")).expect("the registrations");
    let file: Value = serde_json::from_slice(&file).expect("JSON");
    assert_eq!(file["servers"][0]["version"], "1.0.0", "equal content is registered once");
}

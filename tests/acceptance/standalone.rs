//! `gateway-agent --mcp-servers FILE`: official MCP servers of npm and Python without a registry,
//! and the import into a registry.

mod clients;
mod faulty_servers;
mod import;
mod orchestrator;
mod reload;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use acceptance::{ModernClient, Process, eventually};
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use crate::conformance::{fixture, official};

/// A gateway with a servers file, and its directory.
struct Standalone {
    gateway: Process,
    dir: TempDir,
    /// The position of the last start in the log.
    log_start: usize,
}

impl Standalone {
    /// Starts a gateway with this file.
    fn start(file: &Value, arguments: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        write(dir.path(), file);
        let gateway = run(dir.path(), arguments);
        Self { gateway, dir, log_start: 0 }
    }

    /// Starts it again in the same directory.
    fn restart(&mut self, arguments: &[&str]) {
        self.log_start = self.gateway.stderr().len();
        self.gateway = run(self.dir.path(), arguments);
    }

    fn client(&self) -> ModernClient {
        ModernClient::anonymous(&format!("http://{}/mcp", self.gateway.address()))
    }

    async fn tools(&self) -> BTreeSet<String> {
        self.client().tool_names().await.into_iter().collect()
    }

    /// Whether a tool is listed. A restarted gateway may have no catalog yet.
    async fn has(&self, tool: &str) -> bool {
        let answer = self.client().request("tools/list", json!({})).await.expect("an answer");
        let tools = answer.message["result"]["tools"].as_array();
        tools.is_some_and(|tools| tools.iter().any(|listed| listed["name"] == tool))
    }

    /// The log since the last start.
    fn log(&self) -> String {
        self.gateway.stderr()[self.log_start..].to_owned()
    }

    /// The discovered registry file.
    fn registry_file(&self) -> PathBuf {
        self.dir.path().join("data/registry.json")
    }
}

fn run(dir: &Path, arguments: &[&str]) -> Process {
    Process::start("gateway-agent", dir, |command| {
        command.arg("--mcp-servers").arg(dir.join("servers.json"));
        command.arg("--data").arg(dir.join("data")).current_dir(dir);
        command.args(["--listen", "127.0.0.1:0"]).args(arguments);
    })
}

fn write(dir: &Path, file: &Value) {
    fs::write(dir.join("servers.json"), file.to_string()).expect("the file is written");
}

/// An official server of npm over stdio.
fn npm(name: &str, arguments: &[&str]) -> Value {
    let script = format!("@modelcontextprotocol/server-{name}/dist/index.js");
    let script = official().modules().join(script).display().to_string();
    let args: Vec<_> = [script.as_str()].into_iter().chain(arguments.iter().copied()).collect();
    json!({ "command": official().node_path(), "args": args })
}

/// An official server of Python over stdio.
fn pypi(module: &str) -> Value {
    json!({ "command": official().python_path(), "args": ["-m", module] })
}

/// stdio servers: `think` of npm speaks 2025-11-25; `time` and `git` of Python speak 2026-07-28.
fn over_stdio(dir: &Path) -> Vec<(&'static str, Value)> {
    let dir = dir.display().to_string();
    vec![
        ("files", npm("filesystem", &[&dir])),
        ("memory", npm("memory", &[])),
        ("think", npm("sequential-thinking", &[])),
        ("time", pypi("mcp_server_time")),
        ("git", pypi("mcp_server_git")),
    ]
}

/// The everything-server of npm over HTTP, which speaks 2025-11-25.
fn everything_of_npm(dir: &Path) -> (Process, Value) {
    let script = "@modelcontextprotocol/server-everything/dist/index.js";
    let port = free_port();
    // The server prints its greeting to standard error.
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$@\" 2>&1", "sh"]).arg(official().node_path());
    command.arg(official().modules().join(script)).arg("streamableHttp");
    command.env("PORT", port.to_string());
    let server = Process::run("everything", dir, command).unwrap_or_else(|e| panic!("{e}"));
    (server, json!({ "type": "http", "url": format!("http://127.0.0.1:{port}/mcp") }))
}

/// The everything-server of the Python SDK over HTTP, which speaks both eras.
fn everything_of_pypi(dir: &Path) -> (Process, Value) {
    let mut command: Command = official().python();
    let sources = official().sources().join("examples/servers/everything-server");
    command.arg(fixture("everything.py")).env("PYTHONPATH", sources);
    let server = Process::run("everything-server", dir, command).unwrap_or_else(|e| panic!("{e}"));
    let url = format!("http://{}/mcp", server.address());
    (server, json!({ "url": url }))
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("an address").port()
}

/// The format of Claude Desktop, Claude Code and Cursor.
fn mcp_servers(servers: impl IntoIterator<Item = (&'static str, Value)>) -> Value {
    let servers: Map<_, _> = servers.into_iter().map(|(n, s)| (n.to_owned(), s)).collect();
    json!({ "mcpServers": servers })
}

/// A list of named servers.
fn list(servers: impl IntoIterator<Item = (&'static str, Value)>) -> Value {
    let named = servers.into_iter().map(|(name, mut server)| {
        server["name"] = name.into();
        server
    });
    named.collect()
}

#[tokio::test]
async fn npm_and_pypi_servers_are_served() {
    let dir = tempfile::tempdir().expect("a directory");
    let (_npm, over_http) = everything_of_npm(dir.path());
    let (_pypi, modern) = everything_of_pypi(dir.path());
    let servers = || {
        let all = over_stdio(dir.path());
        all.into_iter().chain([("npm-http", over_http.clone()), ("pypi-http", modern.clone())])
    };
    let forms = [
        mcp_servers(servers()),
        json!({ "servers": mcp_servers(servers())["mcpServers"], "inputs": [] }),
        json!({ "servers": list(servers()) }),
        list(servers()),
    ];
    for form in forms {
        let standalone = Standalone::start(&form, &["--tool-prefix", "always"]);
        eventually("all servers are listed", || async {
            let tools = standalone.tools().await;
            let has = |prefix: &str| tools.iter().any(|tool| tool.starts_with(prefix));
            servers().all(|(server, _)| has(&format!("{server}_")))
        })
        .await;
        let client = standalone.client();
        let file = dir.path().join("note.txt");
        fs::write(&file, "noted").expect("written");
        let read = client.call("files_read_text_file", json!({ "path": file })).await;
        assert!(read.text().contains("noted"), "{read:?}");
        let echoed = client.call("npm-http_echo", json!({ "message": "hello" })).await;
        assert!(echoed.text().contains("hello"), "{echoed:?}");
        let simple = client.call("pypi-http_test_simple_text", json!({})).await;
        assert!(!simple.is_tool_error() && !simple.text().is_empty(), "{simple:?}");
        let now = client.call("time_get_current_time", json!({ "timezone": "UTC" })).await;
        assert!(now.text().contains("UTC"), "{now:?}");
        for (server, era) in [
            ("files", "legacy"),
            ("time", "modern"),
            ("npm-http", "legacy"),
            ("pypi-http", "modern"),
        ] {
            let up = format!("server/{server}@* target.era=\"{era}\"");
            assert!(standalone.log().contains(&up), "{up}: {}", standalone.log());
        }
    }
}

#[tokio::test]
async fn restarted_gateway_serves_discovered_tools() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut server, over_http) = everything_of_npm(dir.path());
    let file = mcp_servers([("files", npm("filesystem", &["/"])), ("http", over_http)]);
    let mut standalone = Standalone::start(&file, &[]);
    eventually("both are listed", || async {
        standalone.has("read_text_file").await && standalone.has("echo").await
    })
    .await;
    let tools = standalone.tools().await;
    server.kill_9();
    standalone.gateway.kill_9();
    standalone.restart(&[]);
    assert!(tools.is_subset(&standalone.tools().await), "{:?}", standalone.tools().await);
    let listed = standalone.client().call("list_allowed_directories", json!({})).await;
    assert!(!listed.is_tool_error(), "{listed:?}");
    let gone = standalone.client().call("echo", json!({ "message": "x" })).await;
    assert!(gone.is_tool_error(), "{gone:?}");
}

#[tokio::test]
async fn killed_child_is_restarted() {
    let standalone =
        Standalone::start(&mcp_servers([("think", npm("sequential-thinking", &[]))]), &[]);
    let thought = json!({ "thought": "t", "nextThoughtNeeded": false, "thoughtNumber": 1, "totalThoughts": 1 });
    let first = standalone.client().call("sequentialthinking", thought.clone()).await;
    assert!(!first.is_tool_error(), "{first:?}");
    let killed = Command::new("pkill")
        .args(["-9", "-f", "--parent"])
        .arg(guards(standalone.gateway.id()))
        .arg("sequential-thinking")
        .status();
    assert!(killed.expect("pkill runs").success());
    eventually("the child is started again", || async {
        let again = standalone.client().call("sequentialthinking", thought.clone()).await;
        !again.is_tool_error()
    })
    .await;
    assert!(standalone.log().contains(" wait_ms="));
}

/// The guard processes of a gateway's children, and the gateway itself.
fn guards(gateway: u32) -> String {
    let found = Command::new("pgrep").args(["--parent", &gateway.to_string()]).output();
    let found = String::from_utf8(found.expect("pgrep runs").stdout).expect("numbers");
    found.lines().map(str::to_owned).chain([gateway.to_string()]).collect::<Vec<_>>().join(",")
}

#[tokio::test]
async fn lazy_server_connects_at_first_call() {
    let mut lazy = npm("sequential-thinking", &[]);
    lazy["autoStart"] = false.into();
    let file = mcp_servers([("think", lazy), ("time", pypi("mcp_server_time"))]);
    let mut standalone = Standalone::start(&file, &[]);
    eventually("its tools are discovered", || standalone.has("sequentialthinking")).await;
    // Its tools are known after the first call.
    standalone.gateway.stop();
    standalone.restart(&[]);
    assert!(standalone.has("sequentialthinking").await);
    eventually("the other server is connected", || async {
        standalone.log().contains("target.server=server/time@* target.era=")
    })
    .await;
    assert!(!standalone.log().contains("server/think@*"), "{}", standalone.log());
    let thought = json!({ "thought": "t", "nextThoughtNeeded": false, "thoughtNumber": 1, "totalThoughts": 1 });
    let answer = standalone.client().call("sequentialthinking", thought).await;
    assert!(!answer.is_tool_error(), "{answer:?}");
    assert!(standalone.log().contains("target.server=server/think@* target.era="));
}

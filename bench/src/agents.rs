//! Data agents: CPU of `agent.execute` and of AIO, in turns with `tools/call` of the same function, and
//! memory of idle agents with a connection.

use std::{fs, path::Path, sync::Arc, time::Duration};

use acceptance::{ModernClient, Process, WebSocket, binary, eventually, mcp::MODERN};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::Mutex;

use crate::{
    load,
    report::{Report, Row},
    turns::ROUNDS,
};

/// Concurrent calls.
const CONNECTIONS: usize = 16;
/// The argument of each call. The function returns it.
const PAYLOAD: &str = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";
/// Calls of AIO in one trace.
const CALLS_OF_TRACE: u64 = 100;
const IDLE_AGENTS: usize = 1_000;
/// The agent whose registration all others copy.
const FIRST: &str = "agent-0";
/// Time for memory to settle.
const SETTLE: Duration = Duration::from_secs(2);

/// Measures calls, then idle agents.
pub(crate) async fn measure(report: &mut Report, seconds: u64) {
    calls(report, seconds).await;
    idle_agents(report).await;
}

#[expect(clippy::cast_precision_loss, reason = "counts of calls fit a double")]
async fn calls(report: &mut Report, seconds: u64) {
    let site = Site::start();
    let agent = tokio::spawn(serve(site.agent(FIRST).await));
    let mut totals = [(0.0, 0); Form::ALL.len()];
    // The first load of each form does not count.
    for round in 0..=ROUNDS {
        for (total, form) in totals.iter_mut().zip(Form::ALL) {
            let (cpu_seconds, count) = site.load((form, round), seconds).await;
            if round > 0 {
                *total = (total.0 + cpu_seconds, total.1 + count);
            }
        }
    }
    agent.abort();
    let [tool, others @ ..] = totals.map(|(seconds, calls)| seconds * 1e6 / calls as f64);
    for (form, cpu) in Form::ALL.into_iter().skip(1).zip(others) {
        report.add(Row {
            path: format!(
                "CPU per {} of a data agent, {} B there and back, {CONNECTIONS} connections",
                form.name(),
                PAYLOAD.len()
            ),
            value: format!("{cpu:.1} µs"),
            baseline: format!("{} {tool:.1} µs", Form::Tool.name()),
            ratio: Some(cpu / tool),
            budget: "≤ 1.1 × tools/call",
        });
    }
}

/// The growth of the gateway by registrations, and by the connections of their agents.
async fn idle_agents(report: &mut Report) {
    let mut site = Site::start();
    drop(site.agent(FIRST).await);
    tokio::time::sleep(SETTLE).await;
    let empty = site.gateway.resident_bytes();
    assert!(site.gateway.stop().success(), "the gateway ends");
    copy_registration(&site.dir.path().join("data/agents.json"));
    site.gateway = run(site.dir.path());
    let client = ModernClient::anonymous(&format!("http://{}/mcp", site.gateway.address()));
    eventually("all functions are listed", || async { client.tools().await.len() > IDLE_AGENTS })
        .await;
    tokio::time::sleep(SETTLE).await;
    let registered = site.gateway.resident_bytes();
    let mut agents = Vec::new();
    for number in 0..IDLE_AGENTS {
        let socket = site.agent(&agent_id(number)).await;
        agents.push(tokio::spawn(serve(socket)));
    }
    tokio::time::sleep(SETTLE).await;
    let connected = site.gateway.resident_bytes();
    assert!(agents.iter().all(|agent| !agent.is_finished()), "a connection has ended");
    report.add_alone(
        format!(
            "gateway memory per idle data agent on a WebSocket of its own, {IDLE_AGENTS} agents"
        ),
        format!(
            "{:.1} KiB of the connection, {:.1} KiB of the registration",
            kibibytes_each(connected, registered),
            kibibytes_each(registered, empty)
        ),
        "",
    );
}

#[expect(clippy::cast_precision_loss, reason = "sizes fit a double")]
fn kibibytes_each(after: u64, before: u64) -> f64 {
    after.saturating_sub(before) as f64 / 1024.0 / IDLE_AGENTS as f64
}

fn agent_id(number: usize) -> String {
    format!("agent-{number}")
}

/// Copies the only registration in a file for each idle agent.
fn copy_registration(file: &Path) {
    let text = fs::read(file).expect("the registrations");
    let mut all: Value = serde_json::from_slice(&text).expect("JSON");
    for section in ["servers", "tools", "agents"] {
        let first = all[section][0].to_string();
        let copy = |number| {
            let text = first.replace(FIRST, &agent_id(number));
            serde_json::from_str::<Value>(&text).expect("JSON")
        };
        all[section] = (0..IDLE_AGENTS).map(copy).collect();
    }
    fs::write(file, all.to_string()).expect("written");
}

/// A form of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// `tools/call` of MCP.
    Tool,
    /// `agent.execute` over HTTP.
    Execute,
    /// `agent.execute` over a WebSocket.
    ExecuteOnSocket,
    /// `agent::tools.call` of AIO.
    Aio,
}

impl Form {
    const ALL: [Self; 4] = [Self::Tool, Self::Execute, Self::ExecuteOnSocket, Self::Aio];

    fn name(self) -> &'static str {
        match self {
            Self::Tool => "tools/call",
            Self::Execute => "agent.execute over HTTP",
            Self::ExecuteOnSocket => "agent.execute over WebSockets",
            Self::Aio => "agent::tools.call of AIO",
        }
    }

    /// The body of a call with a unique number.
    fn body(self, round: usize, number: u64) -> String {
        let input = json!({ "payload": PAYLOAD });
        let (method, params) = match self {
            Self::Tool => {
                let meta = json!({ "io.modelcontextprotocol/protocolVersion": MODERN,
                    "io.modelcontextprotocol/clientCapabilities": {} });
                let name = format!("{FIRST}.echo");
                ("tools/call", json!({ "name": name, "arguments": input, "_meta": meta }))
            }
            Self::Execute | Self::ExecuteOnSocket => {
                let meta = json!({ "task_id": "task_001" });
                let params = json!({ "agent_id": FIRST, "function": "echo", "input": input,
                    "meta": meta });
                ("agent.execute", params)
            }
            Self::Aio => ("agent-0::tools.call", json!({ "tool": "echo", "args": input })),
        };
        let mut body =
            json!({ "jsonrpc": "2.0", "id": number, "method": method, "params": params });
        if self == Self::Aio {
            body["trace_id"] = format!("trace-{round}-{}", number / CALLS_OF_TRACE).into();
        }
        body.to_string()
    }
}

/// A gateway without a registry that accepts registrations.
struct Site {
    gateway: Process,
    dir: TempDir,
}

impl Site {
    fn start() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        // The list of servers must not be empty.
        let backend = binary("demo-backend");
        let time = json!({ "command": backend, "args": ["--stdio", "time-server"] });
        let servers = json!({ "mcpServers": { "time": time } }).to_string();
        fs::write(dir.path().join("servers.json"), servers).expect("written");
        let config = "identity: { trustHeaders: true }\nagents: { selfRegistration: accept }\n";
        fs::write(dir.path().join("gateway.yaml"), config).expect("written");
        Self { gateway: run(dir.path()), dir }
    }

    async fn socket(&self, caller: &str) -> WebSocket {
        let opened = WebSocket::open(&self.gateway.address(), &[("x-agent-name", caller)]).await;
        opened.expect("a WebSocket")
    }

    /// The WebSocket of a registered agent.
    async fn agent(&self, agent_id: &str) -> WebSocket {
        let mut socket = self.socket("owner").await;
        let payload = json!({ "payload": "string" });
        let schema = json!({ "echo": { "input": payload, "output": payload } });
        let params = json!({ "agent_id": agent_id, "tools": ["echo"], "schema": schema,
            "heartbeat_interval": 3600 });
        let register = json!({ "id": 1, "method": "server.register", "params": params });
        let answer = socket.asked(&register).await;
        assert!(answer["result"]["version"].is_string(), "{answer}");
        socket
    }

    /// The CPU time of the gateway in seconds, and the number of calls.
    async fn load(&self, (form, round): (Form, usize), seconds: u64) -> (f64, u64) {
        let mut callers = Vec::new();
        for _ in 0..CONNECTIONS {
            callers.push(Caller { form, round, link: self.link(form).await });
        }
        let before = self.gateway.cpu_seconds();
        let calls = |caller: Caller, number| async move { caller.call(number).await };
        let load = load::run(callers, seconds, calls).await;
        let cpu_seconds = self.gateway.cpu_seconds() - before;
        println!("  {}: {}", form.name(), load.text());
        (cpu_seconds, load.count)
    }

    async fn link(&self, form: Form) -> Link {
        if form == Form::ExecuteOnSocket {
            return Link::Socket(Arc::new(Mutex::new(self.socket("caller").await)));
        }
        let http = reqwest::Client::builder().no_proxy().pool_max_idle_per_host(1).build();
        let path = if form == Form::Tool { "mcp" } else { "rpc" };
        let url = format!("http://{}/{path}", self.gateway.address());
        Link::Http { http: http.expect("a client"), url }
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

/// Answers the calls of an agent until its connection ends.
async fn serve(mut socket: WebSocket) {
    while let Some(text) = socket.text().await {
        let request: Value = serde_json::from_str(&text).expect("JSON");
        let (id, input) = (&request["id"], &request["params"]["input"]);
        let answer = json!({ "jsonrpc": "2.0", "id": id, "result": input });
        if !socket.send(answer.to_string()).await {
            return;
        }
    }
}

/// A caller with its own connection.
#[derive(Debug, Clone)]
struct Caller {
    form: Form,
    round: usize,
    link: Link,
}

#[derive(Debug, Clone)]
enum Link {
    Http { http: reqwest::Client, url: String },
    Socket(Arc<Mutex<WebSocket>>),
}

impl Caller {
    async fn call(&self, number: u64) {
        let body = self.form.body(self.round, number);
        let text = match &self.link {
            Link::Http { http, url } => {
                let mut request = http
                    .post(url)
                    .header("accept", "application/json, text/event-stream")
                    .header("content-type", "application/json")
                    .header("x-agent-name", "caller");
                if self.form == Form::Tool {
                    request = request
                        .header("mcp-protocol-version", MODERN)
                        .header("mcp-method", "tools/call")
                        .header("mcp-name", format!("{FIRST}.echo"));
                }
                let answer = request.body(body).send().await.expect("an answer");
                answer.text().await.expect("a body")
            }
            Link::Socket(socket) => {
                let mut socket = socket.lock().await;
                assert!(socket.send(body).await, "the connection has ended");
                socket.text().await.expect("an answer")
            }
        };
        assert!(text.contains(PAYLOAD), "{text}");
    }
}

//! Inspected values appear in no log, metric, trace, database or file: the labelled texts of the crate
//! `inspection`, as arguments, results and errors.

use std::{fs, path::Path, sync::Arc};

use acceptance::{Gateway, GatewayOptions, ModernClient, Registry, mcp::LEGACY, root};
use futures_util::{StreamExt as _, stream};
use gateway_testkit::{McpServer, Received, Reply, Server, raw_reply};
use serde_json::{Value, json};

use super::applied;
use crate::scripted_server::{ScriptedServer, json_answer};

/// The upstream tools, which are named after their behavior.
const TOOLS: [&str; 4] = ["send", "echo", "count", "fail"];
/// The tool of another server, whose answers are no messages.
const BROKEN: &str = "break";
/// The skills of an agent, which are named after their behavior.
const SKILLS: [&str; 3] = ["send", "echo", "fail"];
const CLASSES: [&str; 5] = ["credential", "financial", "governmentId", "contact", "network"];
/// Maximum number of texts in flight.
const AT_ONCE: usize = 8;
/// Detectors find a longer key in any context.
const KEY_BYTES: usize = 20;

/// A text with values.
struct Labelled {
    line: usize,
    text: String,
    /// The longest line of each value.
    values: Vec<String>,
    /// Whether detectors find all values without their context.
    is_key: bool,
}

impl Labelled {
    fn parse(line: usize, marked: &str) -> Self {
        let marked = marked.replace('¦', "").replace('↵', "\n");
        let mut parts = marked.split('«');
        let mut text = parts.next().unwrap_or_default().to_owned();
        let (mut values, mut is_key) = (Vec::new(), !text.starts_with(['{', '[']));
        for part in parts {
            let (mark, after) = part.split_once('»').expect("the end of a mark");
            let (class, value) = mark.split_once('|').expect("a class and a value");
            let lines = value.split('\n').flat_map(|line| line.split("\\n"));
            values.push(lines.max_by_key(|line| line.len()).unwrap_or_default().to_owned());
            is_key &= class == "credential" && value.len() >= KEY_BYTES;
            text = text + value + after;
        }
        Self { line, text, values, is_key }
    }
}

fn corpus() -> Vec<Labelled> {
    let path = root().join("crates/inspection/tests/corpus.txt");
    let corpus = fs::read_to_string(path).expect("the corpus");
    let lines = corpus.lines().enumerate();
    let labelled = lines.filter(|(_, line)| line.contains('«') && !line.starts_with("# "));
    labelled.map(|(index, line)| Labelled::parse(index + 1, line)).collect()
}

/// Whether a text has a value. Digits in a longer number are no value.
fn mentions(text: &str, value: &str) -> bool {
    let is_number = value.bytes().all(|byte| byte.is_ascii_digit());
    let is_whole = |start: usize| {
        let (before, after) = (&text[..start], &text[start + value.len()..]);
        let is_digit = |c: char| c.is_ascii_hexdigit() || c == '.';
        !before.ends_with(is_digit) && !after.starts_with(is_digit)
    };
    text.match_indices(value).any(|(start, _)| !is_number || is_whole(start))
}

/// The paths and contents of all files in a directory.
fn read_files(dir: &Path, found: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            read_files(&path, found);
        } else if let Ok(content) = fs::read(&path) {
            let content = String::from_utf8_lossy(&content).into_owned();
            found.push((path.display().to_string(), content));
        }
    }
}

async fn upstream() -> Server {
    let answer = |received: &Received| -> Reply {
        if received.rpc_method() != "tools/call" {
            return received.unknown_method();
        }
        let (name, arguments) =
            (&received.body["params"]["name"], &received.body["params"]["arguments"]);
        if name == BROKEN {
            return raw_reply(200, "application/json", received.text.as_bytes());
        }
        if name == "fail" {
            let error = json!({ "code": -32050, "message": arguments["text"], "data": arguments });
            return received.error(200, &error);
        }
        let text = json!({ "type": "text", "text": arguments["text"] });
        received.result(&json!({ "resultType": "complete", "content": [text],
            "structuredContent": arguments }))
    };
    McpServer::modern().with_tool_names(&TOOLS).start(answer).await
}

/// An agent that splits the text of its answers.
async fn agent() -> Server {
    Server::start(|received: &Received| -> Reply {
        let message = &received.body["params"]["message"];
        let text = message["parts"][0]["text"].as_str().unwrap_or_default();
        match (received.rpc_method(), message["metadata"]["skillId"].as_str()) {
            ("SendMessage", Some("fail")) => {
                received.error(200, &json!({ "code": -32602, "message": text }))
            }
            ("SendMessage", _) => {
                let (start, end) = text.split_at(text.floor_char_boundary(text.len() / 2));
                let parts = json!([{ "text": start }, { "text": end }, message["parts"][1]]);
                let status = json!({ "state": "TASK_STATE_COMPLETED" });
                let artifact = json!({ "artifactId": "artifact-1", "parts": parts });
                received.result(&json!({ "task": { "id": "task-1", "contextId": "context-1",
                    "status": status, "artifacts": [artifact] } }))
            }
            ("GetTask", _) => {
                received.error(200, &json!({ "code": -32001, "message": "no such task" }))
            }
            _ => received.unknown_method(),
        }
    })
    .await
}

/// Two servers with their tools, an agent, and policies that apply each action.
fn registered() -> Value {
    let count = json!({ "type": "object", "properties": { "count": { "type": "integer" } } });
    let tool = |server: &str, name: &str| {
        json!({ "name": name, "version": "1.0.0", "inputSchema": count,
            "source": { "server": server, "serverVersion": "1.0.0", "tool": name } })
    };
    let server = |name: &str, tools: &[&str]| {
        let provides = |tool: &&str| json!({ "tool": tool, "version": "1.0.0" });
        let provides: Vec<_> = tools.iter().map(provides).collect();
        json!({ "name": name, "version": "1.0.0", "provides": provides })
    };
    let of_all = |action: &str| -> Value {
        CLASSES.iter().map(|class| ((*class).to_owned(), json!(action))).collect()
    };
    let results = json!({ "credential": "redact", "financial": "tokenize", "governmentId": "block",
        "contact": "tokenize", "network": "redact" });
    let budget = json!({ "name": "b", "per": "fleet", "limit": "1000", "window": "total" });
    let skill = |id: &str| json!({ "id": id, "name": id, "description": id, "tags": ["test"] });
    let helper = json!({ "name": "helper", "version": "1.0.0", "description": "An agent",
        "url": "https://registered.example/", "protocolVersion": "1.0",
        "defaultInputModes": ["text/plain", "application/json"],
        "defaultOutputModes": ["text/plain", "application/json"],
        "capabilities": {}, "skills": SKILLS.map(skill) });
    let mut tools: Vec<_> = TOOLS.iter().map(|name| tool("vault", name)).collect();
    tools.push(tool("broken", BROKEN));
    json!({
        "schemaVersion": "2.0", "tools": tools, "agents": [helper],
        "servers": [server("vault", &TOOLS), server("broken", &[BROKEN])],
        "policies": [
            { "name": "blocks", "version": "1.0.0",
                "appliesTo": { "tools": ["send"], "skills": ["helper/send"] },
                "inspection": { "arguments": of_all("block") } },
            { "name": "hides", "version": "1.0.0",
                "appliesTo": { "tools": ["echo", "count", "fail", BROKEN],
                    "skills": ["helper/echo", "helper/fail"] },
                "inspection": { "arguments": of_all("log"), "results": results } },
            { "name": "costs", "version": "1.0.0", "price": { "perCall": "0.000001" },
                "budgets": [budget] },
        ],
    })
}

/// Clients of one gateway: stateless, with a session, without headers of MCP, and of the agent.
struct Clients {
    modern: ModernClient,
    http: reqwest::Client,
    url: String,
    agent: String,
    session: String,
}

impl Clients {
    async fn open(gateway: &Gateway) -> Self {
        let (url, agent) = (gateway.mcp_url(), format!("{}/a2a/helper", gateway.url()));
        let (modern, http) = (ModernClient::anonymous(&url), reqwest::Client::new());
        let mut clients = Self { modern, http, url, agent, session: String::new() };
        let about = json!({ "name": "test", "version": "1" });
        let params = json!({ "protocolVersion": LEGACY, "capabilities": {}, "clientInfo": about });
        let accept = [("accept", "application/json, text/event-stream")];
        let opened = clients.post(&accept, ("initialize", "initialize", params)).await;
        let session = opened.headers()["mcp-session-id"].to_str().expect("text");
        session.clone_into(&mut clients.session);
        clients
    }

    async fn post(
        &self,
        headers: &[(&str, &str)],
        (id, method, params): (&str, &str, Value),
    ) -> reqwest::Response {
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        let request = self.http.post(&self.url).header("content-type", "application/json");
        let request =
            headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        request.body(message.to_string()).send().await.expect("an answer")
    }

    async fn in_session(&self, line: usize, tool: &str, arguments: &Value) {
        let headers = [
            ("accept", "application/json, text/event-stream"),
            ("mcp-session-id", self.session.as_str()),
            ("mcp-protocol-version", LEGACY),
        ];
        let params = json!({ "name": tool, "arguments": arguments });
        let id = format!("{tool}-{line}");
        let answer = self.post(&headers, (&id, "tools/call", params)).await;
        assert_eq!(answer.status(), 200, "line {line}");
        answer.bytes().await.expect("the end of the answer");
    }

    async fn plain(&self, tool: &str, arguments: &Value) {
        let params = json!({ "name": tool, "arguments": arguments });
        let answer = self.post(&[], ("1", "tools/call", params)).await;
        answer.bytes().await.expect("the end of the answer");
    }

    async fn to_agent(&self, method: &str, params: &Value) {
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let request = self.http.post(&self.agent).header("content-type", "application/json");
        let request = request.header("a2a-version", "1.0").body(message.to_string());
        let answer = request.send().await.expect("an answer");
        answer.bytes().await.expect("the end of the answer");
    }

    /// Sends a text as argument, result and error.
    async fn send(&self, labelled: &Labelled) {
        let Labelled { line, text, is_key, .. } = labelled;
        let document: Value = serde_json::from_str(text).unwrap_or_default();
        let arguments = json!({ "text": text, "document": document });
        for tool in ["send", "echo"] {
            self.modern.call(tool, arguments.clone()).await;
            self.in_session(*line, tool, &arguments).await;
            self.plain(tool, &arguments).await;
        }
        self.modern.call("fail", arguments.clone()).await;
        self.modern.call("count", json!({ "count": text })).await;
        self.plain(BROKEN, &arguments).await;
        for skill in SKILLS {
            let parts = json!([{ "text": text }, { "data": arguments }]);
            let sent = json!({ "messageId": "message-1", "role": "ROLE_USER", "parts": parts,
                "metadata": { "skillId": skill } });
            self.to_agent("SendMessage", &json!({ "message": sent })).await;
        }
        self.to_agent("GetTask", &json!({ "id": text, "metadata": { "z": text } })).await;
        if *is_key {
            self.plain(text, &json!({})).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn values_of_the_corpus_appear_nowhere_else() {
    let collector = ScriptedServer::start(Arc::new(|_, _| Some(json_answer(&json!({}))))).await;
    let (upstream, agent) = (upstream().await, agent().await);
    let registry = Registry::start();
    applied(&registry, &registered());
    let (url, otlp) = (upstream.url(), collector.url.trim_end_matches("/mcp"));
    let options = GatewayOptions {
        source: format!("grpc://{}", registry.address),
        targets: format!(
            "targets:\n  - {{ server: vault, version: \"*\", http: \"{url}\" }}\n  \
             - {{ server: broken, version: \"*\", http: \"{url}\" }}\n  \
             - {{ agent: helper, version: 1.0.0, http: \"http://{}/\" }}\n",
            agent.address()
        ),
        runtime: Some("{ inputValidation: deny }".to_owned()),
        more: format!("admin: 127.0.0.1:0\ntracing: {{ otlp: {{ endpoint: \"{otlp}\" }} }}\n"),
    };
    let mut gateway = Gateway::start_with(&options, &["--log", "debug"]);
    gateway.ready().await;
    gateway.upstreams_up(1).await;
    let (clients, corpus) = (Clients::open(&gateway).await, corpus());
    stream::iter(&corpus).for_each_concurrent(AT_ONCE, |text| clients.send(text)).await;

    assert!(!agent.seen("SendMessage").is_empty());
    let metrics = gateway.metrics().await;
    for class in CLASSES {
        let labels = ["gateway_inspection_findings_total{", class];
        let is_counted = |line: &str| labels.iter().all(|label| line.contains(label));
        assert!(metrics.lines().any(is_counted), "{class}");
    }
    let budgets = format!("{}/admin/budgets", gateway.admin_url());
    let budgets = reqwest::get(budgets).await.expect("an answer").text().await.expect("text");
    let mut places = vec![
        ("metrics".to_owned(), metrics),
        ("targets".to_owned(), gateway.targets().await),
        ("budgets".to_owned(), budgets),
    ];
    // The last reports and spans precede the exit.
    gateway.process.stop();
    let usage = registry.json(&["usage", "--by", "agent,tool,verdict", "--since", "1h"]);
    assert!(usage.as_array().is_some_and(|rows| !rows.is_empty()), "{usage}");
    assert!(collector.seen().contains("resourceSpans"));
    assert!(!gateway.process.logged(&[" audit: ", "results.credential:redact="]).is_empty());
    places
        .extend([("usage".to_owned(), usage.to_string()), ("traces".to_owned(), collector.seen())]);
    places.push(("registry".to_owned(), registry.process.stderr()));
    let database = Path::new(registry.database().trim_start_matches("sqlite:"));
    for file in [gateway.config().as_path(), database] {
        read_files(file.parent().expect("a directory"), &mut places);
    }
    let spend = places.iter().find(|(name, _)| name.contains(".spend"));
    assert!(spend.is_some(), "the gateway keeps crash marks");
    let mut leaks = Vec::new();
    for Labelled { line, values, .. } in &corpus {
        let leaked = |text: &str| values.iter().any(|value| mentions(text, value));
        let leaked = places.iter().filter(|(_, text)| leaked(text));
        leaks.extend(leaked.map(|(name, _)| format!("line {line} in {name}")));
    }
    assert!(leaks.is_empty(), "{leaks:#?}");
}

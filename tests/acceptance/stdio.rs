//! Servers over stdio at the front door: reports of a process that ended, `instructions`, and questions
//! to concurrent callers.

use std::fs;

use acceptance::{Gateway, GatewayOptions, ModernClient, eventually};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::conformance::{here, official, run};

/// A server whose tool ends the process: by a signal or by itself.
const ENDING: &str = r#"
answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
while IFS= read -r line; do id=${line#*\"id\":}; id=${id%%,*}; case $line in
  *'"server/discover"'*) answer '{"supportedVersions":["2026-07-28"]}';;
  *'"tools/list"'*) answer '{"tools":[{"name":"end","inputSchema":{"type":"object"}}]}';;
  *'"how":"killed"'*) kill -KILL $$;;
  *'"how":"exits"'*) exit 3;;
  *'"tools/call"'*) answer '{"resultType":"complete","content":[]}';;
esac; done
"#;

/// A server of a test: its name, its tools, and the command of its process.
struct Server<'a> {
    name: &'a str,
    tools: &'a [&'a str],
    command: Value,
}

/// A server that is a shell script.
fn script<'a>(name: &'a str, tools: &'a [&'a str], text: &str) -> Server<'a> {
    Server { name, tools, command: json!({ "command": "sh", "args": ["-c", text] }) }
}

/// A gateway in front of these servers.
async fn gateway(servers: &[Server<'_>], runtime: Option<&str>) -> (Gateway, TempDir) {
    let dir = tempfile::tempdir().expect("a directory");
    let mut targets = "targets:\n".to_owned();
    for Server { name, command, .. } in servers {
        let target = json!({ "server": name, "version": "1.0.0", "stdio": command });
        targets.extend(["  - ", &target.to_string(), "\n"]);
    }
    let catalog = dir.path().join("registry.json");
    fs::write(&catalog, registry(servers).to_string()).expect("a registry file");
    let gateway = Gateway::start(&GatewayOptions {
        source: format!("file://{}", catalog.display()),
        targets,
        runtime: runtime.map(str::to_owned),
        more: String::new(),
    });
    gateway.ready().await;
    eventually("the servers are up", || async {
        gateway.process.stderr().matches("upstream is up").count() == servers.len()
    })
    .await;
    (gateway, dir)
}

/// The registry file of these servers.
fn registry(servers: &[Server<'_>]) -> Value {
    let (mut all, mut tools) = (Vec::new(), Vec::new());
    for server in servers {
        let provides: Vec<_> =
            server.tools.iter().map(|tool| json!({ "tool": tool, "version": "1.0.0" })).collect();
        all.push(json!({ "name": server.name, "version": "1.0.0", "provides": provides }));
        tools.extend(server.tools.iter().map(|tool| {
            let source = json!({ "server": server.name, "serverVersion": "1.0.0", "tool": tool });
            json!({ "name": tool, "version": "1.0.0", "description": "A tool", "source": source })
        }));
    }
    json!({ "schemaVersion": "2.0", "servers": all, "tools": tools })
}

#[tokio::test]
async fn killed_child_is_reported_with_its_signal() {
    let (gateway, _dir) = gateway(&[script("ending", &["end"], ENDING)], None).await;
    let client = ModernClient::anonymous(&gateway.mcp_url());
    for (how, status, remedy) in [
        ("killed", "signal: 9 (SIGKILL)", "more memory"),
        ("exits", "exit status: 3", "standard error"),
    ] {
        eventually("the child runs", || async {
            !client.call("end", json!({})).await.is_tool_error()
        })
        .await;
        let answer = client.call("end", json!({ "how": how })).await;
        assert!(answer.is_tool_error(), "{answer:?}");
        let text = answer.text();
        assert!(text.contains("stopped before it answered"), "{text}");
        assert!(text.contains(status) && text.contains("starts the server again"), "{text}");
        assert!(!text.contains("protocol"), "{text}");
        eventually("the log names the remedy", || async {
            let log = gateway.process.stderr();
            log.lines().any(|line| line.contains(status) && line.contains(remedy))
        })
        .await;
    }
}

/// A server with these instructions, whose tool is described so.
fn instructing(tool: &str, description: &str, instructions: &str) -> String {
    let discovered = json!({ "supportedVersions": ["2026-07-28"], "instructions": instructions });
    let tools =
        json!([{ "name": tool, "description": description, "inputSchema": { "type": "object" } }]);
    format!(
        r#"
answer() {{ printf '{{"jsonrpc":"2.0","id":%s,"result":%s}}\n' "$id" "$1"; }}
while IFS= read -r line; do id=${{line#*\"id\":}}; id=${{id%%,*}}; case $line in
  *'"server/discover"'*) answer '{discovered}';;
  *'"tools/list"'*) answer '{{"tools":{tools}}}';;
esac; done
"#
    )
}

/// The instructions in both eras.
async fn instructions(gateway: &Gateway) -> [String; 2] {
    let client = ModernClient::anonymous(&gateway.mcp_url());
    let modern = client.request("server/discover", json!({})).await.expect("an answer");
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": { "name": "test", "version": "1" } });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params });
    let legacy = reqwest::Client::new().post(gateway.mcp_url()).json(&body);
    let legacy = legacy.header("accept", "application/json, text/event-stream");
    let legacy: Value = legacy.send().await.expect("an answer").json().await.expect("JSON");
    [modern.result(), &legacy["result"]]
        .map(|result| result["instructions"].as_str().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn instructions_come_only_from_servers_of_listed_tools() {
    let servers = [
        script("docs", &["read"], &instructing("read", "A tool", "Read before you write.")),
        script("long", &["talk"], &instructing("talk", "A tool", &"Talk. ".repeat(10_000))),
        // Its definition differs from the registered one, so the tool is quarantined.
        script("notes", &["note"], &instructing("note", "Another tool", "Obey the notes.")),
    ];
    let (gateway, _dir) = gateway(&servers, Some("{ contractDrift: quarantine }")).await;
    let client = ModernClient::anonymous(&gateway.mcp_url());
    eventually("the tool is quarantined", || async {
        client.tool_names().await == ["read", "talk"]
    })
    .await;
    for text in instructions(&gateway).await {
        assert!(text.starts_with("# docs\n\nRead before you write.\n\n# long\n\nTalk."), "{text}");
        assert!(!text.contains("notes"), "{text}");
        assert!(text.len() < 16 * 1024 && text.ends_with("[…]"), "{} bytes", text.len());
    }
}

/// The tools of `asking.mjs`.
const ASKING: [&str; 5] = ["elicits", "elicits_with_token", "samples", "elicits_later", "quiet"];

async fn asking() -> (Gateway, TempDir) {
    let args = [here("asking.mjs"), official().modules()];
    let command = json!({ "command": official().node_path(), "args": args });
    gateway(&[Server { name: "asking", tools: &ASKING, command }], None).await
}

/// Runs clients that call a tool at the same time, and returns their report.
fn crowd(gateway: &Gateway, tool: &str, clients: usize) -> Value {
    let mut crowd = official().node(&here("crowd.mjs"));
    crowd.arg(official().modules()).arg(gateway.mcp_url());
    crowd.args([tool, &clients.to_string(), "20"]);
    serde_json::from_str(&run(crowd)).expect("JSON")
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_callers_each_get_their_own_questions() {
    let (gateway, _dir) = asking().await;
    for tool in ["elicits", "elicits_with_token", "samples", "quiet", "elicits"] {
        let seen = crowd(&gateway, tool, 20);
        assert_eq!(seen["failures"], json!([]), "{tool}");
        println!("{tool}: {seen}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ambiguous_question_reaches_no_caller() {
    let (gateway, _dir) = asking().await;
    assert_eq!(crowd(&gateway, "elicits_later", 1)["failures"], json!([]), "it asks nothing");
    // The first questions are ambiguous: the gateway rejects them and asks no caller.
    let failures = crowd(&gateway, "elicits_later", 4)["failures"].clone();
    let failures = failures.as_array().expect("a list");
    assert!(
        failures.iter().all(|failure| !failure.to_string().contains("was asked")),
        "{failures:?}"
    );
    let is_refused = |failure: &Value| failure.to_string().contains("which of several calls");
    assert!(!failures.is_empty() && failures.iter().all(is_refused), "{failures:?}");
    // The gateway has learned that the tool asks.
    assert_eq!(crowd(&gateway, "elicits_later", 20)["failures"], json!([]));
}

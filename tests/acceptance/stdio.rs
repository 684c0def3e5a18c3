//! Servers over stdio at the front door: what a caller reads when the process ends, and what it is told
//! about the servers behind its tools.

use std::{fs, path::Path};

use acceptance::{Gateway, GatewayOptions, ModernClient, eventually};
use serde_json::{Value, json};
use tempfile::TempDir;

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

/// A gateway in front of shell scripts: name, tool, script.
async fn gateway(servers: &[(&str, &str, String)], runtime: Option<&str>) -> (Gateway, TempDir) {
    let dir = tempfile::tempdir().expect("a directory");
    let mut targets = "targets:\n".to_owned();
    for (name, _, script) in servers {
        fs::write(dir.path().join(name), script).expect("a script");
        let cwd = dir.path().display();
        let child = format!("{{ command: sh, args: [{name}], cwd: \"{cwd}\" }}");
        targets += &format!("  - {{ server: {name}, version: 1.0.0, stdio: {child} }}\n");
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

/// A registry file in which each server provides one tool.
fn registry(servers: &[(&str, &str, String)]) -> Value {
    let server = |(name, tool, _): &(&str, &str, String)| {
        let provides = [json!({ "tool": tool, "version": "1.0.0" })];
        json!({ "name": name, "version": "1.0.0", "provides": provides })
    };
    let tool = |(server, tool, _): &(&str, &str, String)| {
        let source = json!({ "server": server, "serverVersion": "1.0.0", "tool": tool });
        json!({ "name": tool, "version": "1.0.0", "description": "A tool", "source": source })
    };
    let (servers, tools): (Vec<_>, Vec<_>) =
        servers.iter().map(|entry| (server(entry), tool(entry))).unzip();
    json!({ "schemaVersion": "2.0", "servers": servers, "tools": tools })
}

#[tokio::test]
async fn killed_child_is_reported_with_its_signal() {
    let (gateway, _dir) = gateway(&[("ending", "end", ENDING.to_owned())], None).await;
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
        ("docs", "read", instructing("read", "A tool", "Read before you write.")),
        ("long", "talk", instructing("talk", "A tool", &"Talk. ".repeat(10_000))),
        // Its definition differs from the registered one, so the tool is quarantined.
        ("notes", "note", instructing("note", "Another tool", "Obey the notes.")),
    ];
    let (gateway, _dir) = gateway(&servers, Some("{ contractDrift: quarantine }")).await;
    let client = ModernClient::anonymous(&gateway.mcp_url());
    assert_eq!(client.tool_names().await, ["read", "talk"]);
    for text in instructions(&gateway).await {
        assert!(text.starts_with("# docs\n\nRead before you write.\n\n# long\n\nTalk."), "{text}");
        assert!(!text.contains("notes"), "{text}");
        assert!(text.len() < 16 * 1024 && text.ends_with("[…]"), "{} bytes", text.len());
    }
}

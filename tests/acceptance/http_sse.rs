//! Servers that speak only the HTTP+SSE transport of 2024-11-05, which is not supported.

use std::process::Command;

use acceptance::{Gateway, GatewayOptions, ModernClient, Process, ctl, eventually};
use serde_json::json;
use tempfile::TempDir;

use crate::conformance::{fixture, official};

const NAME: &str = "uses HTTP+SSE (2024-11-05), which is not supported";

/// A server of the first TypeScript SDK, and its URL.
fn server(dir: &TempDir) -> (Process, String) {
    let mut command = Command::new(official().node_path());
    command.arg(fixture("http-sse.mjs")).arg(official().modules());
    let server = Process::run("http-sse", dir.path(), command).unwrap_or_else(|e| panic!("{e}"));
    let url = format!("http://{}/sse", server.address());
    (server, url)
}

#[tokio::test]
async fn gateway_rejects_http_sse_by_name() {
    let dir = tempfile::tempdir().expect("a directory");
    let (_server, url) = server(&dir);
    let registry = json!({ "schemaVersion": "2.0",
        "servers": [{ "name": "old", "version": "1.0.0", "description": "Old",
            "provides": [{ "tool": "look", "version": "1.0.0" }] }],
        "tools": [{ "name": "look", "version": "1.0.0", "description": "Looks",
            "source": { "server": "old", "serverVersion": "1.0.0", "tool": "look" },
            "inputSchema": { "type": "object" } }] });
    let path = dir.path().join("registry.json");
    std::fs::write(&path, registry.to_string()).expect("written");
    let gateway = Gateway::start(&GatewayOptions {
        source: format!("file://{}", path.display()),
        targets: format!("targets:\n  - {{ server: old, version: 1.0.0, http: \"{url}\" }}\n"),
        runtime: None,
        more: String::new(),
    });
    gateway.ready().await;
    eventually("the log names it", || async { gateway.process.stderr().contains(NAME) }).await;
    let answer = ModernClient::anonymous(&gateway.mcp_url()).call("look", json!({})).await;
    assert!(answer.is_tool_error(), "{answer:?}");
    assert!(answer.text().contains("uses HTTP+SSE (2024-11-05)"), "{answer:?}");
}

#[test]
fn import_rejects_http_sse_by_name() {
    let dir = tempfile::tempdir().expect("a directory");
    let (_server, url) = server(&dir);
    let imported = ctl("http://127.0.0.1:9", &["import", "mcp", &url]);
    assert!(!imported.success() && imported.stderr.contains(NAME), "{imported:?}");
}

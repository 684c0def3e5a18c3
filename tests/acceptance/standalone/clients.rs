//! Official clients of a gateway without a registry: over stdio with an embedded gateway, and over
//! `mcp-remote`.

use std::{fs, process::Command};

use acceptance::binary;
use serde_json::json;
use tempfile::TempDir;

use super::{Standalone, mcp_servers, npm, pypi};
use crate::conformance::{Remote, fixture, official, run};

/// The command of a bridge with an embedded gateway for these servers, and its directory.
fn bridge() -> (String, TempDir) {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("servers.json");
    let servers = [("time", pypi("mcp_server_time")), ("think", npm("sequential-thinking", &[]))];
    fs::write(&file, mcp_servers(servers).to_string()).expect("written");
    let program = binary("gateway-agent");
    (json!([program, "stdio", "--mcp-servers", file]).to_string(), dir)
}

/// Starts a client in `/`, which is not writable, with its own state directory.
fn called(mut client: Command, dir: &TempDir) -> String {
    client.current_dir("/").env("XDG_STATE_HOME", dir.path().join("state"));
    run(client)
}

#[test]
fn npm_and_python_clients_call_over_bridge() {
    let (command, dir) = bridge();
    let arguments = json!({ "timezone": "UTC" }).to_string();
    for sdk in ["first", "legacy", "modern"] {
        let mut client = official().node(&fixture("call.mjs"));
        client.arg(official().modules());
        client.args([sdk, &command, "get_current_time", &arguments]);
        let text = called(client, &dir);
        assert!(text.contains("UTC"), "{sdk}: {text}");
    }
    for era in ["legacy", "modern"] {
        let mut client = official().python();
        client.arg(fixture("call.py")).args([era, &command, "get_current_time", &arguments]);
        let text = called(client, &dir);
        assert!(text.contains("UTC"), "{era}: {text}");
    }
    let state: Vec<_> =
        fs::read_dir(dir.path().join("state/gateway-agent")).expect("kept").collect();
    assert_eq!(state.len(), 1, "one directory for the file");
}

#[test]
fn mcp_remote_calls_tools_of_standalone_gateway() {
    let standalone = Standalone::start(&mcp_servers([("time", pypi("mcp_server_time"))]), &[]);
    let url = format!("http://{}/mcp", standalone.gateway.address());
    for package in ["mcp-remote", "mcp-remote-0.1"] {
        let mut remote = Remote::start(package, &url);
        remote.open();
        let params = json!({ "name": "get_current_time", "arguments": { "timezone": "UTC" } });
        let called = remote.result("tools/call", &params);
        assert!(called["content"][0]["text"].to_string().contains("UTC"), "{package}: {called}");
    }
}

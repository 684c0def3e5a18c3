//! npm's `mcp-remote`, the bridge of stdio clients, in front of the gateway: the newest release
//! adds `Mcp-Method` to requests of its session, release 0.1.38 does not.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdin, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::Duration,
};

use acceptance::mcp::LEGACY;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::everything::{Everything, official};

/// Time limit of a response.
const ANSWER: Duration = Duration::from_secs(30);

/// A running `mcp-remote`; killed when dropped.
pub(crate) struct Remote {
    child: Child,
    input: ChildStdin,
    lines: Receiver<Value>,
    _config: TempDir,
}

impl Remote {
    /// Starts the release in this directory of `node_modules`.
    pub(crate) fn start(package: &str, url: &str) -> Self {
        let config = tempfile::tempdir().expect("a directory");
        let mut command =
            official().node(&official().modules().join(package).join("dist/proxy.js"));
        command.args([url, "--transport", "http-only", "--allow-http"]);
        command.env("MCP_REMOTE_CONFIG_DIR", config.path());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("mcp-remote starts");
        let input = child.stdin.take().expect("standard input is piped");
        let output = child.stdout.take().expect("standard output is piped");
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let message = serde_json::from_str(&line);
                let _ = sender.send(message.unwrap_or_else(|e| panic!("{e}: {line}")));
            }
        });
        Self { child, input, lines, _config: config }
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.input, "{message}").expect("mcp-remote reads");
    }

    pub(crate) fn open(&mut self) {
        let about = json!({ "name": "test", "version": "1.0.0" });
        let params = json!({ "protocolVersion": LEGACY, "capabilities": {}, "clientInfo": about });
        let opened = self.result("initialize", &params);
        assert_eq!(opened["protocolVersion"], LEGACY, "{opened}");
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    }

    /// Sends a request and returns its result.
    pub(crate) fn result(&mut self, method: &str, params: &Value) -> Value {
        self.send(&json!({ "jsonrpc": "2.0", "id": method, "method": method, "params": params }));
        loop {
            let message = self.lines.recv_timeout(ANSWER);
            let message = message.unwrap_or_else(|e| panic!("no answer to {method}: {e}"));
            if message["id"] == method {
                assert!(message["result"].is_object(), "{method}: {message}");
                return message["result"].clone();
            }
        }
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn mcp_remote_calls_tools_in_both_releases() {
    let everything = Everything::start().await;
    for package in ["mcp-remote", "mcp-remote-0.1"] {
        let mut remote = Remote::start(package, &everything.gateway.mcp_url());
        remote.open();
        let listed = remote.result("tools/list", &json!({}));
        let listed = listed["tools"].as_array().expect("tools");
        assert!(listed.iter().any(|tool| tool["name"] == "test_simple_text"), "{package}");
        let params = json!({ "name": "test_simple_text", "arguments": {} });
        let called = remote.result("tools/call", &params);
        let text = &called["content"][0]["text"];
        assert_eq!(text, "This is a simple text response for testing.", "{package}");
    }
}

//! The everything-server of the official Python SDK, and a gateway in front of it.
//!
//! Deliberately absent: a registry server; a file with what `registryctl` imports is enough.

use std::path::{Path, PathBuf};

use acceptance::{Gateway, GatewayOptions, Official, Process, ctl, root};
use serde_json::{Value, json};
use tempfile::TempDir;

/// What is installed for all tests of this module.
pub(super) fn official() -> &'static Official {
    Official::get(Path::new(env!("CARGO_TARGET_TMPDIR")))
}

/// A file beside this one.
pub(super) fn here(file: &str) -> PathBuf {
    root().join("tests/acceptance/conformance").join(file)
}

/// The server, and a gateway that passes on everything of it under its own names.
pub(super) struct Everything {
    _server: Process,
    pub(super) gateway: Gateway,
    /// The server's own endpoint.
    pub(super) direct: String,
    _dir: TempDir,
}

impl Everything {
    pub(super) async fn start() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let mut command = official().python();
        command
            .arg(here("everything.py"))
            .env("PYTHONPATH", official().sources().join("examples/servers/everything-server"));
        let server = Process::run("everything-server", dir.path(), command);
        let server = server.unwrap_or_else(|e| panic!("{e}"));
        let direct = format!("http://{}/mcp", server.address());
        let target = format!("http: \"{direct}\"");
        let gateway =
            gateway_of(&imported(&direct), &[("everything-server", "\"\"", &target)], &dir);
        gateway.ready().await;
        acceptance::eventually("the everything-server is up", || async {
            gateway.process.stderr().contains("upstream is up")
        })
        .await;
        Self { _server: server, gateway, direct, _dir: dir }
    }
}

/// What `registryctl import mcp` finds, and that the server exposes the rest, too.
fn imported(url: &str) -> Value {
    let out = ctl("http://127.0.0.1:1", &["import", "mcp", url, "--name", "everything-server"]);
    assert!(out.success(), "{out:?}");
    let mut file: Value = serde_json::from_str(&out.stdout).expect("a registry file");
    file["servers"][0]["exposes"] = json!(["prompts", "resources"]);
    file
}

/// A gateway over a registry file with these targets: server, prefix and transport.
pub(super) fn gateway_of(file: &Value, targets: &[(&str, &str, &str)], dir: &TempDir) -> Gateway {
    let registry = dir.path().join("registry.json");
    std::fs::write(&registry, file.to_string()).expect("the registry file is written");
    let version = |server: &str| {
        let servers = file["servers"].as_array().expect("servers");
        let found = servers.iter().find(|s| s["name"] == server).expect("the server is registered");
        found["version"].as_str().expect("a version").to_owned()
    };
    let target = |(server, prefix, transport): &(&str, &str, &str)| {
        let version = version(server);
        format!("  - {{ server: {server}, version: {version}, prefix: {prefix}, {transport} }}\n")
    };
    let targets: String = targets.iter().map(target).collect();
    Gateway::start(&GatewayOptions {
        source: format!("file://{}", registry.display()),
        targets: format!("targets:\n{targets}"),
        runtime: None,
        more: String::new(),
    })
}

//! The everything-server of the official Python SDK behind a gateway.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use acceptance::{Gateway, GatewayOptions, Official, Process, ctl, root};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The packages that all tests share.
pub(crate) fn official() -> &'static Official {
    Official::get(Path::new(env!("CARGO_TARGET_TMPDIR")))
}

/// A file in this directory.
pub(crate) fn fixture(file: &str) -> PathBuf {
    root().join("tests/acceptance/conformance").join(file)
}

/// The server, and a gateway that forwards all of its features under its own names.
pub(crate) struct Everything {
    pub(crate) gateway: Gateway,
    pub(super) direct: String,
    _servers: Vec<Process>,
    _dir: TempDir,
}

impl Everything {
    /// Starts the everything-server alone.
    pub(super) async fn start() -> Self {
        Self::with(|_, _, _| Vec::new()).await
    }

    /// Adds four servers that speak one era each, over HTTP and stdio. Each has a tool `deploy`
    /// that uses elicitation, registered as `deploy_legacy_http` and so on.
    pub(crate) async fn with_one_era_servers() -> Self {
        Self::with(|dir, file, targets| {
            let legacy = [fixture("legacy.mjs"), official().modules()];
            let sides = [
                ("legacy", official().node_path(), &legacy[..]),
                ("modern", official().python_path(), &[fixture("modern.py")]),
            ];
            let mut servers = Vec::new();
            for (era, program, arguments) in sides {
                let mut command = Command::new(&program);
                command.args(arguments);
                servers.push(start(era, dir, command));
                let url = format!("http: \"http://{}/mcp\"", servers[servers.len() - 1].address());
                let mut arguments: Vec<_> =
                    arguments.iter().map(|argument| argument.display().to_string()).collect();
                arguments.push("--stdio".to_owned());
                let child = json!({ "command": program, "args": arguments });
                // A program starts slowly while other tests run.
                let stdio = format!("stdio: {child}, timeout: 60000ms");
                for (how, transport) in [("http", url), ("stdio", stdio)] {
                    let name = format!("{era}_{how}");
                    register(file, &name);
                    let server = name.replace('_', "-");
                    targets.push(target(&server, "1.0.0", &server, &transport));
                }
            }
            servers
        })
        .await
    }

    async fn with(
        more: impl FnOnce(&TempDir, &mut Value, &mut Vec<String>) -> Vec<Process>,
    ) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let mut command = official().python();
        let sources = official().sources().join("examples/servers/everything-server");
        command.arg(fixture("everything.py")).env("PYTHONPATH", sources);
        let server = start("everything-server", &dir, command);
        let direct = format!("http://{}/mcp", server.address());
        let mut file = imported(&direct);
        let version = file["servers"][0]["version"].as_str().expect("a version").to_owned();
        let transport = format!("http: \"{direct}\"");
        let mut targets = vec![target("everything-server", &version, "", &transport)];
        let mut servers = more(&dir, &mut file, &mut targets);
        servers.push(server);
        let gateway = gateway_of(&file, &targets, &dir);
        gateway.ready().await;
        gateway.upstreams_up(targets.len()).await;
        Self { gateway, direct, _servers: servers, _dir: dir }
    }
}

fn start(name: &str, dir: &TempDir, command: Command) -> Process {
    Process::run(name, dir.path(), command).unwrap_or_else(|e| panic!("{e}"))
}

/// The registry file that `registryctl import mcp` writes.
fn imported(url: &str) -> Value {
    let out = ctl("http://127.0.0.1:1", &["import", "mcp", url, "--name", "everything-server"]);
    assert!(out.success(), "{out:?}");
    serde_json::from_str(&out.stdout).expect("a registry file")
}

/// Adds a server, and its tool `deploy` under a unique name.
fn register(file: &mut Value, name: &str) {
    let (tool, server) = (format!("deploy_{name}"), name.replace('_', "-"));
    let mut add = |to: &str, what: Value| file[to].as_array_mut().expect("a list").push(what);
    let provides = [json!({ "tool": tool, "version": "1.0.0" })];
    add("servers", json!({ "name": server, "version": "1.0.0", "provides": provides }));
    let source = json!({ "server": server, "serverVersion": "1.0.0", "tool": "deploy" });
    let described = "Deploys.";
    add(
        "tools",
        json!({ "name": tool, "version": "1.0.0", "description": described, "source": source }),
    );
}

fn target(server: &str, version: &str, prefix: &str, transport: &str) -> String {
    format!("  - {{ server: {server}, version: {version}, prefix: \"{prefix}\", {transport} }}\n")
}

fn gateway_of(file: &Value, targets: &[String], dir: &TempDir) -> Gateway {
    let registry = dir.path().join("registry.json");
    std::fs::write(&registry, file.to_string()).expect("the registry file is written");
    Gateway::start(&GatewayOptions {
        source: format!("file://{}", registry.display()),
        targets: format!("targets:\n{}", targets.concat()),
        runtime: None,
        more: String::new(),
    })
}

//! Import from a servers file into a registry.

use std::fs;

use acceptance::{ModernClient, Process, Registry, ctl, eventually};
use serde_json::{Value, json};

use super::{Standalone, mcp_servers, npm, pypi};

#[tokio::test]
async fn one_apply_moves_discovered_servers_to_a_registry() {
    let file = mcp_servers([("time", pypi("mcp_server_time"))]);
    let mut standalone = Standalone::start(&file, &[]);
    eventually("the server is discovered", || standalone.has("convert_time")).await;
    let content = fs::read_to_string(standalone.registry_file()).expect("the registry file");
    let content: Value = serde_json::from_str(&content).expect("JSON");
    assert_eq!(content["servers"][0]["metadata"]["managedBy"], "discovered");
    let registry = Registry::start();
    let path = standalone.registry_file().display().to_string();
    let applied = ctl(&registry.url(), &["apply", "-f", &path, "--yes"]);
    assert!(applied.success(), "{applied:?}");
    standalone.gateway.stop();
    // The file still provides the addresses; the registry provides the definitions.
    let source = registry.url().replace("http://", "grpc://");
    standalone.restart(&["--registry", &source]);
    eventually("the registry's tools are served", || standalone.has("convert_time")).await;
    let now = standalone.client().call("get_current_time", json!({ "timezone": "UTC" })).await;
    assert!(now.text().contains("UTC"), "{now:?}");
}

#[tokio::test]
async fn import_writes_documents_and_targets() {
    let dir = tempfile::tempdir().expect("a directory");
    let (file, targets) = (dir.path().join("mcp.json"), dir.path().join("gateway.yaml"));
    let out = dir.path().join("registry.json");
    let servers = mcp_servers([
        ("time", pypi("mcp_server_time")),
        ("think", npm("sequential-thinking", &[])),
    ]);
    fs::write(&file, servers.to_string()).expect("written");
    fs::write(&targets, "# mine\nlisten: 127.0.0.1:0\n").expect("written");
    let [file, targets, out] = [&file, &targets, &out].map(|path| path.display().to_string());
    let arguments = ["import", "mcp-servers", &file, "--targets", &targets, "--out", &out];
    let imported = ctl("http://127.0.0.1:9", &arguments);
    assert!(imported.success(), "{imported:?}");
    let written = fs::read_to_string(&targets).expect("the targets");
    assert!(written.starts_with("# mine\n"), "{written}");
    let again = ctl("http://127.0.0.1:9", &arguments);
    assert!(again.success(), "{again:?}");
    assert_eq!(fs::read_to_string(&targets).expect("the targets"), written);
    // The written documents and targets are a complete configuration.
    let source = format!("file://{out}");
    let gateway = Process::start("gateway-agent", dir.path(), |command| {
        command.args(["--config", &targets, "--registry", &source]).current_dir(dir.path());
    });
    let (ready, address) = (format!("http://{}/readyz", gateway.address()), gateway.address());
    eventually("the gateway has a catalog", || async {
        reqwest::get(&ready).await.is_ok_and(|answer| answer.status().is_success())
    })
    .await;
    let client = ModernClient::anonymous(&format!("http://{address}/mcp"));
    eventually("all tools are served", || async { client.tool_names().await.len() == 3 }).await;
    let now = client.call("get_current_time", json!({ "timezone": "UTC" })).await;
    assert!(now.text().contains("UTC"), "{now:?}");
}

#[test]
fn import_with_failed_server_registers_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("mcp.json");
    let servers = mcp_servers([
        ("time", pypi("mcp_server_time")),
        ("missing", json!({ "command": "no-such-program" })),
        ("neither", json!({})),
    ]);
    fs::write(&file, servers.to_string()).expect("written");
    let registry = Registry::start();
    let file = file.display().to_string();
    let applied = ctl(&registry.url(), &["import", "mcp-servers", &file, "--apply", "--yes"]);
    assert_eq!(applied.code, 1, "{applied:?}");
    for expected in ["2 of 3 servers were not imported", "missing: ", "neither `command` nor `url`"]
    {
        assert!(applied.stderr.contains(expected), "{expected}: {applied:?}");
    }
    let listed = ctl(&registry.url(), &["list", "servers"]);
    assert!(!listed.stdout.contains("time"), "{listed:?}");
    let printed = ctl(&registry.url(), &["import", "mcp-servers", &file]);
    assert_eq!(printed.code, 1, "{printed:?}");
    assert!(printed.stdout.contains("get_current_time"), "{printed:?}");
}

#[test]
fn single_server_import_writes_target() {
    let dir = tempfile::tempdir().expect("a directory");
    let targets = dir.path().join("targets.yaml").display().to_string();
    let time = pypi("mcp_server_time");
    let command = format!("{} -m mcp_server_time", time["command"].as_str().expect("a program"));
    let cwd = dir.path().display().to_string();
    let arguments = ["import", "mcp", "--stdio", &command, "--name", "time", "--targets", &targets];
    let options = ["--env", "TIME_KEY=s3cret", "--cwd", &cwd, "--timeout", "60"];
    let imported = ctl("http://127.0.0.1:9", &[&arguments[..], &options].concat());
    assert!(imported.success(), "{imported:?}");
    assert!(imported.stderr.contains("TIME_KEY"), "{imported:?}");
    let written = fs::read_to_string(&targets).expect("the targets");
    assert!(written.starts_with("targets:\n  - {"), "{written}");
    let env = r#"env: { "HOME": { env: HOME }, "TIME_KEY": { env: TIME_KEY } }"#;
    for expected in ["server: time,", env, &format!("cwd: \"{cwd}\""), "timeout: 60000ms"] {
        assert!(written.contains(expected), "{expected}: {written}");
    }
    assert!(!(written + &imported.stderr).contains("s3cret"));
}

#[test]
fn import_writes_no_expanded_variable() {
    let dir = tempfile::tempdir().expect("a directory");
    let (file, targets) = (dir.path().join("mcp.json"), dir.path().join("targets.yaml"));
    let mut mixed = pypi("mcp_server_time");
    mixed["env"] = json!({ "SEARCH": "pre ${env:PATH} post" });
    let secret = json!({ "command": "no-such-program", "args": ["${PATH}"] });
    let servers =
        mcp_servers([("kept", pypi("mcp_server_time")), ("mixed", mixed), ("args", secret)]);
    fs::write(&file, servers.to_string()).expect("written");
    let [file, path] = [&file, &targets].map(|path| path.display().to_string());
    let imported = ctl("http://127.0.0.1:9", &["import", "mcp-servers", &file, "--targets", &path]);
    assert_eq!(imported.code, 1, "{imported:?}");
    for expected in ["2 of 3 servers", "`env/SEARCH`", "`args/0`"] {
        assert!(imported.stderr.contains(expected), "{expected}: {imported:?}");
    }
    let written = fs::read_to_string(&targets).expect("the targets");
    assert_eq!(written.lines().count(), 2, "{written}");
    let without = ctl("http://127.0.0.1:9", &["import", "mcp-servers", &file]);
    assert!(without.stderr.contains("warning: `env/SEARCH`"), "{without:?}");
    assert!(!(written + &imported.stderr + &without.stderr).contains("/bin:"));
}

//! Files and servers with problems.

use std::{fs, process::Command};

use acceptance::{CtlOutput, binary, eventually};
use serde_json::json;

use super::{Standalone, mcp_servers, npm, pypi};

#[tokio::test]
async fn servers_with_problems_are_reported_and_the_others_are_served() {
    let file = mcp_servers([
        ("missing", json!({ "command": "no-such-program" })),
        ("silent", json!({ "command": "sleep", "args": ["1000"], "timeout": 1000 })),
        ("unset", json!({ "command": "x", "env": { "KEY": "${NO_SUCH_VARIABLE}" } })),
        ("neither", json!({})),
        ("unreachable", json!({ "url": "http://127.0.0.1:1/mcp" })),
        ("think", npm("sequential-thinking", &[])),
    ]);
    let standalone = Standalone::start(&file, &[]);
    assert!(standalone.has("sequentialthinking").await, "{}", standalone.log());
    for expected in [
        "/mcpServers/unset/env/KEY: the environment variable `NO_SUCH_VARIABLE` is not set; set it",
        "/mcpServers/neither: the server has neither `command` nor `url`; add one",
        "`no-such-program` could not be started: No such file or directory",
        "waited longer than 1000 ms to connect to the upstream",
        "could not reach server/unreachable@*",
    ] {
        eventually(expected, || async { standalone.log().contains(expected) }).await;
    }
}

#[tokio::test]
async fn tool_of_a_later_server_with_the_same_name_is_left_out_with_a_warning() {
    let (time, again) = (pypi("mcp_server_time"), pypi("mcp_server_time"));
    let file = mcp_servers([("clock", time), ("time", again)]);
    let mut standalone = Standalone::start(&file, &[]);
    let warning = "the tool `get_current_time` of time is left out: clock has a tool of this name";
    eventually(warning, || async { standalone.log().contains(warning) }).await;
    assert_eq!(standalone.tools().await.len(), 2);
    standalone.gateway.stop();
    standalone.restart(&["--tool-prefix", "always"]);
    eventually("both are served", || async {
        let tools = standalone.tools().await;
        tools.contains("time_get_current_time") && tools.contains("clock_get_current_time")
    })
    .await;
}

/// The end of a gateway that does not start.
fn start(content: Option<&str>) -> CtlOutput {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("servers.json");
    if let Some(content) = content {
        fs::write(&file, content).expect("written");
    }
    let mut gateway = Command::new(binary("gateway-agent"));
    gateway.arg("--mcp-servers").arg(&file).current_dir(dir.path());
    gateway.output().expect("the gateway runs").into()
}

#[test]
fn file_without_servers_is_an_error_with_its_place() {
    for (content, expected) in [
        (None, "cannot be read: No such file or directory"),
        (Some(""), "no list of servers; write"),
        (Some("{}"), "no list of servers; write"),
        (Some(r#"{ "mcpServers": {} }"#), "the list of servers is empty; add a server"),
        (Some("{\n \"mcpServers\": {]"), "line 2, column 17: not valid JSON"),
    ] {
        let ended = start(content);
        assert_eq!(ended.code, 2, "{content:?}: {ended:?}");
        assert!(ended.stderr.contains("--mcp-servers"), "{content:?}: {ended:?}");
        assert!(ended.stderr.contains(expected), "{content:?}: {ended:?}");
    }
}

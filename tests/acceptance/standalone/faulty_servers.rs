//! Invalid files and faulty servers.

use std::{fs, process::Command};

use acceptance::{CtlOutput, binary, eventually};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Standalone, mcp_servers, npm, pypi, write};

#[tokio::test]
async fn faulty_servers_are_reported_and_others_served() {
    let file = mcp_servers([
        ("missing", json!({ "command": "no-such-program" })),
        ("silent", json!({ "command": "sleep", "args": ["1000"], "timeout": 1000 })),
        ("unset", json!({ "command": "x", "env": { "KEY": "${NO_SUCH_VARIABLE}" } })),
        ("neither", json!({})),
        ("unreachable", json!({ "url": "http://127.0.0.1:1/mcp" })),
        ("think", npm("sequential-thinking", &[])),
    ]);
    let standalone = Standalone::start(&file, &[]);
    eventually("the server is discovered", || standalone.has("sequentialthinking")).await;
    for expected in [
        "/mcpServers/unset/env/KEY: the environment variable `NO_SUCH_VARIABLE` is not set; set it",
        "/mcpServers/neither: the server has neither `command` nor `url`; add one",
        "the program `no-such-program` is in no directory of PATH",
        "no response to the handshake within 1000 ms",
        "could not reach server/unreachable@*",
    ] {
        eventually(expected, || async { standalone.log().contains(expected) }).await;
    }
}

#[tokio::test]
async fn duplicate_tool_name_is_skipped_with_warning() {
    let (time, again) = (pypi("mcp_server_time"), pypi("mcp_server_time"));
    let file = mcp_servers([("clock", time), ("time", again)]);
    let mut standalone = Standalone::start(&file, &[]);
    let warning = "`get_current_time` of time (also of clock)";
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

/// A modern server that lists these tools.
fn listing(dir: &TempDir, tools: &Value) -> Value {
    let script = format!(
        r#"answer() {{ printf '{{"jsonrpc":"2.0","id":%s,"result":%s}}\n' "$id" "$1"; }}
while IFS= read -r line; do id=${{line#*\"id\":}}; id=${{id%%,*}}; case $line in
  *'"server/discover"'*) answer '{{"supportedVersions":["2026-07-28"]}}';;
  *'"tools/list"'*) answer '{{"tools":{tools}}}';;
  *'"tools/call"'*) answer '{{"resultType":"complete","content":[{{"type":"text","text":"done"}}]}}';;
esac; done"#
    );
    let name = tools[0]["name"].as_str().expect("a name");
    let file = dir.path().join(format!("{name}.sh"));
    fs::write(&file, script).expect("written");
    json!({ "command": "sh", "args": [file] })
}

fn tool(name: &str) -> Value {
    json!({ "name": name, "inputSchema": { "type": "object" } })
}

#[tokio::test]
async fn tools_with_invalid_definitions_are_skipped() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut untyped = tool("untyped");
    untyped["annotations"] = json!({ "readOnlyHint": "yes" });
    let broken = json!({ "name": "broken", "inputSchema": { "type": "objekt" } });
    let invalid = json!({ "name": "invalid",
        "inputSchema": { "type": "object", "properties": { "a": { "type": "no-type" } } } });
    let tools = json!([untyped, broken, invalid, tool("good")]);
    let standalone = Standalone::start(&mcp_servers([("mixed", listing(&dir, &tools))]), &[]);
    assert_eq!(standalone.tools().await.into_iter().collect::<Vec<_>>(), ["good"]);
    for member in ["`annotations.readOnlyHint` is", "`inputSchema.type` is not \"object\""] {
        assert!(standalone.log().contains(member), "{member}: {}", standalone.log());
    }
}

#[tokio::test]
async fn server_failing_at_start_is_not_restarted() {
    let dir = tempfile::tempdir().expect("a directory");
    let failing = json!({ "command": "sh", "args": ["-c", "exit 3"], "autoStart": false });
    let file = mcp_servers([("failing", failing), ("good", listing(&dir, &json!([tool("good")])))]);
    let standalone = Standalone::start(&file, &["--log", "info"]);
    eventually("the server is discovered", || standalone.has("good")).await;
    eventually("the visit is over", || async {
        let log = standalone.log();
        log.lines().any(|line| line.ends_with(" target.server=server/failing@*"))
    })
    .await;
}

#[tokio::test]
async fn idle_server_is_listed_after_corrected_environment() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = listing(&dir, &json!([tool("good")]));
    let script = server["args"][0].as_str().expect("a script");
    let script = format!("test -n \"$KEY\" || exit 3; . {script}");
    let with = |env: Value| {
        let server =
            json!({ "command": "sh", "args": ["-c", script], "env": env, "autoStart": false });
        mcp_servers([("keyed", server)])
    };
    let standalone = Standalone::start(&with(json!({})), &[]);
    eventually("the first attempt has failed", || async {
        standalone.log().contains("target.server=server/keyed@* error=")
    })
    .await;
    write(standalone.dir.path(), &with(json!({ "KEY": "k" })));
    eventually("the server is listed", || standalone.has("good")).await;
}

#[tokio::test]
async fn tools_of_replaced_program_are_forgotten() {
    let dir = tempfile::tempdir().expect("a directory");
    let lazy = |name: &str| {
        let mut server = listing(&dir, &json!([tool(name)]));
        server["autoStart"] = false.into();
        mcp_servers([("lazy", server)])
    };
    let standalone = Standalone::start(&lazy("alpha"), &[]);
    eventually("its tools are discovered", || standalone.has("alpha")).await;
    write(standalone.dir.path(), &lazy("beta"));
    eventually("the other program's tools are discovered", || standalone.has("beta")).await;
    assert!(!standalone.has("alpha").await);
    // Another program with the same tools.
    let mut same = lazy("beta");
    same["mcpServers"]["lazy"]["args"].as_array_mut().expect("arguments").push("again".into());
    write(standalone.dir.path(), &same);
    eventually("the change is taken over", || async {
        let log = standalone.log();
        let removed = log.lines().filter(|line| line.ends_with(" target.server=server/lazy@*"));
        removed.count() >= 3
    })
    .await;
    assert!(standalone.has("beta").await);
}

#[test]
fn check_names_skipped_servers() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("servers.json");
    fs::write(&file, r#"{ "mcpServers": { "a": {} } }"#).expect("written");
    let mut gateway = Command::new(binary("gateway-agent"));
    let checked = gateway.arg("--mcp-servers").arg(&file).arg("--check").current_dir(dir.path());
    let checked: CtlOutput = checked.output().expect("the gateway runs").into();
    assert!(checked.stdout.contains("/mcpServers/a: "), "{checked:?}");
}

/// The output of a gateway that fails to start.
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
fn file_without_servers_is_rejected() {
    for (content, expected) in [
        (None, "servers.json: No such file or directory"),
        (Some(""), "no list of servers; write"),
        (Some("{}"), "no list of servers; write"),
        (Some(r#"{ "mcpServers": {} }"#), "the list of servers is empty; add a server"),
        (Some("{\n \"mcpServers\": {]"), "line 2, column 17: not valid JSON"),
    ] {
        let ended = start(content);
        assert_eq!(ended.code, 2, "{content:?}: {ended:?}");
        assert!(ended.stderr.contains("--mcp-servers"), "{content:?}: {ended:?}");
        assert!(ended.stderr.contains(expected), "{content:?}: {ended:?}");
        assert!(ended.stderr.contains("1 problem"), "{content:?}: {ended:?}");
        assert!(!ended.stderr.contains("gateway.yaml"), "{content:?}: {ended:?}");
    }
}

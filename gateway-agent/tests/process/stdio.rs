//! `gateway-agent stdio` for one client.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_gateway-agent");
const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#;

/// Starts `gateway-agent stdio` with its state in a directory.
fn start(directory: &Path, arguments: &[&str]) -> Child {
    let mut command = Command::new(PROGRAM);
    command.arg("stdio").args(arguments).current_dir(directory);
    command.env("XDG_STATE_HOME", directory.join("state"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("a gateway")
}

/// Sends one line, closes standard input, and waits for the exit.
fn run(directory: &Path, arguments: &[&str], line: &str) -> Output {
    let mut child = start(directory, arguments);
    let mut input = child.stdin.take().expect("piped");
    // A gateway that rejects its arguments does not read.
    let _ = writeln!(input, "{line}");
    drop(input);
    child.wait_with_output().expect("an end")
}

#[test]
fn unreachable_gateway_is_reported_at_end_of_input() {
    let dir = tempfile::tempdir().expect("a directory");
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let begin = Instant::now();
    let output = run(dir.path(), &["--gateway", "http://127.0.0.1:1"], ping);
    let answer = String::from_utf8_lossy(&output.stdout);
    assert!(answer.contains("gateway-unreachable") && answer.contains(r#""id":1"#), "{answer}");
    assert!(begin.elapsed() < Duration::from_secs(4), "{:?}", begin.elapsed());
}

#[test]
fn flags_must_select_one_gateway() {
    let dir = tempfile::tempdir().expect("a directory");
    let gateway = ["--gateway", "http://127.0.0.1:1"];
    for flag in ["--mcp-servers", "--config", "--registry"] {
        let output = run(dir.path(), &[&gateway[..], &[flag, "file"]].concat(), "");
        let log = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{log}");
        assert!(log.contains(flag) && log.contains("--gateway"), "{log}");
    }
    let output = run(dir.path(), &[], "");
    let log = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{log}");
    assert!(log.contains("--gateway") && log.contains("--mcp-servers"), "{log}");
    let output = run(dir.path(), &["--log-format", "json"], "");
    let log = String::from_utf8_lossy(&output.stderr);
    let line: serde_json::Value = serde_json::from_str(&log).expect("one line of JSON");
    assert!(line["message"].as_str().is_some_and(|why| why.contains("--gateway")), "{log}");
}

#[test]
fn recursive_gateway_exits_with_reason() {
    let servers = r#"{"mcpServers":{"gw":{"command":"sh","args":["inner.sh"]}}}"#;
    let targets = "registry: { source: file://./registry.json }
targets:
  - { server: gw, version: '*', stdio: { command: sh, args: [inner.sh] } }
";
    let files = [("servers.json", servers), ("targets.yaml", targets)];
    for (flag, file) in [("--mcp-servers", "servers.json"), ("--config", "targets.yaml")] {
        let dir = tempfile::tempdir().expect("a directory");
        // The intermediate program between the gateways logs each start.
        let script = format!(
            "echo started >> starts\n\"{PROGRAM}\" stdio {flag} ./{file} 2>> log\necho $? >> codes\n"
        );
        fs::write(dir.path().join("inner.sh"), script).expect("a script");
        fs::write(dir.path().join("registry.json"), r#"{"schemaVersion":"2.0"}"#).expect("a file");
        for (name, content) in files {
            fs::write(dir.path().join(name), content).expect("a file");
        }
        let output = run(dir.path(), &[flag, file], INITIALIZE);
        assert!(String::from_utf8_lossy(&output.stdout).contains("serverInfo"), "{output:?}");
        let read = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap_or_default();
        let log = read("log");
        assert!(log.contains(&format!("{file} ")), "{log}");
        assert!(read("codes").lines().all(|code| code == "2"), "{}", read("codes"));
        assert!(read("starts").lines().count() < 20, "{}", read("starts"));
    }
}

#[test]
fn embedded_gateway_logs_its_registered_tools() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = r#"{ "schemaVersion": "2.0",
        "servers": [{ "name": "s", "version": "1.0.0", "description": "d",
            "provides": [{ "tool": "t", "version": "1.0.0" }] }],
        "tools": [{ "name": "t", "version": "1.0.0",
            "source": { "server": "s", "serverVersion": "1.0.0", "tool": "t" } }] }"#;
    fs::write(dir.path().join("registry.json"), file).expect("a file");
    let output = run(dir.path(), &["--registry", "file://./registry.json"], INITIALIZE);
    let log = String::from_utf8_lossy(&output.stderr);
    let ready = log.split_once("gateway is ready (").and_then(|(_, rest)| rest.split_once(')'));
    let (catalog, _) = ready.unwrap_or_else(|| panic!("{log}"));
    insta::assert_snapshot!(catalog, @"catalog revision 1, 1 tool registered");
}

/// People have no address to decide at, and a second client cannot use the file of the first.
#[test]
fn call_that_people_must_approve_is_rejected() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = r#"
answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
while IFS= read -r line; do id=${line#*\"id\":}; id=${id%%,*}; case $line in
  *'"server/discover"'*) answer '{"supportedVersions":["2026-07-28"]}';;
  *'"tools/list"'*) answer '{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}';;
  *'"tools/call"'*) echo called >> calls; answer '{"resultType":"complete","content":[]}';;
esac; done
"#;
    fs::write(dir.path().join("server.sh"), server).expect("a script");
    let file = r#"{ "schemaVersion": "2.0",
        "servers": [{ "name": "s", "version": "1.0.0", "description": "d",
            "provides": [{ "tool": "t", "version": "1.0.0" }] }],
        "tools": [{ "name": "t", "version": "1.0.0",
            "source": { "server": "s", "serverVersion": "1.0.0", "tool": "t" } }],
        "policies": [{ "name": "people", "version": "1.0.0", "appliesTo": { "tools": ["t"] },
            "approval": {} }] }"#;
    fs::write(dir.path().join("registry.json"), file).expect("a file");
    let config = "registry: { source: file://./registry.json }
targets:
  - { server: s, version: '*', stdio: { command: sh, args: [server.sh] } }
";
    fs::write(dir.path().join("gateway.yaml"), config).expect("a file");
    let call =
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"t","arguments":{}}}"#;
    let mut clients: Vec<_> =
        (0..2).map(|_| start(dir.path(), &["--config", "gateway.yaml"])).collect();
    for client in &mut clients {
        let mut input = client.stdin.take().expect("piped");
        let mut output = BufReader::new(client.stdout.take().expect("piped")).lines();
        writeln!(input, "{INITIALIZE}").expect("sent");
        output.next().expect("an answer").expect("a line");
        writeln!(input, r#"{{"jsonrpc":"2.0","method":"notifications/initialized"}}"#)
            .expect("sent");
        writeln!(input, "{call}").expect("sent");
        let mut answers = output.map(|line| line.expect("a line"));
        let answer = answers.find(|line| line.contains(r#""id":2"#)).expect("an answer");
        assert!(answer.contains("APPROVAL_UNAVAILABLE"), "{answer}");
        drop(input);
    }
    for client in &mut clients {
        client.wait().expect("an end");
    }
    assert!(!dir.path().join("calls").exists());
}

#[test]
fn hanging_server_delays_only_first_start() {
    let dir = tempfile::tempdir().expect("a directory");
    let servers = r#"{"mcpServers":{"slow":{"command":"sleep","args":["60"]}}}"#;
    fs::write(dir.path().join("servers.json"), servers).expect("a file");
    for limit in [8, 4].map(Duration::from_secs) {
        let begin = Instant::now();
        let mut child = start(dir.path(), &["--mcp-servers", "servers.json"]);
        let mut input = child.stdin.take().expect("piped");
        writeln!(input, "{INITIALIZE}").expect("sent");
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().expect("piped"));
        output.read_line(&mut line).expect("a line");
        assert!(line.contains("serverInfo"), "{line}");
        assert!(begin.elapsed() < limit, "{:?}", begin.elapsed());
        drop(input);
        assert!(child.wait().expect("an end").success());
    }
}

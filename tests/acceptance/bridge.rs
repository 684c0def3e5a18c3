//! `gateway-agent stdio`: official clients over stdio in both eras, with a running and an embedded
//! gateway, and faults on either side.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    path::Path,
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::{Duration, Instant},
};

use acceptance::{
    Gateway, GatewayOptions, ModernClient, binary, eventually,
    mcp::{LEGACY, MODERN},
    signal_process,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::conformance::{Everything, fixture, official, run};

/// Time limit of a response.
const ANSWER: Duration = Duration::from_secs(30);
/// The duration without a message that counts as silence.
const SILENCE: Duration = Duration::from_millis(300);

/// A server whose calls take the requested time, in seconds.
const SLOW: &str = r#"
answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
while IFS= read -r line; do id=${line#*\"id\":}; id=${id%%,*}; case $line in
  *'"server/discover"'*) answer '{"supportedVersions":["2026-07-28"]}';;
  *'"tools/list"'*) answer '{"tools":[{"name":"wait","inputSchema":{"type":"object"}}]}';;
  *'"seconds":"30"'*) ;;
  *'"tools/call"'*) answer '{"resultType":"complete","content":[{"type":"text","text":"done"}]}';;
esac; done
"#;

/// A server with instructions.
const INSTRUCTING: &str = r#"
answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
while IFS= read -r line; do id=${line#*\"id\":}; id=${id%%,*}; case $line in
  *'"server/discover"'*) answer '{"supportedVersions":["2026-07-28"],"instructions":"Be kind."}';;
  *'"tools/list"'*) answer '{"tools":[{"name":"help","inputSchema":{"type":"object"}}]}';;
esac; done
"#;

async fn slow_gateway(more: &str) -> (Gateway, GatewayOptions, TempDir) {
    let dir = tempfile::tempdir().expect("a directory");
    let catalog = dir.path().join("registry.json");
    let provides = [json!({ "tool": "wait", "version": "1.0.0" })];
    let source = json!({ "server": "slow", "serverVersion": "1.0.0", "tool": "wait" });
    let file = json!({ "schemaVersion": "2.0",
        "servers": [{ "name": "slow", "version": "1.0.0", "provides": provides }],
        "tools": [{ "name": "wait", "version": "1.0.0", "description": "Waits", "source": source }] });
    fs::write(&catalog, file.to_string()).expect("a registry file");
    let command = json!({ "command": "sh", "args": ["-c", SLOW] });
    let target = json!({ "server": "slow", "version": "1.0.0", "stdio": command });
    let options = GatewayOptions {
        source: format!("file://{}", catalog.display()),
        targets: format!("targets: [{target}]\n"),
        runtime: None,
        more: more.to_owned(),
    };
    let gateway = Gateway::start(&options);
    gateway.ready().await;
    up(&gateway, 1).await;
    (gateway, options, dir)
}

async fn up(gateway: &Gateway, times: usize) {
    eventually("the server is up", || async {
        gateway.process.logged(&["gateway_upstream", " target.era="]).len() >= times
    })
    .await;
}

/// A running bridge; killed when dropped.
struct Bridge {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<Value>,
    era: &'static str,
}

impl Bridge {
    fn start(era: &'static str, arguments: &[&str]) -> Self {
        Self::start_with(era, arguments, |_| {})
    }

    /// Starts the bridge in `/`, as some clients do.
    fn start_with(
        era: &'static str,
        arguments: &[&str],
        configure: impl FnOnce(&mut Command),
    ) -> Self {
        let mut command = Command::new(binary("gateway-agent"));
        command.arg("stdio").args(arguments).current_dir("/");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        configure(&mut command);
        let mut child = command.spawn().expect("the bridge starts");
        let input = child.stdin.take();
        let output = child.stdout.take().expect("standard output is piped");
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let message = serde_json::from_str(&line);
                let _ = sender.send(message.unwrap_or_else(|e| panic!("{e}: {line}")));
            }
        });
        Self { child, input, lines, era }
    }

    fn to(era: &'static str, gateway: &Gateway) -> Self {
        Self::start(era, &["--gateway", &gateway.mcp_url()])
    }

    fn write(&mut self, text: &str) {
        let input = self.input.as_mut().expect("standard input is open");
        input.write_all(text.as_bytes()).expect("the bridge reads");
    }

    fn notify(&mut self, method: &str, params: &Value) {
        let message = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        self.write(&format!("{message}\n"));
    }

    fn request(&mut self, id: u64, method: &str, mut params: Value) {
        if self.era == MODERN {
            params["_meta"] = json!({ "io.modelcontextprotocol/protocolVersion": MODERN,
                "io.modelcontextprotocol/clientCapabilities": {} });
        }
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.write(&format!("{message}\n"));
    }

    /// Sends `initialize` in the legacy era.
    fn open(&mut self) -> Value {
        if self.era == MODERN {
            self.request(0, "server/discover", json!({}));
            return self.response(0);
        }
        let about = json!({ "name": "test", "version": "1.0.0" });
        let params = json!({ "protocolVersion": LEGACY, "capabilities": {}, "clientInfo": about });
        self.request(0, "initialize", params);
        let response = self.response(0);
        self.notify("notifications/initialized", &json!({}));
        response
    }

    fn call(&mut self, id: u64, seconds: &str) {
        let arguments = json!({ "seconds": seconds });
        self.request(id, "tools/call", json!({ "name": "wait", "arguments": arguments }));
    }

    /// Skips notifications before the response with this id.
    fn response(&self, id: u64) -> Value {
        loop {
            let message = self.lines.recv_timeout(ANSWER);
            let message = message.unwrap_or_else(|e| panic!("no answer to {id}: {e}"));
            if message["method"].is_null() {
                assert_eq!(message["id"], id, "{message}");
                return message;
            }
        }
    }

    fn is_done(&mut self, id: u64) -> bool {
        self.call(id, "0");
        self.response(id)["result"]["content"][0]["text"] == "done"
    }

    /// Waits until the bridge exits.
    fn wait(&mut self) -> ExitStatus {
        let deadline = Instant::now() + ANSWER;
        loop {
            if let Some(status) = self.child.try_wait().expect("a child can be awaited") {
                return status;
            }
            assert!(Instant::now() < deadline, "the bridge did not end");
            thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A denial over standard input and output, of a tool of a child process.
#[tokio::test(flavor = "multi_thread")]
async fn policy_denies_calls_over_bridge() {
    let (gateway, _options, dir) = slow_gateway("").await;
    let catalog = dir.path().join("registry.json");
    let mut file: Value =
        serde_json::from_slice(&fs::read(&catalog).expect("a registry file")).expect("JSON");
    file["policies"] = json!([{ "name": "no-waiting", "version": "1.0.0",
        "appliesTo": { "servers": ["slow"] },
        "authorization": { "cedar": "forbid (principal, action, resource == Tool::\"wait\") when { context.purpose == \"call\" };" } }]);
    let mut bridges = [MODERN, LEGACY].map(|era| Bridge::to(era, &gateway));
    for bridge in &mut bridges {
        bridge.open();
        assert!(bridge.is_done(1));
    }
    fs::write(&catalog, file.to_string()).expect("a registry file");
    let client = ModernClient::anonymous(&gateway.mcp_url());
    eventually("the policy is in force", || async {
        client.call("wait", json!({ "seconds": "0" })).await.is_tool_error()
    })
    .await;
    for bridge in &mut bridges {
        bridge.call(2, "0");
        let denial = &bridge.response(2)["result"]["_meta"]["registry/governance"];
        assert_eq!(denial["reason"], "UNAUTHORIZED", "{denial}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn official_clients_use_all_features_over_bridge() {
    let everything = Everything::with_one_era_servers().await;
    let program = binary("gateway-agent").display().to_string();
    let config = everything.gateway.config().display().to_string();
    let remote = json!([program, "stdio", "--gateway", everything.gateway.mcp_url()]);
    // The running gateway holds the cache of this configuration.
    let embedded = json!([program, "stdio", "--config", config]);
    for command in [remote, embedded] {
        for sdk in ["first", "legacy", "modern"] {
            let mut client = official().node(&fixture("client.mjs"));
            client.arg(official().modules()).args([sdk, &command.to_string()]);
            run(client);
        }
        for era in ["legacy", "modern"] {
            let mut client = official().python();
            client.arg(fixture("client.py")).args([era, &command.to_string()]);
            run(client);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn client_survives_gateway_restart() {
    let (mut gateway, options, _dir) = slow_gateway("").await;
    let mut clients = [LEGACY, MODERN].map(|era| Bridge::to(era, &gateway));
    for client in &mut clients {
        assert!(client.open()["result"].is_object());
        assert!(client.is_done(1));
        client.call(2, "30");
    }
    eventually("the calls run", || async {
        let metrics = reqwest::get(format!("{}/metrics", gateway.url())).await.expect("metrics");
        metrics.text().await.expect("text").lines().any(|line| {
            line.starts_with("gateway_target_requests{")
                && line.contains("running")
                && line.ends_with(" 2")
        })
    })
    .await;
    gateway.process.kill_9();
    for client in &mut clients {
        let error = &client.response(2)["error"];
        assert_eq!(error["data"]["reason"], "outcome-unknown", "{error}");
        client.call(3, "0");
        let error = &client.response(3)["error"];
        assert_eq!(error["data"]["reason"], "gateway-unreachable", "{error}");
        let message = error["message"].as_str().expect("a message");
        assert!(message.contains(&gateway.mcp_url()), "{message}");
    }
    gateway.restart(&options);
    gateway.ready().await;
    up(&gateway, 2).await;
    for client in &mut clients {
        assert!(client.is_done(4));
        client.input = None;
        assert!(client.wait().success());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn session_is_reopened_at_replaced_gateway() {
    let (mut gateway, options, _dir) = slow_gateway("").await;
    let mut client = Bridge::to(LEGACY, &gateway);
    client.open();
    assert!(client.is_done(1));
    gateway.process.kill_9();
    // Without its key, the gateway cannot open earlier sessions.
    let mut key = gateway.cache().into_os_string();
    key.push(".key");
    fs::remove_file(key).expect("the key of the gateway");
    gateway.restart(&options);
    gateway.ready().await;
    up(&gateway, 2).await;
    for id in 2..5 {
        assert!(client.is_done(id));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn canceled_calls_end_at_gateway() {
    let (gateway, _options, _dir) = slow_gateway("").await;
    for (count, era) in [(1, LEGACY), (2, MODERN)] {
        let mut client = Bridge::to(era, &gateway);
        client.open();
        client.call(1, "30");
        thread::sleep(SILENCE);
        client.notify("notifications/cancelled", &json!({ "requestId": 1 }));
        eventually("the gateway cancels the call", || async {
            gateway.process.stderr().matches("outcome=cancelled").count() == count
                || gateway.process.stderr().matches("outcome=\"cancelled\"").count() == count
        })
        .await;
        while let Ok(message) = client.lines.recv_timeout(SILENCE) {
            assert!(!message["method"].is_null(), "{era}: {message}");
        }
        assert!(client.is_done(1), "{era}: the id is free again");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unreachable_gateway_is_retried_and_reported() {
    let (gateway, options, _dir) = slow_gateway("").await;
    let address = gateway.address.clone();
    drop(gateway);
    let mut client = Bridge::start(LEGACY, &["--gateway", &format!("http://{address}")]);
    let begin = Instant::now();
    let error = client.open()["error"].clone();
    assert!(begin.elapsed() > Duration::from_secs(2), "it waits for a gateway that starts");
    let message = error["message"].as_str().expect("a message");
    assert!(message.contains(&format!("http://{address}/mcp")), "{message}");
    let gateway = Gateway::start_with(&options, &["--listen", &address]);
    gateway.ready().await;
    assert!(client.open()["result"].is_object());
}

#[tokio::test(flavor = "multi_thread")]
async fn bridge_sends_token_to_gateway() {
    let key = "8f14e45fceea167a5a36dedd4bea2543";
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("token");
    fs::write(&file, format!("{key}\n")).expect("a file");
    let shown = file.display();
    let identity =
        format!("identity: {{ required: true, apiKeys: [{{ agent: a, keyFile: {shown} }}] }}\n");
    let (gateway, _options, _dir) = slow_gateway(&identity).await;
    let url = gateway.mcp_url();
    let mut client = Bridge::to(MODERN, &gateway);
    assert_eq!(client.open()["error"]["code"], -32600);
    let shown = shown.to_string();
    let mut client = Bridge::start(MODERN, &["--gateway", &url, "--token-file", &shown]);
    assert!(client.open()["result"].is_object());
    let mut client =
        Bridge::start_with(MODERN, &["--gateway", &url, "--log", "trace"], |command| {
            command.env("GATEWAY_TOKEN", key).stderr(Stdio::piped());
        });
    assert!(client.open()["result"].is_object());
    client.input = None;
    client.wait();
    let mut log = String::new();
    client.child.stderr.take().expect("piped").read_to_string(&mut log).expect("text");
    assert!(!log.is_empty() && !log.contains(key), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_bridges_share_one_configuration() {
    let (gateway, _options, _dir) = slow_gateway("").await;
    let dir = tempfile::tempdir().expect("a directory");
    let config = dir.path().join("gateway.yaml");
    let text = fs::read_to_string(gateway.config()).expect("a configuration");
    let without_cache = text.lines().filter(|line| !line.trim_start().starts_with("cache:"));
    fs::write(&config, without_cache.collect::<Vec<_>>().join("\n")).expect("a file");
    let state = dir.path().join("state");
    let config = config.display().to_string();
    let start = |log: &str| {
        let log = fs::File::create(dir.path().join(log)).expect("a log file");
        Bridge::start_with(LEGACY, &["--config", &config], |command| {
            command.env("XDG_STATE_HOME", &state).stderr(log);
        })
    };
    let mut clients = [start("first"), start("second")];
    for client in &mut clients {
        assert!(client.open()["result"].is_object());
        assert!(client.is_done(1), "the server starts with its gateway");
    }
    let log = |name: &str| fs::read_to_string(dir.path().join(name)).expect("a log");
    let is_second = |name: &&str| log(name).contains(" temporary.path=");
    assert_eq!(["first", "second"].into_iter().filter(is_second).count(), 1);
    for client in &mut clients {
        client.input = None;
        assert!(client.wait().success());
    }
    let kept = fs::read_dir(state.join("gateway-agent")).expect("the state directory");
    let kept: Vec<_> = kept.flatten().collect();
    assert_eq!(kept.len(), 1);
    assert!(kept[0].path().join("registry-v2.json").is_file());
}

/// Clients send the first request as soon as the process runs.
#[test]
fn first_response_has_instructions_of_servers() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("servers.json");
    let server = json!({ "command": "sh", "args": ["-c", INSTRUCTING] });
    let servers = json!({ "mcpServers": { "kind": server } });
    fs::write(&file, servers.to_string()).expect("a file");
    let file = file.display().to_string();
    let state = dir.path().join("state");
    // The second and the third start have the lists of the first run.
    for era in [MODERN, LEGACY, MODERN] {
        let mut client = Bridge::start_with(era, &["--mcp-servers", &file], |command| {
            command.env("XDG_STATE_HOME", &state);
        });
        let first = client.open();
        assert_eq!(first["result"]["instructions"], "# kind\n\n> Be kind.", "{first}");
        client.input = None;
        assert!(client.wait().success());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bridge_exits_on_signal_and_end_of_input() {
    let (gateway, _options, _dir) = slow_gateway("").await;
    let config = gateway.config().display().to_string();
    for arguments in [["--gateway", &gateway.mcp_url()], ["--config", &config]] {
        for signal in ["TERM", "INT"] {
            let mut client = Bridge::start(MODERN, &arguments);
            client.open();
            client.call(1, "30");
            thread::sleep(SILENCE);
            let begin = Instant::now();
            signal_process(client.child.id(), signal);
            assert!(client.wait().success());
            assert!(begin.elapsed() < Duration::from_secs(4), "{:?}", begin.elapsed());
        }
        let mut client = Bridge::start(LEGACY, &arguments);
        client.open();
        // The last line has no line feed.
        client.write(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
        client.input = None;
        assert!(client.response(1)["result"].is_object());
        assert!(client.wait().success());
    }
}

#[test]
fn invalid_bridge_arguments_are_reported() {
    let dir = tempfile::tempdir().expect("a directory");
    let missing = dir.path().join("missing").display().to_string();
    for (arguments, text) in [
        (&["--gateway", "localhost:7080"][..], "is not a URL"),
        (&["--gateway", "http://127.0.0.1:1", "--token-file", &missing], "cannot be read"),
        (&["--gateway", "http://192.0.2.1", "--token", "t"], "--allow-insecure-token"),
        (&["--config", &missing], "cannot read the file"),
        (&["--config", &missing, "--approve", "destructive"], "--gateway"),
    ] {
        let mut command = Command::new(binary("gateway-agent"));
        let output = command.arg("stdio").args(arguments).output().expect("it runs");
        let log = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{log}");
        assert!(log.contains(text) && output.stdout.is_empty(), "{log}");
    }
}

fn init(directory: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(binary("gateway-agent"));
    let output = command.args(["config", "init"]).args(arguments).current_dir(directory).output();
    let output = output.expect("it runs");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn config_init_writes_valid_file() {
    let dir = tempfile::tempdir().expect("a directory");
    let (code, output, log) = init(dir.path(), &[]);
    assert_eq!((code, output.as_str()), (Some(0), ""), "{log}");
    assert!(
        log.contains("written: ./gateway.yaml\n") && log.contains("`registry.source`"),
        "{log}"
    );
    let (code, _, log) = init(dir.path(), &["."]);
    assert!(code == Some(2) && !log.contains("written"), "{log}");
    let file = dir.path().join("gateway.yaml");
    let written = fs::read_to_string(&file).expect("a file");
    assert_eq!(init(dir.path(), &["-"]).1, written);
    fs::write(&file, "name: mine\n").expect("a file");
    let (code, _, log) = init(dir.path(), &[]);
    assert!(code == Some(2) && log.contains("--force"), "{log}");
    assert_eq!(fs::read_to_string(&file).expect("a file"), "name: mine\n");
    assert_eq!(init(dir.path(), &["--force"]).0, Some(0));
    let mut check = Command::new(binary("gateway-agent"));
    check.args(["--check", "--registry", "grpc://127.0.0.1:1"]).current_dir(dir.path());
    assert!(check.output().expect("it runs").status.success());
}

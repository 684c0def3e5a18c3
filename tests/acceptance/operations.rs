//! Operation of a running gateway: configuration reload, stop and start of targets, and limits per
//! tool.

mod draining;
mod missing_files;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use acceptance::{
    Backend, CtlOutput, Gateway, GatewayOptions, ModernClient, binary, eventually,
    eventually_within,
};
use serde_json::{Value, json};

use crate::scripted_server::{ScriptedServer, tools};

fn options(targets: &str, runtime: &str, more: &str) -> GatewayOptions {
    let example = acceptance::root().join("examples/registry-v2.json");
    GatewayOptions {
        source: format!("file://{}", example.display()),
        targets: format!("targets: [{targets}]\n"),
        runtime: Some(runtime.to_owned()),
        more: format!("admin: 127.0.0.1:0\n{more}"),
    }
}

fn http(server: &str, url: &str) -> String {
    format!("{{ server: {server}, version: 1.2.3, http: \"{url}\" }}")
}

/// A child process with a known name: the demo's time server.
fn child() -> String {
    let program = binary("demo-backend");
    format!(
        "{{ server: time-server, version: 1.0.0, stdio: {{ command: {}, args: [--stdio, time-server] }} }}",
        program.display()
    )
}

fn ctl(gateway: &Gateway, arguments: &[&str]) -> CtlOutput {
    let admin = gateway.admin_url();
    acceptance::ctl("http://127.0.0.1:1", &[&["gateway", "--admin", &admin], arguments].concat())
}

fn targets(gateway: &Gateway) -> Value {
    let shown = ctl(gateway, &["targets", "--output", "json"]);
    assert!(shown.success(), "{shown:?}");
    serde_json::from_str(&shown.stdout).expect("JSON")
}

fn state(gateway: &Gateway, server: &str) -> String {
    let all = targets(gateway);
    let all = all.as_array().expect("a list");
    let target = all.iter().find(|target| target["server"] == server);
    target.map_or("none", |target| target["state"].as_str().expect("a state")).to_owned()
}

/// The child processes of a process.
fn children(parent: u32) -> Vec<u32> {
    let all = std::fs::read_dir(format!("/proc/{parent}/task")).expect("it runs");
    let of = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("children"));
    let texts = all.flatten().filter_map(|task| of(task).ok());
    texts
        .flat_map(|text| {
            text.split_whitespace().map(|id| id.parse().expect("an id")).collect::<Vec<_>>()
        })
        .collect()
}

/// A server whose `fetch` blocks on one URL until it is released.
struct SlowServer {
    upstream: ScriptedServer,
    is_let_go: Arc<AtomicBool>,
}

impl SlowServer {
    async fn start() -> Self {
        let is_let_go = Arc::<AtomicBool>::default();
        let told = Arc::clone(&is_let_go);
        let upstream = ScriptedServer::start(tools(&["fetch"], move |params| {
            let is_slow = params["arguments"]["url"] == "https://slow.example/";
            let began = Instant::now();
            while is_slow && !told.load(SeqCst) && began.elapsed() < Duration::from_secs(25) {
                std::thread::sleep(Duration::from_millis(20));
            }
            Some(json!({ "content": [{ "type": "text", "text": "fetched" }] }))
        }));
        Self { upstream: upstream.await, is_let_go }
    }

    fn let_go(&self) {
        self.is_let_go.store(true, SeqCst);
    }
}

async fn fetch(gateway: &Gateway, url: &str) -> acceptance::mcp::Answer {
    ModernClient::anonymous(&gateway.mcp_url()).call("fetch", json!({ "url": url })).await
}

async fn slow_call(url: String) -> acceptance::mcp::Answer {
    let client = ModernClient::anonymous(&url);
    client.call("fetch", json!({ "url": "https://slow.example/" })).await
}

/// A call without a required argument.
async fn bad_call(gateway: &Gateway) -> acceptance::mcp::Answer {
    ModernClient::anonymous(&gateway.mcp_url()).call("fetch", json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
async fn configuration_reload_keeps_running_calls() {
    let (slow_server, backend) = (SlowServer::start().await, Backend::start());
    let upstream = &slow_server.upstream;
    let fetch_server = http("fetch-server", &upstream.url);
    let gateway = Gateway::start(&options(
        &format!("{fetch_server}, {}", child()),
        "{ inputValidation: warn }",
        "",
    ));
    gateway.ready().await;
    eventually("both are up", || async {
        let all = targets(&gateway);
        all.as_array().expect("a list").iter().all(|target| target["state"] == "up")
    })
    .await;
    let before = children(gateway.process.id());
    assert_eq!(before.len(), 1, "the time server");
    assert!(!bad_call(&gateway).await.is_tool_error(), "it only warns");

    let slow = tokio::spawn(slow_call(gateway.mcp_url()));
    eventually("it is busy", || async { targets(&gateway).to_string().contains(r#""running":1"#) })
        .await;
    let memory = format!("http://{}/memory/mcp", backend.process.address());
    let more = format!("{{ server: memory-server, version: 1.0.0, http: \"{memory}\" }}");
    let elsewhere = http("fetch-server", &format!("{}?other", upstream.url));
    let all = format!("{elsewhere}, {}, {more}", child());
    gateway.configure(&options(&all, "{ inputValidation: deny }", ""));
    eventually("it denies", || async { bad_call(&gateway).await.is_tool_error() }).await;
    eventually("the new one is up", || async {
        state(&gateway, "server/memory-server@1.0.0") == "up"
    })
    .await;
    slow_server.let_go();
    assert_eq!(
        slow.await.expect("it ends").text(),
        "fetched",
        "what had begun at the old target came to its end"
    );
    assert_eq!(children(gateway.process.id()), before, "what did not change was left alone");
    assert_eq!(fetch(&gateway, "https://example.com/").await.text(), "fetched");
    assert!(upstream.seen().contains("POST /mcp?other"), "it goes to the new address");

    gateway.configure(&options("", "{}", ""));
    let gone = async || fetch(&gateway, "https://example.com/").await;
    eventually("no target is left", || async { gone().await.message["error"]["code"] == -32602 })
        .await;
    eventually("its child is gone", || async { children(gateway.process.id()).is_empty() }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_configuration_changes_nothing() {
    let slow_server = SlowServer::start().await;
    let upstream = &slow_server.upstream;
    let good = options(&http("fetch-server", &upstream.url), "{}", "");
    let gateway = Gateway::start(&good);
    gateway.ready().await;
    let bad = format!(
        "{{ server: fetch-server, version: 1.2.3, http: \"{}\", colour: red }}",
        upstream.url
    );
    gateway.configure(&options(&bad, "{ inputValidation: dney }", ""));
    let refused = ctl(&gateway, &["reload", "--yes"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    for told in ["2 problems", "  line 7: ", "`dney`", "colour"] {
        assert!(refused.stderr.contains(told), "{told}: {}", refused.stderr);
    }
    assert_eq!(fetch(&gateway, "https://example.com/").await.text(), "fetched");
    eventually("the log has it, too", || async {
        !gateway.process.logged(&["ERROR gateway_agent::server::reload"]).is_empty()
    })
    .await;
    let metrics = gateway.metrics().await;
    assert!(metrics.contains(r#"gateway_config_reloads_total{outcome="rejected"}"#), "{metrics}");

    gateway.configure(&GatewayOptions { more: format!("{}name: other\n", good.more), ..good });
    let taken = ctl(&gateway, &["reload", "--yes"]);
    assert!(taken.success() && taken.stdout.contains("`name`"), "{taken:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn operator_stops_and_starts_target() {
    let slow_server = SlowServer::start().await;
    let upstream = &slow_server.upstream;
    let all = format!("{}, {}", http("fetch-server", &upstream.url), child());
    let gateway = Gateway::start(&options(&all, "{}", ""));
    gateway.ready().await;
    let (fetching, telling) = ("server/fetch-server@1.2.3", "server/time-server@1.0.0");
    eventually("both are up", || async {
        state(&gateway, fetching) == "up" && state(&gateway, telling) == "up"
    })
    .await;
    let slow = tokio::spawn(slow_call(gateway.mcp_url()));
    eventually("it is busy", || async { targets(&gateway).to_string().contains(r#""running":1"#) })
        .await;
    assert!(ctl(&gateway, &["stop", "--yes", "fetch-server@1.2.3"]).success());
    let refused = fetch(&gateway, "https://example.com/").await;
    assert!(refused.is_tool_error(), "{refused:?}");
    assert_eq!(gateway.audited("upstream-busy").len(), 1, "an operator stopped the server");
    slow_server.let_go();
    assert_eq!(slow.await.expect("it ends").text(), "fetched", "running calls finish");
    assert_eq!(state(&gateway, fetching), "stopped");
    let shown = ctl(&gateway, &["targets"]).stdout;
    assert!(
        shown.lines().any(|line| line.contains(fetching) && line.contains("stopped")),
        "{shown}"
    );
    let looked = ctl(&gateway, &["check", "fetch-server@1.2.3"]);
    assert_eq!(looked.code, 1, "{looked:?}");
    let (_, reason) = looked.stderr.split_once("the target ").expect("a reason");
    insta::assert_snapshot!(reason, @"of server/fetch-server@1.2.3 is stopped; run `registryctl gateway start server/fetch-server@1.2.3`");
    assert!(ctl(&gateway, &["start", "--yes", "fetch-server@1.2.3"]).success());
    eventually("it is up again", || async { state(&gateway, fetching) == "up" }).await;
    assert_eq!(fetch(&gateway, "https://example.com/").await.text(), "fetched");

    assert_eq!(children(gateway.process.id()).len(), 1);
    assert!(ctl(&gateway, &["stop", "--yes", "time-server@1.0.0"]).success());
    eventually("its child is gone", || async { children(gateway.process.id()).is_empty() }).await;
    let unknown = ctl(&gateway, &["stop", "--yes", "nobody@1.0.0"]);
    assert!(unknown.code == 1 && unknown.stderr.contains("nobody@1.0.0"), "{unknown:?}");
}

#[tokio::test]
async fn tool_timeout_overrides_global_timeout() {
    let upstream = ScriptedServer::start(tools(&["fetch"], |_| None)).await;
    let tools = "[{ tool: fetch@1.2.3, callTimeoutMs: 300 }, { tool: fecth, callTimeoutMs: 1 }]";
    let more = format!("limits: {{ callTimeoutMs: 20000, tools: {tools} }}\n");
    let gateway = Gateway::start(&options(&http("fetch-server", &upstream.url), "{}", &more));
    gateway.ready().await;
    eventually("it is up", || async { state(&gateway, "server/fetch-server@1.2.3") == "up" }).await;
    let began = Instant::now();
    let late = fetch(&gateway, "https://example.com/").await;
    assert!(late.is_tool_error() && late.text().contains("300 ms"), "{late:?}");
    assert_eq!(gateway.audited("upstream-timeout").len(), 1);
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    let warned = "limits.tools names fecth, which the catalog does not contain";
    eventually("an unknown name is reported", || async {
        gateway.process.stderr().contains(warned)
    })
    .await;
    let log = gateway.process.stderr();
    assert_eq!(log.matches("limits.tools names").count(), 1, "{log}");
}

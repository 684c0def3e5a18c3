//! SIGTERM at a gateway: readiness changes first, and running calls finish.

use std::time::{Duration, Instant};

use acceptance::{Gateway, GatewayOptions, ModernClient, eventually};
use serde_json::json;

use super::{SlowServer, http, options, slow_call};
use crate::scripted_server::{ScriptedServer, tools};
use crate::{
    scripted_server::HUNG_UP,
    sessions::{Client, drop_in_the_middle, page, waiting},
};

async fn gateway(slow: &SlowServer, more: &str) -> Gateway {
    let target = http("fetch-server", &slow.upstream.url);
    let gateway = Gateway::start(&options(&target, "{ inputValidation: warn }", more));
    gateway.ready().await;
    eventually("the target is up", || async { gateway.targets().await.contains("\"up\"") }).await;
    gateway
}

async fn readiness(url: &str) -> (u16, String) {
    let answer = reqwest::get(format!("{url}/readyz")).await.expect("an answer");
    (answer.status().as_u16(), answer.text().await.expect("a body"))
}

#[tokio::test(flavor = "multi_thread")]
async fn draining_gateway_is_unready_and_still_accepts_calls() {
    let slow = SlowServer::start().await;
    let mut gateway = gateway(&slow, "drainNotice: 3s\n").await;
    let stopped = Instant::now();
    gateway.process.signal("TERM");
    eventually("load balancers see it", || async { readiness(&gateway.url()).await.0 == 503 })
        .await;
    let (_, told) = readiness(&gateway.admin_url()).await;
    assert!(told.contains("\"reason\":\"draining\""), "{told}");
    let client = ModernClient::anonymous(&gateway.mcp_url());
    let answer = client.call("fetch", serde_json::json!({ "url": "https://quick.example/" })).await;
    assert_eq!(answer.text(), "fetched", "{answer:?}");
    assert!(gateway.process.wait(Duration::from_secs(10)).success());
    assert!(stopped.elapsed() >= Duration::from_secs(3), "the notice is kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn drain_lasts_as_long_as_the_longest_call() {
    let slow = SlowServer::start().await;
    let mut gateway = gateway(
        &slow,
        "limits: { callTimeoutMs: 1000, tools: [{ tool: fetch, callTimeoutMs: 40000 }] }\n",
    )
    .await;
    let call = tokio::spawn(slow_call(gateway.mcp_url()));
    eventually("the call is on its way", || async {
        gateway.targets().await.contains("\"running\":1")
    })
    .await;
    gateway.process.signal("TERM");
    // Longer than the former drain limit of 20 s.
    tokio::time::sleep(Duration::from_secs(22)).await;
    let probe = reqwest::get(format!("{}/livez", gateway.admin_url())).await;
    assert!(probe.is_ok_and(|answer| answer.status().is_success()), "probes answer meanwhile");
    slow.let_go();
    let answer = call.await.expect("no panic");
    assert_eq!(answer.text(), "fetched", "{answer:?}");
    assert!(gateway.process.wait(Duration::from_secs(10)).success());
}

#[tokio::test(flavor = "multi_thread")]
async fn call_without_connection_finishes_while_draining() {
    let (mut scene, release) = waiting(page()).await;
    let url = scene.gateway.mcp_url();
    drop_in_the_middle(&Client::open(&url).await, &url).await;
    scene.gateway.process.signal("TERM");
    eventually("the gateway stops", || async {
        !scene.gateway.process.logged(&["gateway_agent::server", " limit="]).is_empty()
    })
    .await;
    // A gateway that cancels the call would do it at once.
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(!scene.server.seen().contains(HUNG_UP), "the call goes on");
    release.send(()).expect("the call waits");
    let finished = Instant::now();
    assert!(scene.gateway.process.wait(Duration::from_secs(10)).success());
    assert!(finished.elapsed() < Duration::from_secs(10), "the kept answer delays nothing");
    let log = scene.gateway.process.stderr();
    assert!(log.contains("outcome=\"ok\"") && !log.contains("outcome=\"cancelled\""), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn drain_waits_for_a_composition_longer_than_any_call() {
    let slow = ScriptedServer::start(tools(&["fetch"], |_| {
        std::thread::sleep(Duration::from_secs(1));
        Some(json!({ "content": [], "structuredContent": {} }))
    }))
    .await;
    let step = |id: &str| json!({ "id": id, "operation": { "tool": { "name": "fetch" } } });
    let steps = ["a", "b", "c", "d"].map(step);
    let registry = json!({ "schemaVersion": "2.0",
        "servers": [{ "name": "fetch-server", "version": "1.2.3",
            "provides": [{ "tool": "fetch", "version": "1.0.0" }] }],
        "tools": [
            { "name": "fetch", "version": "1.0.0", "description": "Takes a second",
                "source": { "server": "fetch-server", "serverVersion": "1.2.3", "tool": "fetch" } },
            { "name": "four", "version": "1.0.0", "description": "Takes four seconds",
                "depends": [{ "type": "tool", "name": "fetch", "version": "1.0.0" }],
                "spec": { "pipeline": { "steps": steps } } }] });
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("registry.json");
    std::fs::write(&file, registry.to_string()).expect("a file");
    let limits = "limits: { connectTimeoutMs: 500, callTimeoutMs: 1500 }\n";
    let target = http("fetch-server", &slow.url);
    let mut gateway = Gateway::start(&GatewayOptions {
        source: format!("file://{}", file.display()),
        ..options(&target, "{ inputValidation: warn }", limits)
    });
    gateway.ready().await;
    eventually("the target is up", || async { gateway.targets().await.contains("\"up\"") }).await;
    let url = gateway.mcp_url();
    let call =
        tokio::spawn(async move { ModernClient::anonymous(&url).call("four", json!({})).await });
    eventually("the call is on its way", || async {
        gateway.targets().await.contains("\"running\":1")
    })
    .await;
    gateway.process.signal("TERM");
    let answer = call.await.expect("no panic");
    assert!(!answer.is_tool_error() && answer.status == 200, "{answer:?}");
    assert!(gateway.process.wait(Duration::from_secs(5)).success(), "nothing else is waited for");
}

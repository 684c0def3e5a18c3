//! SIGTERM at a gateway: load balancers notice first, and no call that has begun is cut off.

use std::time::{Duration, Instant};

use acceptance::{Gateway, ModernClient, eventually};

use super::{SlowServer, http, options, slow_call};

/// A gateway in front of the slow server.
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
    eventually("load balancers are told", || async { readiness(&gateway.url()).await.0 == 503 })
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
    // Longer than the 20 s that calls had before, whatever their timeout.
    tokio::time::sleep(Duration::from_secs(22)).await;
    let probe = reqwest::get(format!("{}/livez", gateway.admin_url())).await;
    assert!(probe.is_ok_and(|answer| answer.status().is_success()), "probes answer meanwhile");
    slow.let_go();
    let answer = call.await.expect("no panic");
    assert_eq!(answer.text(), "fetched", "{answer:?}");
    assert!(gateway.process.wait(Duration::from_secs(10)).success());
}

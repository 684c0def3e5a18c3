//! Failing upstreams: errors for callers, status for operators, detection time, and recovery.

mod routing;

use std::time::{Duration, Instant};

use acceptance::{Backend, FaultProxy, Gateway, GatewayOptions, ModernClient, eventually};
use serde_json::{Value, json};

/// A gateway whose fetch server is behind a proxy, and its admin address.
async fn scene(proxy: &FaultProxy) -> (Gateway, String) {
    let example = acceptance::root().join("examples/registry-v2.json");
    let url = format!("http://{}/fetch/mcp", proxy.address());
    let gateway = Gateway::start(&GatewayOptions {
        source: format!("file://{}", example.display()),
        targets: format!(
            "targets: [{{ server: fetch-server, version: 1.2.3, http: \"{url}\" }}]\n"
        ),
        runtime: None,
        more: "admin: 127.0.0.1:0\n".to_owned(),
    });
    gateway.ready().await;
    let admin = gateway.admin_url();
    (gateway, admin)
}

async fn target(admin: &str) -> Value {
    let began = Instant::now();
    let answer = reqwest::get(format!("{admin}/admin/targets")).await.expect("an answer");
    let text = answer.text().await.expect("text");
    assert!(began.elapsed() < Duration::from_secs(1), "health answers within a second");
    let all: Value = serde_json::from_str(&text).expect("JSON");
    all["targets"][0].clone()
}

#[tokio::test]
async fn restarted_server_is_reconnected() {
    let backend = Backend::start();
    let proxy = FaultProxy::start(&backend.process.address()).await;
    let (gateway, admin) = scene(&proxy).await;
    eventually("it is up", || async { target(&admin).await["state"] == "up" }).await;
    assert_eq!(target(&admin).await["server"], "server/fetch-server@1.2.3");
    let client = ModernClient::anonymous(&gateway.mcp_url());
    let fetch = async || client.call("fetch", json!({ "url": "https://example.com/" })).await;
    assert!(!fetch().await.is_tool_error());

    proxy.lead_to("127.0.0.1:1");
    let died = Instant::now();
    eventually("its end is noticed", || async { target(&admin).await["state"] == "down" }).await;
    assert!(died.elapsed() < Duration::from_secs(10), "after {:?}", died.elapsed());
    let told = target(&admin).await;
    assert!(told["error"].as_str().is_some_and(|error| !error.is_empty()), "{told}");
    let answer = fetch().await;
    assert!(answer.is_tool_error(), "{answer:?}");

    proxy.lead_to(&backend.process.address());
    eventually("it is picked up again", || async { !fetch().await.is_tool_error() }).await;
    let check = |body: &'static str| {
        reqwest::Client::new().post(format!("{admin}/admin/targets/check")).body(body).send()
    };
    let known = check(r#"{"server":"server/fetch-server@1.2.3"}"#).await.expect("an answer");
    assert_eq!(known.status(), 202);
    assert_eq!(check(r#"{"server":"server/x@1.0.0"}"#).await.expect("an answer").status(), 404);
    assert_eq!(check("{}").await.expect("an answer").status(), 400);
}

//! Calls through `gateway-agent stdio`, with a running and an embedded gateway, compared with HTTP.

use acceptance::{Backend, Gateway, GatewayOptions, ModernClient, Registry, binary, eventually};
use serde_json::json;
use tokio::process::Command;

use super::{
    ANONYMOUS, Hop, MODERN, drive,
    stdio::{Conversation, through},
};
use crate::{
    report::{Report, Row},
    sample,
};

/// Measures one call at a time and 16 at once.
pub(crate) async fn measure(report: &mut Report, seconds: u64) {
    let (backend, registry) = (Backend::start(), Registry::start());
    let own = sample::request(sample::own());
    registry.client().await.apply_changes(own).await.expect("accepted");
    let url = format!("http://{}/bench/mcp", backend.process.address());
    let gateway = Gateway::start(&GatewayOptions {
        source: format!("grpc://{}", registry.address),
        targets: format!(
            "targets: [{{ server: bench-server, version: 1.0.0, http: \"{url}\" }}]\n"
        ),
        runtime: None,
        more: String::new(),
    });
    gateway.ready().await;
    let params = json!({ "name": "echo", "arguments": { "payload": "x".repeat(1024) } });
    let client = ModernClient::anonymous(&gateway.mcp_url());
    eventually("the tool can be called", || async {
        let answer = client.request("tools/call", params.clone()).await;
        answer.is_ok_and(|answer| answer.message["result"]["isError"] != true)
    })
    .await;
    let hop = Hop {
        name: "gateway over HTTP",
        url: gateway.mcp_url(),
        cpu: Box::new(|| gateway.process.cpu_seconds()),
    };
    let config = gateway.config().display().to_string();
    let ways = [
        ("bridge to a running gateway", ["--gateway", &gateway.mcp_url()]),
        ("bridge with an embedded gateway", ["--config", &config]),
    ];
    for connections in [1, 16] {
        let request = (MODERN, "tools/call", params.clone());
        let direct = drive(&hop, connections, seconds, (ANONYMOUS, request)).await.load;
        for (name, arguments) in ways {
            let mut command = Command::new(binary("gateway-agent"));
            let conversation = Conversation::start(command.arg("stdio").args(arguments));
            // The embedded gateway connects to its upstream first.
            while !conversation.call(&params).await.contains("xxx") {}
            let load = through(conversation, connections, seconds, &params).await;
            let added = load.quantile_ms(0.5) - direct.quantile_ms(0.5);
            report.add(Row {
                path: format!("tools/call of 1 KiB, {connections} at once: {name}"),
                value: format!("{}; {added:+.2} ms p50", load.text()),
                baseline: format!("over HTTP {}", direct.text()),
                ratio: Some(load.per_second / direct.per_second),
                budget: if connections == 1 { "≤ 1 ms added to p50" } else { "" },
            });
        }
    }
}

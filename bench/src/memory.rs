//! Memory of both processes, and how fast a gateway answers from a cold start.
//!
//! Deliberately absent: growth over a long load.

use std::time::{Duration, Instant};

use acceptance::{Gateway, GatewayOptions, ModernClient, Registry};
use serde_json::json;

use crate::{
    follow::Follower,
    reads,
    report::{Report, Row},
    sample,
};

const TOOLS: usize = 10_000;
const STREAMS: usize = 1_000;

/// Measures a gateway with 10,000 tools, its start from disk, and 1,000 idle streams.
pub(crate) async fn measure(report: &mut Report) {
    gateway(report).await;
    streams(report).await;
}

async fn gateway(report: &mut Report) {
    let mut registry = Registry::start();
    reads::apply_all(&registry, TOOLS).await;
    let agent = sample::agent_with_echo("bench-agent", 0..500);
    let mut last = sample::echo();
    last.push(agent);
    registry.client().await.apply(sample::request(last)).await.expect("accepted");
    let options = GatewayOptions {
        source: format!("grpc://{}", registry.address),
        targets: String::new(),
        runtime: None,
        more: String::new(),
    };
    let mut gateway = Gateway::start(&options);
    gateway.ready().await;
    let client = ModernClient::agent(&gateway.mcp_url(), "bench-agent", "1.0.0");
    acceptance::eventually("the gateway has all tools", || async {
        client.tool_names().await.len() == 501
    })
    .await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let resident = gateway.process.resident_bytes();
    report.add_alone(
        format!("gateway memory, {TOOLS} tools, one agent's view of 501"),
        format!("{} MiB", resident >> 20),
        "≤ 60 MiB",
    );
    assert!(registry.process.stop().success(), "the registry ends");
    assert!(gateway.process.stop().success(), "the gateway ends");
    let begin = Instant::now();
    gateway.restart(&options);
    let listening = begin.elapsed();
    let answer = client.request("tools/list", json!({})).await.expect("an answer");
    assert!(answer.result()["tools"].is_array());
    let answered = begin.elapsed();
    let restarted = gateway.process.resident_bytes();
    report.add_alone(
        format!("gateway cold start from disk, {TOOLS} tools, registry down"),
        format!(
            "listening {} ms, first list {} ms, {} MiB",
            listening.as_millis(),
            answered.as_millis(),
            restarted >> 20
        ),
        "< 100 ms, ≤ 60 MiB",
    );
}

/// A stream's own memory, and what it takes with the connection that a gateway has for it.
#[expect(clippy::cast_precision_loss, reason = "sizes fit a double")]
async fn streams(report: &mut Report) {
    for (connections, what) in [(10, "100 on a connection"), (STREAMS, "a connection each")] {
        let registry = Registry::start();
        let _warm = Follower::connect(&registry).await;
        let before = registry.process.resident_bytes();
        let mut followers = Vec::new();
        for _ in 0..connections {
            let client = registry.sync().await;
            for _ in 0..STREAMS / connections {
                followers.push(Follower::open(client.clone()).await);
            }
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
        let grown = registry.process.resident_bytes().saturating_sub(before);
        report.add(Row {
            path: format!("registry memory per idle stream, {STREAMS} streams, {what}"),
            value: format!("{:.1} KiB", grown as f64 / 1024.0 / STREAMS as f64),
            beside: format!("{} MiB with none", before >> 20),
            ratio: None,
            budget: "≤ 16 KiB",
        });
    }
}

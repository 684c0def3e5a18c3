//! The gateway's memory during a million calls: after the first tenth, and at the end.

use acceptance::Gateway;
use serde_json::json;

use super::{Client, Hop, MODERN};
use crate::report::Report;

const CALLS: u64 = 1_000_000;
const CONNECTIONS: u64 = 16;

pub(super) async fn measure(report: &mut Report, hop: &Hop<'_>, gateway: &Gateway) {
    let params = json!({ "name": "echo", "arguments": { "payload": "x".repeat(1024) } });
    let call = async |calls: u64| {
        let mut loops = Vec::new();
        for _ in 0..CONNECTIONS {
            let client =
                Client::new(&hop.url, "bench-agent", (MODERN, "tools/call"), &params).await;
            loops.push(tokio::spawn(async move {
                for _ in 0..calls / CONNECTIONS {
                    client.once().await;
                }
            }));
        }
        for one in loops {
            one.await.expect("a client ends");
        }
        gateway.process.resident_bytes() >> 10
    };
    let first = call(CALLS / 10).await;
    let last = call(CALLS - CALLS / 10).await;
    report.add_alone(
        format!("gateway memory over {CALLS} calls of 1 KiB, {CONNECTIONS} connections"),
        format!("{first} KiB after the first tenth, {last} KiB after all"),
        "flat",
    );
}

//! Exact gets over gRPC, from the catalog in memory.

use acceptance::Registry;
use registry_proto::v1;

use crate::{
    load,
    report::{Report, Row},
    sample,
};

const TOOLS: usize = 10_000;
pub(crate) const CLIENTS: usize = 64;

/// Measures exact gets beside the same calls that find nothing (the cost of gRPC itself).
pub(crate) async fn measure(report: &mut Report, seconds: u64) {
    let registry = Registry::start();
    apply_all(&registry, TOOLS).await;
    let found = gets(&registry, seconds, "1.0.0").await;
    let empty = gets(&registry, seconds, "9.9.9").await;
    report.add(Row {
        path: format!("exact get over gRPC, {CLIENTS} clients, {TOOLS} tools"),
        value: found.text(),
        beside: format!("a get of nothing: {:.0}/s", empty.per_second),
        ratio: Some(found.per_second / empty.per_second),
        budget: "≥ 20,000/s, no database query",
    });
}

/// Gets of 10,000 tools, one after the other.
pub(crate) async fn gets(registry: &Registry, seconds: u64, version: &'static str) -> load::Load {
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(registry.client().await);
    }
    load::run(clients, seconds, move |mut client, id| async move {
        let number = usize::try_from(id & 0xffff_ffff).unwrap_or(0) * 7919 % TOOLS;
        let key = v1::EntityKey {
            kind: v1::Kind::Tool.into(),
            name: sample::tool_name(number),
            version: version.to_owned(),
        };
        let request = v1::GetRequest { key: Some(key), ..Default::default() };
        let answer = client.get(request).await;
        assert_eq!(answer.is_ok(), version == "1.0.0", "{answer:?}");
    })
    .await
}

/// Registers a whole registry of the sample, in its batches.
pub(crate) async fn apply_all(registry: &Registry, tools: usize) {
    let mut client = registry.client().await;
    for batch in sample::registry(tools) {
        client.apply(sample::request(batch)).await.expect("the sample is accepted");
    }
}

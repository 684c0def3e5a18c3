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

/// Compares exact gets with calls that find nothing, which cost only gRPC.
pub(crate) async fn measure(report: &mut Report, seconds: u64) {
    let registry = Registry::start();
    apply_all(&registry, TOOLS).await;
    let found = gets(&registry, seconds, "1.0.0").await;
    let empty = gets(&registry, seconds, "9.9.9").await;
    report.add(Row {
        path: format!("exact get over gRPC, {CLIENTS} clients, {TOOLS} tools"),
        value: found.text(),
        baseline: format!("a get without a result: {:.0}/s", empty.per_second),
        ratio: Some(found.per_second / empty.per_second),
        budget: "≥ 20,000/s, no database query",
    });
}

/// An exact get of a tool of the sample.
pub(crate) fn get(tool: usize, version: &str) -> v1::GetEntityRequest {
    let key = v1::EntityKey {
        kind: v1::EntityKind::Tool.into(),
        name: sample::tool_name(tool),
        version: version.to_owned(),
    };
    v1::GetEntityRequest { key: Some(key), ..Default::default() }
}

pub(crate) async fn gets(registry: &Registry, seconds: u64, version: &'static str) -> load::Load {
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(registry.client().await);
    }
    load::run(clients, seconds, move |mut client, id| async move {
        let number = usize::try_from(id & 0xffff_ffff).unwrap_or(0) * 7919 % TOOLS;
        let answer = client.get_entity(get(number, version)).await;
        assert_eq!(answer.is_ok(), version == "1.0.0", "{answer:?}");
    })
    .await
}

/// Registers the sample registry in batches.
pub(crate) async fn apply_all(registry: &Registry, tools: usize) {
    let mut client = registry.client().await;
    for batch in sample::registry(tools) {
        client.apply_changes(sample::request(batch)).await.expect("the sample is accepted");
    }
}

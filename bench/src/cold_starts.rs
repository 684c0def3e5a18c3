//! Starts with large catalogs: a gateway from its copy on disk, and a registry from its database.

use std::{fs, time::Instant};

use acceptance::{ModernClient, Registry, postgres::PrivateCluster};
use registry_core::registry_file;
use serde_json::json;

use crate::{
    load,
    memory::{AGENT, Site, TOOLS},
    reads,
    report::{Report, Row},
};

const RUNS: usize = 40;
/// With their servers and schemas, 100,000 entities.
const REGISTRY_TOOLS: usize = 99_000;
const REGISTRY_RUNS: usize = 5;

/// Measures the gateway, then the registry on both databases.
pub(crate) async fn measure(report: &mut Report) {
    gateway(report).await;
    registry(report, "SQLite", Registry::start()).await;
    let cluster = PrivateCluster::durable().await;
    let database = cluster.create_database("bench_start").await;
    registry(report, "Postgres", Registry::start_on(&database)).await;
}

/// Compares with reading and verifying the copy in this process.
async fn gateway(report: &mut Report) {
    let Site { mut registry, mut gateway, options } = Site::start().await;
    assert!(registry.process.stop().success(), "the registry ends");
    let [mut listening, mut answered, mut reading] = [(); 3].map(|()| load::histogram());
    let mut most_bytes = 0;
    for _ in 0..RUNS {
        assert!(gateway.process.stop().success(), "the gateway ends");
        let begin = Instant::now();
        let copy = fs::read(gateway.cache()).expect("a copy on disk");
        let catalog = registry_file::read_export(&copy).expect("a valid copy");
        load::record(&mut reading, begin.elapsed());
        assert!(catalog.len() > TOOLS);
        let client = ModernClient::agent(&gateway.mcp_url(), AGENT, "1.0.0");
        let begin = Instant::now();
        gateway.restart(&options);
        load::record(&mut listening, begin.elapsed());
        let answer = client.request("tools/list", json!({})).await.expect("an answer");
        load::record(&mut answered, begin.elapsed());
        assert!(answer.result()["tools"].is_array());
        most_bytes = most_bytes.max(gateway.process.resident_bytes());
    }
    let p95 = |latencies| load::quantile_ms(latencies, 0.95);
    report.add(Row {
        path: format!(
            "gateway cold start from disk, {TOOLS} tools, registry down, p95 of {RUNS} runs"
        ),
        value: format!(
            "listening {:.0} ms, first list {:.0} ms (median {:.0}), at most {} MiB",
            p95(&listening),
            p95(&answered),
            load::quantile_ms(&answered, 0.5),
            most_bytes >> 20
        ),
        baseline: format!("reading and verifying the file: {:.0} ms", p95(&reading)),
        ratio: Some(p95(&answered) / p95(&reading)),
        budget: "< 100 ms, ≤ 60 MiB",
    });
}

/// The time until a restarted registry answers an exact get.
async fn registry(report: &mut Report, database: &str, mut registry: Registry) {
    reads::apply_all(&registry, REGISTRY_TOOLS).await;
    let mut served = load::histogram();
    for _ in 0..REGISTRY_RUNS {
        assert!(registry.process.stop().success(), "the registry ends");
        let begin = Instant::now();
        registry.restart();
        let get = registry.client().await.get_entity(reads::get(0, "1.0.0")).await;
        load::record(&mut served, begin.elapsed());
        assert!(get.is_ok(), "{get:?}");
    }
    report.add_alone(
        format!(
            "start of a registry with {REGISTRY_TOOLS} tools until its first get, {database}, \
             {REGISTRY_RUNS} runs"
        ),
        format!(
            "median {:.0} ms, at most {:.0} ms",
            load::quantile_ms(&served, 0.5),
            load::quantile_ms(&served, 1.0)
        ),
        "≤ 2 s",
    );
}

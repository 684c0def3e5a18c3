//! A registry with 100,000 entities on Postgres: releases under all rules, and verification of the
//! log.

use std::time::{Duration, Instant};

use acceptance::{Registry, postgres::PrivateCluster};
use registry_proto::v1::{self, audit_service_client::AuditServiceClient};
use sqlx::{Connection, PgConnection};

use crate::{
    load::{self, Load},
    reads,
    report::{Report, Row},
    sample,
};

const TOOLS: usize = 99_000;
const FEW_TOOLS: usize = 1_000;

/// Compares releases with those of a small registry, and the verification with reading the same
/// rows.
pub(crate) async fn measure(report: &mut Report, seconds: u64) {
    let cluster = PrivateCluster::durable().await;
    let small = Registry::start_on(&cluster.create_database("bench_small").await);
    let database = cluster.create_database("bench_large").await;
    let large = Registry::start_on(&database);
    reads::apply_all(&small, FEW_TOOLS).await;
    reads::apply_all(&large, TOOLS).await;
    for clients in [1, 16] {
        let baseline = releases(&small, clients, seconds).await;
        let load = releases(&large, clients, seconds).await;
        report.add(Row {
            path: format!(
                "release of a tool and its server among {TOOLS} tools, {clients} clients"
            ),
            value: load.text(),
            baseline: format!("among {FEW_TOOLS} tools: {}", baseline.text()),
            ratio: Some(load.quantile_ms(0.99) / baseline.quantile_ms(0.99)),
            budget: "p99 < 50 ms",
        });
    }
    let verified = verify(&large).await;
    let (read, rows) = read_all(&database).await;
    report.add(Row {
        path: format!("audit verify of {} commits, {TOOLS} tools", large.revision().await),
        value: format!("{:.2} s", verified.as_secs_f64()),
        baseline: format!("reading its {rows} rows: {:.2} s", read.as_secs_f64()),
        ratio: Some(verified.as_secs_f64() / read.as_secs_f64()),
        budget: "",
    });
}

/// Each request releases the next version of its client's server and tool. The rules must find the
/// tool's input compatible.
async fn releases(registry: &Registry, clients: usize, seconds: u64) -> Load {
    let mut connections = Vec::new();
    for _ in 0..clients {
        connections.push(registry.client().await);
    }
    load::run(connections, seconds, move |mut client, id| async move {
        let (number, release) = (id >> 32, id & 0xffff_ffff);
        let changes = sample::release(&format!("released-{clients}-{number}"), release);
        client.apply_changes(sample::request(changes)).await.expect("accepted");
    })
    .await
}

async fn verify(registry: &Registry) -> Duration {
    let mut client = AuditServiceClient::new(registry.channel().await);
    let begin = Instant::now();
    let request = v1::VerifyLogRequest::default();
    let mut steps = client.verify_log(request).await.expect("a verification").into_inner();
    let mut last = None;
    while let Some(step) = steps.message().await.expect("all of it") {
        last = Some(step);
    }
    let last = last.expect("an end");
    assert!(last.done && last.findings.is_empty(), "{:?}", last.findings);
    begin.elapsed()
}

/// The time to read the rows that a verification reads.
async fn read_all(database: &str) -> (Duration, usize) {
    let mut connection = PgConnection::connect(database).await.expect("a connection");
    let begin = Instant::now();
    let mut rows = 0;
    for table in ["commits", "changes", "entities"] {
        let query = sqlx::query(sqlx::AssertSqlSafe(format!("SELECT * FROM {table}")));
        rows += query.fetch_all(&mut connection).await.expect("rows").len();
    }
    (begin.elapsed(), rows)
}

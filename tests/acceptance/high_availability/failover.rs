//! A standby takes over from the primary.

use std::time::{Duration, Instant};

use acceptance::{
    FaultProxy, Gateway, Registry, eventually,
    postgres::{PrivateCluster, Replication},
};
use tokio::time::sleep;

use super::gateway_of;
use crate::{
    concurrent_writers::{
        ConcurrentWriters, assert_followed_without_gap, assert_no_commit_lost, pair,
    },
    deployment::{gateway_revision, readiness},
};

fn both(first: &PrivateCluster, second: &PrivateCluster, database: &str) -> String {
    let (first, second) = (first.port(), second.port());
    format!(
        "postgres://postgres@127.0.0.1:{first},127.0.0.1:{second}/{database}?target_session_attrs=read-write"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn synchronous_failover_loses_no_commit() {
    let mut primary = PrivateCluster::durable().await;
    primary.create_database("failover").await;
    let standby = primary.standby(Replication::Synchronous).await;
    // A server finds the primary in either order.
    let urls = [both(&standby, &primary, "failover"), both(&primary, &standby, "failover")];
    let servers = urls.each_ref().map(|url| Registry::start_on(url));
    let gateway = gateway_of(&[&servers[0], &servers[1]]);
    gateway.ready().await;
    let writers = ConcurrentWriters::start(&[servers[0].url(), servers[1].url()], 3, usize::MAX);
    writers.progresses(50).await;
    primary.kill_9().await;
    sleep(Duration::from_secs(1)).await;
    standby.promote().await;
    let promoted = Instant::now();
    for server in &servers {
        eventually("writes go on", || async {
            readiness(&server.address).await.1["status"] == "ready"
        })
        .await;
    }
    println!("both servers took writes {:?} after the promotion", promoted.elapsed());
    writers.progresses(50).await;
    let acknowledged = writers.stop().await;
    println!(
        "{} acknowledged, {:?} without",
        acknowledged.revisions.len(),
        acknowledged.longest_pause
    );
    assert!(
        acknowledged.longest_pause < Duration::from_secs(10),
        "{:?}",
        acknowledged.longest_pause
    );
    assert_no_commit_lost(&servers[0], &acknowledged).await;
    assert_followed_without_gap(&gateway, &servers[1]).await;
    eventually("the ledger starts a generation without a call", || async {
        let started = ["registry_server::app::ledger", "generation=1"];
        servers.iter().any(|server| !server.process.logged(&started).is_empty())
    })
    .await;
}

/// Commits that the standby lacked are lost. A server that has seen them rejects writes instead of
/// forking the log.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failover_with_lost_commits_is_rejected() {
    let mut primary = PrivateCluster::durable().await;
    primary.create_database("lossy").await;
    let standby = primary.standby(Replication::Asynchronous).await;
    let server = Registry::start_on(&both(&primary, &standby, "lossy"));
    let mut client = server.client().await;
    client.apply_changes(pair("Kept", 0)).await.expect("accepted");
    let gateway = gateway_of(&[&server]);
    at(&gateway, 1).await;
    standby_has(&primary).await;
    standby.stop_following(&primary).await;
    client.apply_changes(pair("Lost", 0)).await.expect("accepted");
    at(&gateway, 2).await;
    primary.kill_9().await;
    standby.promote().await;

    eventually("the loss is noticed without any write", || async {
        let (status, ready) = readiness(&server.admin_address()).await;
        let problem = ready["problem"].as_str().unwrap_or_default();
        status == 200 && ready["status"] == "degraded" && problem.contains("revision 2")
    })
    .await;
    let refused = client.apply_changes(pair("More", 0)).await.expect_err("no fork");
    assert_eq!(refused.code(), tonic::Code::DataLoss, "{refused}");
    assert_eq!(server.revision().await, 2, "it serves its own state");
    assert_eq!(gateway_revision(&gateway).await, Some(2), "and so does the gateway");

    // Another server knows only the remaining commits and continues. The gateway does not follow
    // it.
    let other = Registry::start_on(&both(&primary, &standby, "lossy"));
    other.client().await.apply_changes(pair("Other", 0)).await.expect("accepted");
    other.client().await.apply_changes(pair("Other", 1)).await.expect("accepted");
    sleep(Duration::from_secs(4)).await;
    let refused = client.apply_changes(pair("More", 0)).await.expect_err("still no fork");
    assert_eq!(refused.code(), tonic::Code::DataLoss, "{refused}");
    assert_eq!(gateway_revision(&gateway).await, Some(2));
}

/// Without fencing, both databases accept writes, and the log forks. A server that reaches the other
/// fork later does not adopt it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fork_without_fencing_is_rejected() {
    let mut primary = PrivateCluster::durable().await;
    primary.create_database("unfenced").await;
    let standby = primary.standby(Replication::Asynchronous).await;
    let server = Registry::start_on(&both(&primary, &standby, "unfenced"));
    let mut client = server.client().await;
    client.apply_changes(pair("Kept", 0)).await.expect("accepted");
    standby_has(&primary).await;
    standby.promote().await;
    let other = Registry::start_on(&both(&standby, &primary, "unfenced"));
    client.apply_changes(pair("Ours", 0)).await.expect("the former primary accepts it");
    other.client().await.apply_changes(pair("Theirs", 0)).await.expect("accepted");
    assert_eq!((server.revision().await, other.revision().await), (2, 2));
    primary.kill_9().await;

    eventually("the other fork is noticed without any write", || async {
        let (status, ready) = readiness(&server.admin_address()).await;
        let problem = ready["problem"].as_str().unwrap_or_default();
        status == 200 && ready["status"] == "degraded" && problem.contains("revision 2")
    })
    .await;
    let refused = client.apply_changes(pair("More", 0)).await.expect_err("no mixed log");
    assert_eq!(refused.code(), tonic::Code::DataLoss, "{refused}");
    assert_eq!(server.revision().await, 2, "it serves its own fork");
    other.client().await.apply_changes(pair("Theirs", 1)).await.expect("its fork continues");
    let refused = client.apply_changes(pair("More", 0)).await.expect_err("still no mixed log");
    assert_eq!(refused.code(), tonic::Code::DataLoss, "{refused}");
}

/// Behind a proxy, servers see only new connections, not a failover.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lagging_standby_behind_proxy_is_detected() {
    let primary = PrivateCluster::durable().await;
    primary.create_database("moved").await;
    let standby = primary.standby(Replication::Asynchronous).await;
    let proxy = FaultProxy::start(&format!("127.0.0.1:{}", primary.port())).await;
    let moved = format!("postgres://postgres@{}/moved", proxy.address());
    let server = Registry::start_with(&moved, &["--poll-interval", "8s"]);
    let mut client = server.client().await;
    client.apply_changes(pair("Kept", 0)).await.expect("accepted");
    standby_has(&primary).await;
    standby.stop_following(&primary).await;
    client.apply_changes(pair("Lost", 0)).await.expect("accepted");
    standby.promote().await;
    // An idle connection is tested before use, and replaced without an error.
    sleep(Duration::from_millis(1_500)).await;
    proxy.lead_to(&format!("127.0.0.1:{}", standby.port()));
    eventually("the loss is noticed without any write", || async {
        let ready = readiness(&server.admin_address()).await.1;
        ready["problem"].as_str().is_some_and(|problem| problem.contains("revision 2"))
    })
    .await;
    proxy.lead_to(&format!("127.0.0.1:{}", primary.port()));
    eventually("the former primary has them", || async {
        readiness(&server.address).await.1["status"] == "ready"
    })
    .await;
    // The first attempt can use a broken connection. A retry is not a second commit.
    eventually("a write is accepted", || {
        let mut client = client.clone();
        async move { client.apply_changes(pair("More", 0)).await.is_ok() }
    })
    .await;
    assert_eq!(server.revision().await, 3);
}

async fn at(gateway: &Gateway, revision: u64) {
    eventually("the gateway is connected", || async {
        gateway_revision(gateway).await == Some(revision)
    })
    .await;
}

async fn standby_has(primary: &PrivateCluster) {
    let all = "SELECT bool_and(replay_lsn >= pg_current_wal_lsn()) FROM pg_stat_replication";
    eventually("the standby has it", || primary.says(all)).await;
}

//! Postgres is restarted, killed and paused.

use std::time::Duration;

use acceptance::{Process, Registry, eventually, postgres::PrivateCluster};
use registry_proto::v1;
use tokio::time::sleep;

use super::{gateway_of, metric};
use crate::{
    concurrent_writers::{
        ConcurrentWriters, assert_followed_without_gap, assert_no_commit_lost, pair,
    },
    deployment::readiness,
};

const WRITABLE: &str = "registry_database_writable";

async fn serves_without_its_database(registry: &Registry) {
    eventually("the loss is noticed", || async {
        readiness(&registry.address).await.1["status"] == "degraded"
    })
    .await;
    let (status, ready) = readiness(&registry.address).await;
    assert_eq!((status, &ready["database"]), (200, &"read-only".into()), "{ready}");
    assert_eq!(ready["problem"], serde_json::Value::Null, "callers learn no host and no user");
    let (_, ready) = readiness(&registry.admin_address()).await;
    assert!(ready["problem"].as_str().is_some_and(|why| why.contains("unavailable")), "{ready}");
    assert_eq!(metric(&registry.admin_address(), WRITABLE).await, Some(0.0));
    let listed = registry.client().await.list_entities(v1::ListEntitiesRequest::default()).await;
    assert!(listed.is_ok(), "reads go on: {listed:?}");
    registry.run(&["sbom", "export", "--all"]);
    let refused =
        registry.client().await.apply_changes(pair("Refused", 0)).await.expect_err("no database");
    assert_eq!(refused.code(), tonic::Code::Unavailable, "{refused}");
    // A new follower is served from memory.
    gateway_of(&[registry]).ready().await;
}

async fn is_writable_again(registry: &Registry) {
    eventually("writes go on", || async {
        readiness(&registry.address).await.1["status"] == "ready"
    })
    .await;
    assert_eq!(metric(&registry.admin_address(), WRITABLE).await, Some(1.0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restarted_postgres_loses_no_commit() {
    let mut cluster = PrivateCluster::durable().await;
    let database = cluster.create_database("restarts").await;
    let servers = [Registry::start_on(&database), Registry::start_on(&database)];
    let gateway = gateway_of(&[&servers[0], &servers[1]]);
    gateway.ready().await;
    let writers = ConcurrentWriters::start(&[servers[0].url(), servers[1].url()], 2, usize::MAX);
    for is_killed in [false, true, false, true] {
        writers.progresses(20).await;
        if is_killed {
            cluster.kill_9().await;
        } else {
            cluster.stop().await;
        }
        serves_without_its_database(&servers[usize::from(is_killed)]).await;
        cluster.restart().await;
        for server in &servers {
            is_writable_again(server).await;
        }
    }
    writers.progresses(20).await;
    let acknowledged = writers.stop().await;
    assert!(acknowledged.revisions.len() > 50, "it recovers: {}", acknowledged.revisions.len());
    assert_no_commit_lost(&servers[0], &acknowledged).await;
    assert_followed_without_gap(&gateway, &servers[1]).await;
}

/// Connections stay open without responses for longer than every timeout of the server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn paused_postgres_loses_no_commit() {
    let cluster = PrivateCluster::durable().await;
    let database = cluster.create_database("pause").await;
    let flags = ["--database-timeout", "1s", "--write-outcome-timeout", "1s"];
    let servers = [(); 2].map(|()| Registry::start_with(&database, &flags));
    let gateway = gateway_of(&[&servers[0], &servers[1]]);
    gateway.ready().await;
    let writers = ConcurrentWriters::start(&[servers[0].url(), servers[1].url()], 2, usize::MAX);
    for _ in 0..2 {
        writers.progresses(20).await;
        cluster.pause();
        serves_without_its_database(&servers[0]).await;
        sleep(Duration::from_secs(4)).await;
        cluster.resume();
        for server in &servers {
            is_writable_again(server).await;
        }
    }
    writers.progresses(20).await;
    let acknowledged = writers.stop().await;
    assert!(acknowledged.revisions.len() > 30, "it recovers: {}", acknowledged.revisions.len());
    assert_no_commit_lost(&servers[1], &acknowledged).await;
    assert_followed_without_gap(&gateway, &servers[0]).await;
}

/// A server without a database has nothing to serve. Its supervisor starts it again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_without_database_exits_with_reason() {
    let mut cluster = PrivateCluster::durable().await;
    let database = cluster.create_database("absent").await;
    cluster.kill_9().await;
    let dir = tempfile::tempdir().expect("a temporary directory");
    let start = || {
        Process::try_start("registry-server", dir.path(), |command| {
            command.args(["--listen", "127.0.0.1:0", "--database", &database]);
            command.arg("--data-dir").arg(dir.path());
        })
    };
    let refused = start().expect_err("there is nothing to serve");
    assert!(refused.code == Some(3) && refused.log.contains("127.0.0.1"), "{refused}");
    cluster.restart().await;
    start().expect("it is back");
}

//! Several servers on one Postgres, and outages of Postgres.

use std::time::Duration;

use acceptance::postgres::{PrivateCluster, database};
use futures_util::future::join_all;
use registry_proto::v1::{self, EntityKind};
use sqlx::{Connection as _, PgConnection};
use tonic::Code;

use crate::{
    follower::{Follower, digest},
    harness::{TestServer, eventually, get, key, new_schema, proven_log, reason},
};

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_servers_keep_one_chain() {
    let database = database().await;
    let (a, b) = (
        TestServer::with(&["--database", database.url()]).await,
        TestServer::with(&["--database", database.url()]).await,
    );
    let (mut at_a, mut at_b) = (Follower::new(&a).await, Follower::new(&b).await);
    let writers = (0..16).map(|writer| {
        let server = if writer % 2 == 0 { &a } else { &b };
        async move {
            let mut client = server.registry().await;
            for i in 0..10 {
                let request = new_schema(&format!("S{writer}-{i}"));
                assert!(client.apply_changes(request).await.unwrap().into_inner().committed);
            }
        }
    });
    join_all(writers).await;
    at_a.reach(160).await;
    at_b.reach(160).await;
    assert_eq!(proven_log(&a).await, proven_log(&b).await);
    assert_eq!(digest(&a).await, digest(&b).await);
    assert_eq!(at_a.catalog, at_b.catalog);
}

/// Each server sends its next write after a response, so the server that won a race knows the head for the next
/// one. Without the lock on the head row, the other server would starve.
#[tokio::test(flavor = "multi_thread")]
async fn slow_server_is_not_starved() {
    let database = database().await;
    let flags = ["--database", database.url(), "--write-attempts", "6"];
    let servers = [TestServer::with(&flags).await, TestServer::with(&flags).await];
    let writers = servers.iter().enumerate().map(|(number, server)| async move {
        let mut client = server.registry().await;
        for i in 0..400 {
            client
                .apply_changes(new_schema(&format!("S{number}-{i}")))
                .await
                .expect("its turn comes");
        }
    });
    join_all(writers).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn commit_of_another_server_is_visible_immediately() {
    let database = database().await;
    // The poll interval is long, so only a notification can be the cause.
    let flags = ["--database", database.url(), "--poll-interval", "1h"];
    let (a, b) = (TestServer::with(&flags).await, TestServer::with(&flags).await);
    let mut follower = Follower::new(&b).await;
    follower.hear().await.unwrap();
    let mut console = PgConnection::connect(database.url()).await.unwrap();
    loop {
        let listeners = "SELECT count(*) FROM pg_stat_activity
                         WHERE datname = current_database() AND query LIKE 'LISTEN %'";
        let listeners: i64 = sqlx::query_scalar(listeners).fetch_one(&mut console).await.unwrap();
        if listeners == 2 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    a.registry().await.apply_changes(new_schema("A")).await.unwrap();
    tokio::time::timeout(Duration::from_secs(2), follower.reach(1)).await.unwrap();
    // A follower that moves to the other server is not ahead of it.
    a.registry().await.apply_changes(new_schema("B")).await.unwrap();
    let mut ahead = Follower::new(&a).await;
    ahead.reach(2).await;
    Follower::resume(&b, ahead.catalog).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn request_id_is_idempotent_across_servers() {
    let database = database().await;
    let flags = ["--database", database.url()];
    let (a, b) = (TestServer::with(&flags).await, TestServer::with(&flags).await);
    for i in 0..20 {
        let request =
            v1::ApplyChangesRequest { request_id: format!("r{i}"), ..new_schema(&format!("S{i}")) };
        let (mut to_a, mut to_b) = (a.registry().await, b.registry().await);
        let (from_a, from_b) =
            tokio::join!(to_a.apply_changes(request.clone()), to_b.apply_changes(request));
        let (from_a, from_b) = (from_a.unwrap().into_inner(), from_b.unwrap().into_inner());
        assert_eq!((from_a.revision, from_a.committed), (from_b.revision, true));
    }
    assert_eq!(proven_log(&a).await.len(), 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn database_outage_fails_writes_only_and_recovers() {
    let mut cluster = PrivateCluster::durable().await;
    let url = cluster.create_database("registry").await;
    let flags =
        ["--database", &*url, "--poll-interval", "200ms", "--write-outcome-timeout", "500ms"];
    let registry = TestServer::with(&flags).await;
    let mut client = registry.registry().await;
    client.apply_changes(new_schema("A")).await.unwrap();
    let mut follower = Follower::new(&registry).await;
    follower.reach(1).await;

    cluster.kill_9().await;
    eventually("the loss is seen", || async {
        get(&registry, "/readyz", "").await.2.contains("degraded")
    })
    .await;
    let refused = client.apply_changes(new_schema("B")).await.unwrap_err();
    assert_eq!((refused.code(), &*reason(&refused)), (Code::Unavailable, "DATABASE_UNAVAILABLE"));
    let get_a = v1::GetEntityRequest {
        key: Some(key(EntityKind::Schema, "A", "1.0.0")),
        include_document: false,
        ..Default::default()
    };
    client.get_entity(get_a).await.unwrap();
    Follower::new(&registry).await.reach(1).await;
    Follower::resume(&registry, follower.catalog.clone()).await.unwrap();

    cluster.restart().await;
    eventually("it writes again", || async {
        registry.registry().await.apply_changes(new_schema("B")).await.is_ok()
    })
    .await;
    follower.reach(2).await;
    assert_eq!(proven_log(&registry).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn write_with_unknown_outcome_is_committed_once() {
    let cluster = PrivateCluster::durable().await;
    let url = cluster.create_database("registry").await;
    let flags = [
        "--database",
        &*url,
        "--poll-interval",
        "1h",
        "--database-timeout",
        "500ms",
        "--write-outcome-timeout",
        "1s",
    ];
    let registry = TestServer::with(&flags).await;
    registry.registry().await.apply_changes(new_schema("A")).await.unwrap();

    cluster.pause();
    let request = v1::ApplyChangesRequest { request_id: "r1".to_owned(), ..new_schema("B") };
    let lost = registry.registry().await.apply_changes(request.clone()).await.unwrap_err();
    assert_eq!((lost.code(), &*reason(&lost)), (Code::Unknown, "OUTCOME_UNKNOWN"));
    assert!(lost.message().contains("request_id"), "{}", lost.message());
    cluster.resume();

    eventually("the retry gets its answer", || async {
        let answer = registry.registry().await.apply_changes(request.clone()).await;
        answer.is_ok_and(|answer| answer.into_inner().committed)
    })
    .await;
    let log = proven_log(&registry).await;
    assert_eq!(log.iter().filter(|c| c.request_id == "r1").count(), 1);
    assert_eq!(log.len(), 2);
}

//! Faults: processes killed with -9, connections cut, databases that go away.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use acceptance::{FaultProxy, Gateway, GatewayOptions, Registry, postgres};
use registry_proto::v1::{self, registry_service_client::RegistryServiceClient};

use crate::world::gateway_revision;

/// A batch of two schemas, the second of which refers to the first.
fn pair(i: usize) -> v1::ApplyRequest {
    let schema = |name: String, schema: String| {
        let version = "1.0.0".to_owned();
        let schema = v1::Schema { name, version, schema, ..Default::default() };
        let entity = v1::Entity { kind: Some(v1::entity::Kind::Schema(schema)) };
        v1::Change { change: Some(v1::change::Change::Register(entity)) }
    };
    let first = schema(format!("First{i}"), r#"{"type":"string"}"#.to_owned());
    let second = schema(format!("Second{i}"), format!("{{\"$ref\":\"#First{i}:1.0.0\"}}"));
    let changes = vec![first, second];
    v1::ApplyRequest { changes, request_id: Some(format!("pair-{i}")), ..Default::default() }
}

/// Applies pairs until told to stop or 1,000 are through; gives the acknowledged ones with their
/// revisions. A failed one is retried with the same request id.
async fn hammer(url: String, stop: Arc<AtomicBool>) -> HashMap<usize, u64> {
    let mut acknowledged = HashMap::new();
    let mut i = 0;
    while i < 1_000 && !stop.load(Ordering::SeqCst) {
        let Ok(mut client) = RegistryServiceClient::connect(url.clone()).await else {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        while let Ok(answer) = client.apply(pair(i)).await {
            acknowledged.insert(i, answer.into_inner().revision);
            i += 1;
            if i == 1_000 {
                break;
            }
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    acknowledged
}

/// Every acknowledged pair is there with its revision, whole; every commit has both its changes.
async fn nothing_lost_nothing_torn(registry: &Registry, acknowledged: &HashMap<usize, u64>) {
    let mut history = registry.history().await;
    let (mut token, mut commits) = (String::new(), HashMap::new());
    let mut expected = 1;
    loop {
        let request =
            v1::ListCommitsRequest { page_size: 1_000, page_token: token, ..Default::default() };
        let page = history.list_commits(request).await.expect("commits").into_inner();
        for commit in page.commits {
            assert_eq!(commit.revision, expected, "no gaps");
            assert_eq!(commit.changes.len(), 2, "torn: {commit:?}");
            expected += 1;
            commits.insert(commit.request_id.clone().expect("a request id"), commit.revision);
        }
        token = page.next_page_token;
        if token.is_empty() {
            break;
        }
    }
    for (i, revision) in acknowledged {
        assert_eq!(commits.get(&format!("pair-{i}")), Some(revision), "pair {i} was acknowledged");
    }
}

#[tokio::test]
async fn a_server_killed_among_a_thousand_applies_loses_nothing() {
    let mut registry = Registry::start();
    let stop = Arc::new(AtomicBool::new(false));
    let writer = tokio::spawn(hammer(registry.url(), stop.clone()));
    let mut kills_among_them = 0;
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_millis(400)).await;
        registry.process.kill_9();
        kills_among_them += usize::from(!writer.is_finished());
        registry.restart();
    }
    assert!(kills_among_them > 0, "the writer was done before the first kill");
    let acknowledged = writer.await.expect("the writer ends");
    assert_eq!(acknowledged.len(), 1_000, "every apply is acknowledged in the end");
    nothing_lost_nothing_torn(&registry, &acknowledged).await;
}

#[tokio::test]
async fn a_postgres_killed_among_applies_loses_nothing() {
    let mut cluster = postgres::PrivateCluster::durable().await;
    let database = cluster.create_database("faults").await;
    let registry = Registry::start_on(&database);
    let stop = Arc::new(AtomicBool::new(false));
    let writer = tokio::spawn(hammer(registry.url(), stop.clone()));
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_millis(700)).await;
        cluster.kill_9().await;
        assert!(
            registry.client().await.list(v1::ListRequest::default()).await.is_ok(),
            "reads go on"
        );
        registry.run(&["sbom", "export", "--all"]);
        cluster.restart().await;
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    stop.store(true, Ordering::SeqCst);
    let acknowledged = writer.await.expect("the writer ends");
    assert!(acknowledged.len() > 50, "the registry recovers: {}", acknowledged.len());
    nothing_lost_nothing_torn(&registry, &acknowledged).await;
}

#[tokio::test]
async fn a_second_signal_ends_a_drain_that_does_not_end() {
    use tokio::io::AsyncWriteExt as _;
    let mut registry = Registry::start();
    let mut stuck = tokio::net::TcpStream::connect(&registry.address).await.expect("connected");
    stuck.write_all(b"GET /registry.json HTTP/1.1\r\nHost: x\r\n").await.expect("written");
    tokio::time::sleep(Duration::from_millis(200)).await;
    registry.process.signal("TERM");
    tokio::time::sleep(Duration::from_secs(1)).await;
    registry.process.signal("TERM");
    let status = registry.process.wait(Duration::from_secs(3));
    assert_eq!(status.code(), Some(1), "{}", registry.process.stderr());
    assert!(registry.process.stderr().contains("a second signal"));
}

/// Whoever opens connections and says nothing takes file descriptors, but not the server.
#[tokio::test]
async fn a_server_out_of_file_descriptors_goes_on_when_there_are_some_again() {
    let registry = Registry::start();
    let pid = registry.process.id().to_string();
    let limited =
        std::process::Command::new("prlimit").args(["--nofile=48", "--pid", &pid]).status();
    assert!(limited.expect("prlimit runs").success());
    let mut silent = Vec::new();
    for _ in 0..100 {
        silent.push(tokio::net::TcpStream::connect(&registry.address).await.expect("queued"));
    }
    acceptance::eventually("the server notices", || async {
        registry.process.stderr().contains("connections cannot be accepted")
    })
    .await;
    drop(silent);
    registry.client().await.apply(pair(0)).await.expect("accepted");
}

#[tokio::test]
async fn a_gateway_cut_off_at_random_bytes_ends_with_the_same_catalog() {
    let registry = Registry::start();
    let proxy = FaultProxy::start(&registry.address).await;
    let options = GatewayOptions {
        source: format!("grpc://{}", proxy.address()),
        targets: String::new(),
        runtime: None,
        more: String::new(),
    };
    proxy.cut_after(600);
    let gateway = Gateway::start(&options);
    let mut client = registry.client().await;
    for i in 0..120 {
        // Cuts fall into the handshake, the snapshot and the deltas, at ever other bytes.
        proxy.cut_after(150 + (i as u64 * 7_919) % 6_000);
        client.apply(pair(i)).await.expect("accepted");
        tokio::time::sleep(Duration::from_millis(15)).await;
    }
    proxy.heal();
    acceptance::eventually("the gateway has all commits", || async {
        gateway_revision(&gateway).await == Some(120)
    })
    .await;
    assert!(proxy.cuts() > 3, "connections were cut: {}", proxy.cuts());
    let metrics = reqwest::get(format!("http://{}/metrics", gateway.address))
        .await
        .unwrap()
        .text()
        .await
        .unwrap();
    let nacks = metrics.lines().find(|line| line.starts_with("gateway_sync_nacks_total"));
    assert!(nacks.is_none_or(|line| line.ends_with(" 0")), "a gap or a duplicate: {nacks:?}");
    assert!(metrics.contains("gateway_sync_reconnects_total"), "{metrics}");
    acceptance::eventually("its cache holds the registry's own state", || async {
        let cached = std::fs::read_to_string(gateway.cache()).unwrap_or_default();
        let url = format!("{}/registry.json", registry.url());
        let served = reqwest::get(url).await.unwrap().text().await.unwrap();
        let digest = |text: &str| {
            let value: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
            (value["revision"].clone(), value["digest"].clone())
        };
        digest(&cached) == digest(&served) && !cached.is_empty()
    })
    .await;
}

#[tokio::test]
async fn a_database_that_cannot_be_used_is_explained() {
    let dir = tempfile::tempdir().unwrap();
    let not_a_database = dir.path().join("text.db");
    std::fs::write(&not_a_database, "this is a letter, not a database. ".repeat(200)).unwrap();
    let cases = [
        (format!("sqlite:{}", not_a_database.display()), "text.db"),
        (format!("sqlite:{}", dir.path().display()), "directory"),
        ("postgres://nobody@127.0.0.1:1/none".to_owned(), "127.0.0.1"),
        ("mysql://x".to_owned(), "postgres://"),
    ];
    for (database, named) in cases {
        let started = acceptance::Process::try_start("registry-server", dir.path(), |command| {
            command.args(["--listen", "127.0.0.1:0", "--database", &database]);
            command.arg("--data-dir").arg(dir.path());
        });
        let error = started.expect_err(&database);
        assert!(error.contains(named), "{database}: {error}");
        assert!(!error.contains("panicked"), "{database}: {error}");
    }
}

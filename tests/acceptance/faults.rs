//! Faults: killed processes, broken connections, unavailable databases.

use std::time::Duration;

use acceptance::{FaultProxy, Gateway, GatewayOptions, Registry};

use crate::concurrent_writers::{
    ConcurrentWriters, assert_followed_without_gap, assert_no_commit_lost, pair,
};

#[tokio::test]
async fn killed_server_loses_no_acknowledged_commit() {
    let mut registry = Registry::start();
    let writer = ConcurrentWriters::start(&[registry.url()], 1, 1_000);
    let mut kills_among_them = 0;
    for _ in 0..4 {
        writer.progresses(20).await;
        registry.process.kill_9();
        kills_among_them += usize::from(writer.is_at_work());
        registry.restart();
    }
    assert!(kills_among_them > 0, "the writer was done before the first kill");
    let acknowledged = writer.finish().await;
    assert_eq!(acknowledged.revisions.len(), 1_000, "every apply is acknowledged in the end");
    assert_no_commit_lost(&registry, &acknowledged).await;
}

#[tokio::test]
async fn second_signal_ends_drain() {
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
}

/// Silent connections use up file descriptors.
#[tokio::test]
async fn server_recovers_from_exhausted_file_descriptors() {
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
        !registry.process.logged(&["WARN registry_server::connections"]).is_empty()
    })
    .await;
    drop(silent);
    registry.client().await.apply_changes(pair("Only", 0)).await.expect("accepted");
}

#[tokio::test]
async fn gateway_converges_after_connection_cuts() {
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
        // Cuts hit the handshake, the snapshot and the deltas at different bytes.
        proxy.cut_after(150 + (i as u64 * 7_919) % 6_000);
        client.apply_changes(pair("Only", i)).await.expect("accepted");
        tokio::time::sleep(Duration::from_millis(15)).await;
    }
    proxy.heal();
    assert_followed_without_gap(&gateway, &registry).await;
    assert!(proxy.cuts() > 3, "connections were cut: {}", proxy.cuts());
    let metrics = reqwest::get(format!("http://{}/metrics", gateway.address)).await;
    let metrics = metrics.expect("metrics").text().await.expect("text");
    assert!(metrics.contains("gateway_sync_reconnects_total"), "{metrics}");
}

#[tokio::test]
async fn unusable_database_is_reported() {
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
        assert!(error.log.contains(named), "{database}: {error}");
        assert!(!error.log.contains("panicked"), "{database}: {error}");
    }
}

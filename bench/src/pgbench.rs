//! pgbench, the peer of the stores on Postgres.

use std::{fs, process::Command};

use acceptance::{Registry, postgres::PrivateCluster};

/// A database with the tables of a server, which has stopped.
pub(crate) async fn create_peer(cluster: &PrivateCluster) -> String {
    let peer = cluster.create_database("bench_peer").await;
    assert!(Registry::start_on(&peer).process.stop().success());
    peer
}

/// Transactions per second of a script, with one connection per client.
pub(crate) fn transactions_per_second(
    database: &str,
    script: &str,
    clients: usize,
    seconds: u64,
) -> f64 {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("script.sql");
    fs::write(&file, script).expect("the script is written");
    let output = Command::new("pgbench")
        .args(["-n", "-M", "prepared", "-j", "2", "-c", &clients.to_string()])
        .args(["-T", &seconds.to_string(), "-f"])
        .arg(&file)
        .arg(database)
        .output()
        .expect("pgbench is installed");
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find_map(|line| line.strip_prefix("tps = "));
    let line = line.unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    line.split_whitespace().next().and_then(|tps| tps.parse().ok()).expect("a number")
}

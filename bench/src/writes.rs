//! Registrations with one entity per request, compared with pgbench and the same rows in one
//! transaction each on the same Postgres.

use std::{fs, process::Command};

use acceptance::{Registry, postgres::PrivateCluster};

use crate::{
    load::{self, Load},
    report::{Report, Row},
    sample,
};

pub(crate) async fn measure(report: &mut Report, seconds: u64) {
    let cluster = PrivateCluster::durable().await;
    let peer = cluster.create_database("bench_peer").await;
    // A server creates the tables and stops.
    assert!(Registry::start_on(&peer).process.stop().success());
    for clients in [1, 16, 64] {
        let sqlite = singles(&Registry::start(), clients, seconds).await;
        report.add_alone(
            format!("register, one schema per request, {clients} clients, SQLite"),
            sqlite.text(),
            "",
        );
        let database = cluster.create_database(&format!("bench_{clients}")).await;
        let postgres = singles(&Registry::start_on(&database), clients, seconds).await;
        let pgbench = pgbench(&peer, clients, seconds);
        report.add(Row {
            path: format!("register, one schema per request, {clients} clients, Postgres"),
            value: postgres.text(),
            baseline: format!("pgbench, same rows, one transaction each: {pgbench:.0}/s"),
            ratio: Some(postgres.per_second / pgbench),
            budget: "> 1 at 64 clients",
        });
    }
}

async fn singles(registry: &Registry, clients: usize, seconds: u64) -> Load {
    let mut connections = Vec::new();
    for _ in 0..clients {
        connections.push(registry.client().await);
    }
    load::run(connections, seconds, |mut client, id| async move {
        let number = usize::try_from(id).expect("64-bit");
        let change = sample::schema(number);
        client.apply_changes(sample::request(vec![change])).await.expect("accepted");
    })
    .await
}

/// Inserts the rows of one registration with pgbench.
const SCRIPT: &str = "
\\set id random(1, 9000000000000000)
BEGIN;
INSERT INTO commits (revision, author, committed_at, message, changes, chain, canonical)
  VALUES (:id, 'bench', now(), '', 1, 'sha256:' || repeat('0', 64), convert_to(repeat('c', 280), 'UTF8'));
INSERT INTO entities (kind, name, version, digest, owner, registered_revision, lifecycle, lifecycle_revision, document)
  VALUES ('schema', 'Query' || :id, '1.0.0', 'sha256:' || repeat('0', 64), 'bench', :id, 'active', :id, convert_to(repeat('d', 330), 'UTF8'));
INSERT INTO changes (revision, ordinal, action, kind, name, version, digest)
  VALUES (:id, 0, 'register', 'schema', 'Query' || :id, '1.0.0', 'sha256:' || repeat('0', 64));
END;
";

/// Transactions per second of pgbench.
fn pgbench(database: &str, clients: usize, seconds: u64) -> f64 {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let script = dir.path().join("register.sql");
    fs::write(&script, SCRIPT).expect("the script is written");
    let output = Command::new("pgbench")
        .args(["-n", "-M", "prepared", "-j", "2", "-c", &clients.to_string()])
        .args(["-T", &seconds.to_string(), "-f"])
        .arg(&script)
        .arg(database)
        .output()
        .expect("pgbench is installed");
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find_map(|line| line.strip_prefix("tps = "));
    let line = line.unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    line.split_whitespace().next().and_then(|tps| tps.parse().ok()).expect("a number")
}

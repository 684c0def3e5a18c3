//! Registrations: one entity a request beside pgbench with the same rows in one transaction each,
//! and batches of 1,000 beside a bare multi-row insert of the same rows, on the same Postgres.
//!
//! Deliberately absent: several servers on one database.

use std::{fs, process::Command, time::Instant};

use acceptance::{Registry, postgres::PrivateCluster};
use sqlx::{Connection, PgConnection};

use crate::{
    load::{self, Load},
    report::{Report, Row},
    sample,
};

const BATCH: usize = 1_000;

/// Measures both stores, and the two peers on the same Postgres.
pub(crate) async fn measure(report: &mut Report, seconds: u64) {
    let cluster = PrivateCluster::durable().await;
    let peer = cluster.create_database("bench_peer").await;
    // A server makes the tables; then the peer has them to itself.
    assert!(Registry::start_on(&peer).process.stop().success());
    for clients in [1, 16, 64] {
        let sqlite = singles(&Registry::start(), clients, seconds).await;
        report.add_alone(
            format!("register, one schema a request, {clients} clients, SQLite"),
            sqlite.text(),
            "",
        );
        let database = cluster.create_database(&format!("bench_{clients}")).await;
        let postgres = singles(&Registry::start_on(&database), clients, seconds).await;
        let pgbench = pgbench(&peer, clients, seconds);
        report.add(Row {
            path: format!("register, one schema a request, {clients} clients, Postgres"),
            value: postgres.text(),
            beside: format!("pgbench, same rows, a transaction each: {pgbench:.0}/s"),
            ratio: Some(postgres.per_second / pgbench),
            budget: "> 1 at 64 clients",
        });
    }
    let database = cluster.create_database("bench_bulk").await;
    let bulk = bulk(&Registry::start_on(&database), seconds).await;
    let bare = bare_insert(&peer, seconds).await;
    report.add(Row {
        path: format!("bulk register, batches of {BATCH}, Postgres"),
        value: format!("{bulk:.0} rows/s"),
        beside: format!("bare multi-row insert: {bare:.0} rows/s"),
        ratio: Some(bulk / bare),
        budget: "≥ 0.5",
    });
    let sqlite = self::bulk(&Registry::start(), seconds).await;
    report.add_alone(
        format!("bulk register, batches of {BATCH}, SQLite"),
        format!("{sqlite:.0} rows/s"),
        "",
    );
}

async fn singles(registry: &Registry, clients: usize, seconds: u64) -> Load {
    let mut connections = Vec::new();
    for _ in 0..clients {
        connections.push(registry.client().await);
    }
    load::run(connections, seconds, |mut client, id| async move {
        let number = usize::try_from(id).expect("64-bit");
        let change = sample::schema(number);
        client.apply(sample::request(vec![change])).await.expect("accepted");
    })
    .await
}

#[expect(clippy::cast_precision_loss, reason = "counts of rows fit a double")]
async fn bulk(registry: &Registry, seconds: u64) -> f64 {
    let mut client = registry.client().await;
    let begin = Instant::now();
    let mut rows = 0;
    while begin.elapsed().as_secs() < seconds {
        let batch = (rows..rows + BATCH).map(sample::schema).collect();
        client.apply(sample::request(batch)).await.expect("accepted");
        rows += BATCH;
    }
    rows as f64 / begin.elapsed().as_secs_f64()
}

/// The rows of one registration, as pgbench inserts them.
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

/// Transactions a second that pgbench reports.
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

/// One commit with 1,000 schemas, as bare statements: what the database alone can do.
const BARE: [&str; 3] = [
    "INSERT INTO commits (revision, author, committed_at, message, changes, chain, canonical)
     VALUES ($1, 'bench', now(), '', 1000, 'sha256:' || repeat('0', 64), convert_to(repeat('c', 150000), 'UTF8'))",
    "INSERT INTO entities (kind, name, version, digest, owner, registered_revision, lifecycle, lifecycle_revision, document)
     SELECT 'schema', name, '1.0.0', 'sha256:' || repeat('0', 64), 'bench', $1, 'active', $1, document
     FROM unnest($2::text[], $3::bytea[]) AS row (name, document)",
    "INSERT INTO changes (revision, ordinal, action, kind, name, version, digest)
     SELECT $1, ordinal::int, 'register', 'schema', name, '1.0.0', 'sha256:' || repeat('0', 64)
     FROM unnest($2::text[]) WITH ORDINALITY AS row (name, ordinal)",
];

#[expect(clippy::cast_precision_loss, reason = "counts of rows fit a double")]
async fn bare_insert(database: &str, seconds: u64) -> f64 {
    let mut connection = PgConnection::connect(database).await.expect("a connection");
    let document = vec![b'd'; 330];
    let begin = Instant::now();
    let (mut rows, mut revision) = (0, 9_100_000_000_000_000_i64);
    while begin.elapsed().as_secs() < seconds {
        let names: Vec<_> = (rows..rows + BATCH).map(|i| format!("Bare{i}")).collect();
        let documents = vec![document.clone(); BATCH];
        let mut transaction = connection.begin().await.expect("a transaction");
        let [commit, entities, changes] = BARE;
        let bound = [
            sqlx::query(commit).bind(revision),
            sqlx::query(entities).bind(revision).bind(&names).bind(&documents),
            sqlx::query(changes).bind(revision).bind(&names),
        ];
        for query in bound {
            query.execute(&mut *transaction).await.expect("inserted");
        }
        transaction.commit().await.expect("committed");
        rows += BATCH;
        revision += 1;
    }
    rows as f64 / begin.elapsed().as_secs_f64()
}

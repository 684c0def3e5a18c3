//! Registrations with one entity per request, compared with pgbench and the same rows in one
//! transaction each on the same Postgres.

use acceptance::{Registry, postgres::PrivateCluster};

use crate::{
    load::{self, Load},
    pgbench,
    report::{Report, Row},
    sample,
};

pub(crate) async fn measure(report: &mut Report, seconds: u64) {
    let cluster = PrivateCluster::durable().await;
    let peer = pgbench::create_peer(&cluster).await;
    for clients in [1, 16, 64] {
        let sqlite = singles(&Registry::start(), clients, seconds).await;
        report.add_alone(
            format!("register, one schema per request, {clients} clients, SQLite"),
            sqlite.text(),
            "",
        );
        let database = cluster.create_database(&format!("bench_{clients}")).await;
        let postgres = singles(&Registry::start_on(&database), clients, seconds).await;
        let pgbench = pgbench::transactions_per_second(&peer, SCRIPT, clients, seconds);
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

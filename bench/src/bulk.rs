//! Registrations in batches of 1,000, compared with a bare multi-row insert of the same rows on the
//! same Postgres.
//!
//! Input is prepared for both sides: the requests, and the rows with canonical texts and digests.

use std::time::{Duration, Instant};

use acceptance::{Registry, postgres::PrivateCluster};
use registry_core::{
    ChainHash, Change, Commit, Document, RegistryId, Revision, SealedCommit, Timestamp,
    commit::Action, rules::Proposed,
};
use registry_proto::convert;
use sqlx::{Connection, PgConnection};

use crate::{
    report::{Report, Row},
    sample,
};

const BATCH: usize = 1_000;

pub(crate) async fn measure(report: &mut Report, seconds: u64) {
    let cluster = PrivateCluster::durable().await;
    let peer = cluster.create_database("bench_peer").await;
    // A server creates the tables and stops.
    assert!(Registry::start_on(&peer).process.stop().success());
    let database = cluster.create_database("bench_bulk").await;
    let postgres = apply(&Registry::start_on(&database), seconds).await;
    let bare = bare_insert(&peer, seconds).await;
    report.add(Row {
        path: format!("bulk register, batches of {BATCH}, Postgres"),
        value: format!("{postgres:.0} rows/s"),
        baseline: format!("bare multi-row insert: {bare:.0} rows/s"),
        ratio: Some(postgres / bare),
        budget: "≥ 0.5",
    });
    let sqlite = apply(&Registry::start(), seconds).await;
    let path = format!("bulk register, batches of {BATCH}, SQLite");
    report.add_alone(path, format!("{sqlite:.0} rows/s"), "");
}

/// Sums up the time of each batch without its preparation.
#[derive(Default)]
struct Stopwatch {
    batches: usize,
    spent: Duration,
}

impl Stopwatch {
    async fn time<T>(&mut self, work: impl Future<Output = T>) -> T {
        let begin = Instant::now();
        let done = work.await;
        self.spent += begin.elapsed();
        self.batches += 1;
        done
    }

    /// The next batch, or `None` after the time is over.
    fn next(&self, seconds: u64) -> Option<Vec<registry_proto::v1::EntityChange>> {
        let first = self.batches * BATCH;
        (self.spent.as_secs() < seconds)
            .then(|| (first..first + BATCH).map(sample::schema).collect())
    }

    #[expect(clippy::cast_precision_loss, reason = "counts of rows fit a double")]
    fn rows_per_second(&self) -> f64 {
        (self.batches * BATCH) as f64 / self.spent.as_secs_f64()
    }
}

async fn apply(registry: &Registry, seconds: u64) -> f64 {
    let mut client = registry.client().await;
    let mut watch = Stopwatch::default();
    while let Some(batch) = watch.next(seconds) {
        let request = sample::request(batch);
        watch.time(client.apply_changes(request)).await.expect("accepted");
    }
    watch.rows_per_second()
}

/// One commit with its schemas as plain statements: the limit of the database.
const BARE: [&str; 3] = [
    "INSERT INTO commits (revision, author, committed_at, message, changes, chain, canonical)
     VALUES ($1, 'bench', now(), '', 1000, $2, $3)",
    "INSERT INTO entities (kind, name, version, digest, owner, registered_revision, lifecycle, lifecycle_revision, document)
     SELECT 'schema', name, '1.0.0', digest, 'bench', $1, 'active', $1, document
     FROM unnest($2::text[], $3::text[], $4::bytea[]) AS row (name, digest, document)",
    "INSERT INTO changes (revision, ordinal, action, kind, name, version, digest)
     SELECT $1, ordinal::int, 'register', 'schema', name, '1.0.0', digest
     FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS row (name, digest, ordinal)",
];

async fn bare_insert(database: &str, seconds: u64) -> f64 {
    let mut connection = PgConnection::connect(database).await.expect("a connection");
    let mut chain = ChainHash::genesis(&RegistryId::new("bench"));
    let mut watch = Stopwatch::default();
    while let Some(batch) = watch.next(seconds) {
        let revision = Revision(watch.batches as u64 + 1);
        let sealed = seal(&chain, revision, batch);
        chain = sealed.chain();
        watch.time(insert(&mut connection, &sealed)).await.expect("inserted");
    }
    watch.rows_per_second()
}

fn seal(
    previous: &ChainHash,
    revision: Revision,
    batch: Vec<registry_proto::v1::EntityChange>,
) -> SealedCommit {
    let document = |proposed| match proposed {
        Proposed::Register(document) => document,
        Proposed::SetLifecycle { .. } => unreachable!("the sample only registers"),
    };
    let documents: Vec<_> =
        convert::batch(batch).expect("valid").into_iter().map(document).collect();
    let register = |document: &std::sync::Arc<Document>| Change {
        key: document.key().clone(),
        action: Action::register(document.digest()),
    };
    let commit = Commit {
        revision,
        author: "bench".to_owned(),
        committed_at: Timestamp::default(),
        changes: documents.iter().map(register).collect(),
        ..Commit::default()
    };
    SealedCommit::seal(previous, commit, documents).expect("its documents fit")
}

async fn insert(connection: &mut PgConnection, sealed: &SealedCommit) -> Result<(), sqlx::Error> {
    let revision = i64::try_from(sealed.revision().0).expect("a small number");
    let documents = sealed.documents();
    let names: Vec<_> = documents.iter().map(|d| d.key().name.as_str()).collect();
    let digests: Vec<_> = documents.iter().map(|d| d.digest().to_string()).collect();
    let texts: Vec<_> = documents.iter().map(|d| &d.bytes()[..]).collect();
    let mut transaction = connection.begin().await?;
    let [commit, entities, changes] = BARE;
    let chain = sealed.chain().to_string();
    let bound = [
        sqlx::query(commit).bind(revision).bind(chain).bind(&sealed.bytes()[..]),
        sqlx::query(entities).bind(revision).bind(&names).bind(&digests).bind(&texts),
        sqlx::query(changes).bind(revision).bind(&names).bind(&digests),
    ];
    for query in bound {
        query.execute(&mut *transaction).await?;
    }
    transaction.commit().await
}

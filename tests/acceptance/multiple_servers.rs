//! Several registry servers on one Postgres: one gap-free chain with immediate visibility. A SQLite
//! file has one server.

use acceptance::{Database, Gateway, GatewayOptions, Process, Registry, postgres};
use registry_proto::v1::{self, ChangeAction, LifecycleState};
use tonic::Code;
use tonic_types::StatusExt as _;

use crate::deployment::gateway_revision;

fn schema(name: &str) -> v1::ApplyChangesRequest {
    let schema = v1::Schema {
        name: name.to_owned(),
        version: "1.0.0".to_owned(),
        schema: r#"{"type":"string"}"#.to_owned(),
        ..Default::default()
    };
    let entity = v1::Entity { kind: Some(v1::entity::Kind::Schema(schema)) };
    let change = v1::EntityChange {
        change: Some(v1::entity_change::Change::RegisterEntity(entity)),
        if_digest: None,
    };
    v1::ApplyChangesRequest { changes: vec![change], ..Default::default() }
}

#[tokio::test]
async fn commit_is_visible_at_other_server() {
    let database = postgres::database().await;
    let (left, right) = (Registry::start_on(database.url()), Registry::start_on(database.url()));
    left.apply_example();
    acceptance::eventually("the other server has the commit", || async {
        right.revision().await == 1
    })
    .await;
    right.apply_file(&acceptance::root().join("examples/new-version.json"));
    acceptance::eventually("and the other way", || async { left.revision().await == 2 }).await;
}

#[tokio::test]
async fn concurrent_writes_keep_gap_free_chain() {
    const EACH: usize = 100;
    let database = postgres::database().await;
    let servers = [Registry::start_on(database.url()), Registry::start_on(database.url())];
    let mut writers = Vec::new();
    for (side, server) in servers.iter().enumerate() {
        for writer in 0..4 {
            let mut client = server.client().await;
            writers.push(tokio::spawn(async move {
                let mut revisions = Vec::new();
                for i in 0..EACH / 4 {
                    let answer =
                        client.apply_changes(schema(&format!("S{side}-{writer}-{i}"))).await;
                    revisions.push(answer.expect("accepted").into_inner().revision);
                }
                revisions
            }));
        }
    }
    let mut revisions = Vec::new();
    for writer in writers {
        revisions.extend(writer.await.expect("a writer ends"));
    }
    revisions.sort_unstable();
    let expected: Vec<u64> = (1..=2 * EACH as u64).collect();
    assert_eq!(revisions, expected, "every acknowledged commit has a revision of its own");
    for server in &servers {
        acceptance::eventually("both end at the same revision", || async {
            server.revision().await == 2 * EACH as u64
        })
        .await;
    }
    let chains = [
        servers[0].ctl(&["log", "--output", "json"]),
        servers[1].ctl(&["log", "--output", "json"]),
    ];
    assert!(chains[0].success(), "{:?}", chains[0]);
    assert_eq!(chains[0].stdout, chains[1].stdout, "both tell the same history");
}

/// Replaces `pg_notify` by a function that does nothing.
const MUTE: &str = "
    CREATE FUNCTION public.pg_notify(text, text) RETURNS void LANGUAGE sql AS 'SELECT';
    DO $$ BEGIN
        EXECUTE format('ALTER DATABASE %I SET search_path = public, pg_catalog', current_database());
    END $$";

/// Two servers on one Postgres without notifications. Each learns of the other's commits only by
/// reading the log.
async fn deaf_servers() -> (Database, Registry, Registry) {
    let database = Database::Postgres(postgres::database().await);
    database.execute(MUTE).await.expect("the owner of a database may do that");
    let start = || Registry::start_with(&database.url(), &["--poll-interval", "1h"]);
    let (left, right) = (start(), start());
    (database, left, right)
}

fn set_state(name: &str, state: LifecycleState) -> v1::ApplyChangesRequest {
    let (kind, name, version) =
        (v1::EntityKind::Schema.into(), name.to_owned(), "1.0.0".to_owned());
    let key = Some(v1::EntityKey { kind, name, version });
    let set = v1::SetLifecycle { key, state: state.into(), ..Default::default() };
    let change = v1::EntityChange {
        change: Some(v1::entity_change::Change::SetLifecycle(set)),
        if_digest: None,
    };
    v1::ApplyChangesRequest { changes: vec![change], ..Default::default() }
}

async fn apply(server: &Registry, request: v1::ApplyChangesRequest) -> v1::ApplyChangesResponse {
    server.client().await.apply_changes(request).await.expect("accepted").into_inner()
}

#[tokio::test]
async fn lagging_server_commits_instead_of_answering_unchanged() {
    let (_database, left, right) = deaf_servers().await;
    apply(&left, schema("X")).await;
    apply(&right, set_state("X", LifecycleState::Deprecated)).await;
    assert_eq!(apply(&left, set_state("X", LifecycleState::Active)).await.revision, 3);
    assert_eq!(right.revision().await, 2, "it lags, and shows X as deprecated");
    let again = apply(&right, set_state("X", LifecycleState::Deprecated)).await;
    assert_eq!((again.committed, again.revision), (true, 4));
    let unchanged = apply(&left, set_state("X", LifecycleState::Deprecated)).await;
    assert_eq!((unchanged.committed, unchanged.revision), (false, 4), "it looked at the log");
}

#[tokio::test]
async fn lagging_server_rejects_only_what_the_log_rejects() {
    let (_database, left, right) = deaf_servers().await;
    apply(&left, schema("X")).await;
    let deprecated = apply(&right, set_state("X", LifecycleState::Deprecated)).await;
    assert_eq!(deprecated.revision, 2, "X is known although only the other server has read it");
    let based = v1::ApplyChangesRequest {
        base_revision: Some(2),
        ..set_state("X", LifecycleState::Active)
    };
    assert_eq!(apply(&left, based).await.revision, 3, "it lagged at revision 1");
    let ahead = v1::ApplyChangesRequest { base_revision: Some(4), ..schema("Y") };
    let refused =
        right.client().await.apply_changes(ahead).await.expect_err("there is no revision 4");
    assert_eq!(refused.code(), Code::Aborted);
    let info = refused.get_details_error_info().expect("an ErrorInfo");
    assert_eq!(
        (&*info.reason, &*info.metadata["currentRevision"]),
        ("BASE_REVISION_MISMATCH", "3")
    );
}

#[tokio::test]
async fn lagging_server_plans_dry_runs_against_the_head() {
    let (_database, left, right) = deaf_servers().await;
    apply(&left, schema("X")).await;
    let dry_run = v1::ApplyChangesRequest {
        validate_only: true,
        base_revision: Some(1),
        ..set_state("X", LifecycleState::Deprecated)
    };
    let planned = apply(&right, dry_run).await;
    assert_eq!((planned.revision, planned.plan[0].action()), (1, ChangeAction::Deprecate));
}

#[tokio::test]
async fn follower_continues_at_another_server() {
    let database = postgres::database().await;
    let (mut left, right) =
        (Registry::start_on(database.url()), Registry::start_on(database.url()));
    left.apply_example();
    let source = format!("grpc://{},{}", left.address, right.address);
    let (targets, more) = (String::new(), String::new());
    let gateway = Gateway::start(&GatewayOptions { source, targets, runtime: None, more });
    let at = |revision| {
        let gateway = &gateway;
        acceptance::eventually("the gateway is connected", move || async move {
            gateway_revision(gateway).await == Some(revision)
        })
    };
    at(1).await;
    left.process.kill_9();
    right.apply_file(&acceptance::root().join("examples/new-version.json"));
    at(2).await;
    assert_eq!(gateway.snapshots(), 1, "it resumes at the other");

    let both = format!("http://{},http://{}", left.address, right.address);
    let listed = acceptance::ctl(&both, &["list", "agent"]);
    assert!(listed.success() && listed.stdout.contains("research-agent"), "{listed:?}");
    drop(right);
    let unreachable = acceptance::ctl(&both, &["list", "agent"]);
    assert_eq!(unreachable.code, 3, "{unreachable:?}");
    assert!(unreachable.stderr.contains(&both), "{unreachable:?}");
}

#[test]
fn second_server_on_sqlite_file_is_rejected() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let second = || {
        Process::try_start("registry-server", dir.path(), |command| {
            command.args(["--listen", "127.0.0.1:0", "--data-dir"]).arg(dir.path());
        })
    };
    let mut first = second().expect("the file is not locked yet");
    let refused = second().expect_err("the first has it");
    let directory = format!("{}/", dir.path().display());
    let message = refused.log.lines().last().expect("a message").replace(&directory, "");
    insta::assert_snapshot!("locked-database", message);
    let (file, link) = (dir.path().join("registry.db"), dir.path().join("link.db"));
    std::os::unix::fs::symlink(file, &link).expect("a link");
    let linked = Process::try_start("registry-server", dir.path(), |command| {
        command.args(["--listen", "127.0.0.1:0", "--data-dir"]).arg(dir.path());
        command.args(["--database", &format!("sqlite:{}", link.display())]);
    });
    assert!(linked.expect_err("it is the same file").log.contains("registry.db.lock"));
    first.kill_9();
    second().expect("what a killed server held is free");
}

//! Several registry servers on one Postgres: one gap-free chain, seen by all at once. A SQLite file has
//! one.

use acceptance::{Gateway, GatewayOptions, Process, Registry, postgres};
use registry_proto::v1;

use crate::world::gateway_revision;

fn schema(name: &str) -> v1::ApplyRequest {
    let schema = v1::Schema {
        name: name.to_owned(),
        version: "1.0.0".to_owned(),
        schema: r#"{"type":"string"}"#.to_owned(),
        ..Default::default()
    };
    let entity = v1::Entity { kind: Some(v1::entity::Kind::Schema(schema)) };
    let change = v1::Change { change: Some(v1::change::Change::Register(entity)) };
    v1::ApplyRequest { changes: vec![change], ..Default::default() }
}

#[tokio::test]
async fn what_one_accepts_the_other_shows_at_once() {
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
async fn two_servers_hammered_at_once_keep_one_gap_free_chain() {
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
                    let answer = client.apply(schema(&format!("S{side}-{writer}-{i}"))).await;
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

#[tokio::test]
async fn who_knows_several_servers_goes_on_with_another_one() {
    let database = postgres::database().await;
    let (mut left, right) =
        (Registry::start_on(database.url()), Registry::start_on(database.url()));
    left.apply_example();
    let source = format!("grpc://{},{}", left.address, right.address);
    let (targets, more) = (String::new(), String::new());
    let gateway = Gateway::start(&GatewayOptions { source, targets, runtime: None, more });
    let at = |revision| {
        let gateway = &gateway;
        acceptance::eventually("the gateway is there", move || async move {
            gateway_revision(gateway).await == Some(revision)
        })
    };
    at(1).await;
    left.process.kill_9();
    right.apply_file(&acceptance::root().join("examples/new-version.json"));
    at(2).await;
    let log = gateway.process.stderr();
    assert_eq!(log.matches("took a snapshot").count(), 1, "it resumes at the other: {log}");

    let both = format!("http://{},http://{}", left.address, right.address);
    let listed = acceptance::ctl(&both, &["list", "agent"]);
    assert!(listed.success() && listed.stdout.contains("research-agent"), "{listed:?}");
    drop(right);
    let nobody = acceptance::ctl(&both, &["list", "agent"]);
    assert_eq!(nobody.code, 3, "{nobody:?}");
    assert!(nobody.stderr.contains(&both), "{nobody:?}");
}

#[test]
fn a_second_server_on_a_sqlite_file_does_not_start() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let second = || {
        Process::try_start("registry-server", dir.path(), |command| {
            command.args(["--listen", "127.0.0.1:0", "--data-dir"]).arg(dir.path());
        })
    };
    let mut first = second().expect("nobody has the file yet");
    let refused = second().expect_err("the first has it");
    assert!(refused.contains("registry.db.lock: another registry-server holds it"), "{refused}");
    assert!(refused.contains("several servers share a Postgres database"), "{refused}");
    let (file, link) = (dir.path().join("registry.db"), dir.path().join("link.db"));
    std::os::unix::fs::symlink(file, &link).expect("a link");
    let linked = Process::try_start("registry-server", dir.path(), |command| {
        command.args(["--listen", "127.0.0.1:0", "--data-dir"]).arg(dir.path());
        command.args(["--database", &format!("sqlite:{}", link.display())]);
    });
    assert!(linked.expect_err("it is the same file").contains("another registry-server holds it"));
    first.kill_9();
    second().expect("what a killed server held is free");
}

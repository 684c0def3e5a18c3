//! The fleet: current and former followers of all servers, and the rollout of revisions.

use std::time::Duration;

use acceptance::{
    Database, FaultProxy, Gateway, GatewayOptions, Registry, access::Guarded, ctl, postgres, root,
};
use registry_proto::v1::{self, sync_request, sync_response};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

const EXAMPLE: &str = "examples/registry-v2.json";
const NEWER: &str = "examples/new-version.json";

fn gateway(name: &str, registry: &Registry) -> Gateway {
    Gateway::start(&GatewayOptions {
        source: format!("grpc://{}", registry.address),
        targets: String::new(),
        runtime: None,
        more: format!("name: {name}\n"),
    })
}

/// The listed gateway with this name, or null.
fn listed(registry: &Registry, name: &str) -> Value {
    let Value::Array(all) = registry.json(&["fleet", "list", "--prefix", name]) else {
        panic!("no list")
    };
    assert!(all.len() < 2, "{all:?}");
    all.into_iter().next().unwrap_or_default()
}

async fn is_listed(registry: &Registry, name: &str, state: &str, applied: u64) {
    let what = format!("{name} is {state} with revision {applied}");
    acceptance::eventually(&what, || async {
        let gateway = listed(registry, name);
        gateway["state"] == state && gateway["appliedRevision"] == applied
    })
    .await;
}

#[tokio::test]
async fn gateway_is_listed_during_and_after_connection() {
    for database in Database::both().await {
        let mut registry = Registry::start_on(&database.url());
        registry.apply_example();
        let (mut killed, _lives) = (gateway("killed", &registry), gateway("lives", &registry));
        for name in ["killed", "lives"] {
            is_listed(&registry, name, "connected", 1).await;
            acceptance::eventually("it says how its disk is", || async {
                let listed = listed(&registry, name);
                listed["cacheState"] == "ok" && listed["persistedRevision"] == 1
            })
            .await;
        }
        let connected = listed(&registry, "killed");
        assert_eq!((&connected["scope"], &connected["lagSeconds"]), (&"*".into(), &0.0.into()));
        killed.process.kill_9();
        is_listed(&registry, "killed", "gone", 1).await;
        registry.apply_file(&root().join(NEWER));
        let gone = listed(&registry, "killed");
        assert_eq!((&gone["lag"], &gone["server"]), (&1.into(), &connected["server"]));
        assert!(gone["lagSeconds"].as_f64().is_some_and(|seconds| seconds > 0.0), "{gone}");
        let noted = "SELECT count(*) FROM gateways WHERE gone_at IS NOT NULL";
        acceptance::eventually("that it is gone is noted", || async {
            database.number(noted).await == 1
        })
        .await;
        is_listed(&registry, "lives", "connected", 2).await;
        registry.process.kill_9();
        registry.restart();
        acceptance::eventually("the other follows the next process", || async {
            let lives = listed(&registry, "lives");
            lives["server"] != gone["server"] && lives["appliedRevision"] == 2
        })
        .await;
        let remembered = listed(&registry, "killed");
        for field in ["state", "appliedRevision", "server", "address", "connectedAt"] {
            assert_eq!(remembered[field], gone[field], "{field}");
        }
        let names = |flag: &str| {
            let listed = registry.run(&["fleet", "list", flag]);
            ["killed", "lives"].map(|name| listed.contains(name))
        };
        assert_eq!((names("--gone"), names("--connected")), ([true, false], [false, true]));
        let behind = registry.run(&["fleet", "list", "--behind", "2"]);
        assert!(behind.contains("killed") && !behind.contains("lives"), "{behind}");
    }
}

#[tokio::test]
async fn servers_on_one_database_list_all_gateways() {
    let database = postgres::database().await;
    let (left, mut right) =
        (Registry::start_on(database.url()), Registry::start_on(database.url()));
    left.apply_example();
    let (_here, _there) = (gateway("at-left", &left), gateway("at-right", &right));
    for server in [&left, &right] {
        is_listed(server, "at-left", "connected", 1).await;
        is_listed(server, "at-right", "connected", 1).await;
    }
    let applied = left.json(&["apply", "-f", NEWER, "--yes", "--wait", "100%"]);
    assert_eq!((&applied["revision"], &applied["rollout"]["applied"]), (&2.into(), &2.into()));
    let status = right.json(&["rollout", "status", "2"]);
    assert_eq!((&status["connected"], &status["applied"]), (&2.into(), &2.into()), "{status}");
    right.process.stop();
    is_listed(&left, "at-right", "gone", 2).await;
}

#[tokio::test]
async fn gateways_are_listed_without_database() {
    let mut cluster = postgres::PrivateCluster::durable().await;
    let url = cluster.create_database("fleet").await;
    let registry = Registry::start_on(&url);
    registry.apply_example();
    let mut leaves = gateway("leaves", &registry);
    is_listed(&registry, "leaves", "connected", 1).await;
    cluster.kill_9().await;
    let _comes = gateway("comes", &registry);
    is_listed(&registry, "comes", "connected", 1).await;
    leaves.process.kill_9();
    is_listed(&registry, "leaves", "gone", 1).await;
    let listed = registry.ctl(&["fleet", "list"]);
    insta::assert_snapshot!("fleet-of-one-server", listed.stderr);
    let wait = ["rollout", "status", "1", "--wait", "--timeout", "1s", "--output", "json"];
    let waited = registry.ctl(&wait);
    assert_eq!(waited.code, 6, "others may be missing: {waited:?}");
    assert_eq!(waited.json()["liveOnly"], true, "{waited:?}");
    cluster.restart().await;
    acceptance::eventually("the database is read again", || async {
        registry.ctl(&["fleet", "list"]).stderr.is_empty()
    })
    .await;
    registry.run(&["rollout", "status", "1", "--wait", "--timeout", "1m"]);
    let other = Registry::start_on(&url);
    is_listed(&other, "comes", "connected", 1).await;
    is_listed(&other, "leaves", "gone", 1).await;
}

/// A follower that applies the first revision and rejects the next one.
async fn refuse(registry: &Registry) -> mpsc::Sender<v1::SyncRequest> {
    let (says, said) = mpsc::channel(16);
    let say = |message| v1::SyncRequest { message: Some(message) };
    let hello = v1::ClientHello { gateway: "stubborn".to_owned(), ..Default::default() };
    says.send(say(sync_request::Message::Hello(hello))).await.expect("there is room");
    let opened = registry.sync().await.sync(ReceiverStream::new(said)).await;
    let mut hears = opened.expect("the stream opens").into_inner();
    let answers = says.clone();
    tokio::spawn(async move {
        while let Ok(Some(message)) = hears.message().await {
            let answer = match message.message {
                Some(sync_response::Message::SnapshotEnd(_)) => {
                    let ack = v1::Ack { applied_revision: 1, ..Default::default() };
                    sync_request::Message::Ack(ack)
                }
                Some(sync_response::Message::Delta(delta)) => {
                    let found = v1::Diagnostic {
                        code: "source-unknown".to_owned(),
                        severity: v1::DiagnosticSeverity::Error.into(),
                        pointer: "/source".to_owned(),
                        message: "there is no such server here".to_owned(),
                        ..Default::default()
                    };
                    let message = "it does not fit".to_owned();
                    let nack =
                        v1::Nack { revision: delta.revision, message, diagnostics: vec![found] };
                    sync_request::Message::Nack(nack)
                }
                _ => continue,
            };
            let _ = answers.send(v1::SyncRequest { message: Some(answer) }).await;
        }
    });
    says
}

#[tokio::test]
async fn rejected_revision_ends_rollout_wait() {
    for database in Database::both().await {
        let registry = Registry::start_on(&database.url());
        registry.apply_example();
        let _gateway = gateway("willing", &registry);
        is_listed(&registry, "willing", "connected", 1).await;
        let _stubborn = refuse(&registry).await;
        is_listed(&registry, "stubborn", "connected", 1).await;
        let half = ["apply", "-f", NEWER, "--yes", "--wait", "50%"];
        let rollout = registry.json(&half)["rollout"].clone();
        assert_eq!((&rollout["applied"], &rollout["connected"]), (&1.into(), &2.into()));
        acceptance::eventually("the refusal is known", || async {
            listed(&registry, "stubborn")["rejection"]["revision"] == 2
        })
        .await;
        let status = registry.run(&["rollout", "status", "2"]);
        let lines = [
            "revision 2: 1 of 2 connected gateways have applied it, 1 rejects it",
            "revision 2: it does not fit",
            "Findings of stubborn:",
            "error[source-unknown]: there is no such server here",
        ];
        for line in lines {
            assert!(status.contains(line), "{line} is not in\n{status}");
        }
        assert!(!status.contains("willing"), "{status}");
        let failed = registry.ctl(&["rollout", "status", "2", "--wait", "95%"]);
        assert_eq!(failed.code, 6, "{failed:?}");
        let why = "revision 2: 1 of 2 connected gateways have applied it, 95% required: too many \
                   gateways reject it; stubborn rejects revision 2: it does not fit";
        assert!(failed.stderr.contains(why), "{failed:?}");
        assert!(failed.stdout.contains("source-unknown"), "{failed:?}");
        // An unchanged batch also waits for the rollout.
        let again = ["apply", "-f", NEWER, "--yes", "--wait", "--output", "json"];
        let failed = registry.ctl(&again);
        let outcome: Value = serde_json::from_str(&failed.stdout).expect("one result");
        assert_eq!((failed.code, &outcome["committed"]), (6, &false.into()), "{failed:?}");
        let behind = &outcome["rollout"]["behind"];
        assert_eq!(behind[0]["gateway"], "stubborn", "{outcome}");
        let found = &behind[0]["rejection"]["diagnostics"][0];
        assert_eq!(
            (&found["code"], &found["pointer"]),
            (&"source-unknown".into(), &"/source".into())
        );
    }
}

#[tokio::test]
async fn gateway_reports_findings_of_rejected_revision() {
    let registry = Registry::start();
    registry.apply_example();
    let proxy = FaultProxy::start(&registry.address).await;
    let _gateway = Gateway::start(&GatewayOptions {
        source: format!("grpc://{}", proxy.address()),
        targets: String::new(),
        runtime: None,
        more: "name: deceived\n".to_owned(),
    });
    is_listed(&registry, "deceived", "connected", 1).await;
    // This text is part of a schema document.
    proxy.falsify("Search words");
    registry.run(&["apply", "-f", NEWER, "--yes"]);
    // While it comes again it may be there twice.
    let deceived = || registry.json(&["fleet", "list", "--prefix", "deceived"])[0].take();
    acceptance::eventually("it is known", || async { !deceived()["rejection"].is_null() }).await;
    let refusal = deceived()["rejection"].take();
    let found = &refusal["diagnostics"][0];
    assert_eq!(refusal["revision"], 2, "{refusal}");
    assert_eq!(refusal["diagnostics"].as_array().map(Vec::len), Some(1), "{refusal}");
    assert_eq!(
        (&found["code"], &found["severity"], &found["entity"], &found["pointer"]),
        (
            &"document-invalid".into(),
            &"error".into(),
            &"schema/SearchQuery@1.1.0".into(),
            &"".into()
        ),
        "{refusal}"
    );
    let why = found["message"].as_str().expect("a text");
    assert!(why.contains(" sha256:"), "the digests are named: {refusal}");
    proxy.falsify("");
    acceptance::eventually("it is well again", || async {
        let now = deceived();
        now["appliedRevision"] == 2 && now["rejection"].is_null()
    })
    .await;
}

#[tokio::test]
async fn apply_waits_for_gateways() {
    for database in Database::both().await {
        let mut registry = Registry::start_on(&database.url());
        let alone = ["apply", "-f", EXAMPLE, "--yes", "--wait", "--timeout", "1s"];
        let waited = registry.ctl(&[&alone[..], &["--output", "json"]].concat());
        assert_eq!(waited.code, 6, "{waited:?}");
        let waited = waited.json();
        assert_eq!(
            (&waited["committed"], &waited["rollout"]["connected"]),
            (&true.into(), &0.into())
        );
        let alone = ["rollout", "status", "1", "--wait", "--timeout", "1s"];
        insta::assert_snapshot!("wait-without-gateways", registry.ctl(&alone).stderr);
        let (first, _second) = (gateway("first", &registry), gateway("second", &registry));
        for name in ["first", "second"] {
            is_listed(&registry, name, "connected", 1).await;
        }
        let applied = registry.json(&["apply", "-f", NEWER, "--yes", "--wait", "95%"]);
        let rollout = &applied["rollout"];
        assert_eq!((&applied["committed"], &applied["revision"]), (&true.into(), &2.into()));
        assert_eq!((&rollout["applied"], &rollout["connected"]), (&2.into(), &2.into()));
        for name in ["first", "second"] {
            assert_eq!(listed(&registry, name)["appliedRevision"], 2, "it is true when it is said");
        }
        first.process.signal("STOP");
        registry.run(&["deprecate", "--yes", "tool/get_webpage@1.0.0", "--message", "use fetch"]);
        let stopped = registry.ctl(&["rollout", "status", "3", "--wait", "--timeout", "2s"]);
        assert_eq!(stopped.code, 6, "{stopped:?}");
        insta::assert_snapshot!("incomplete-rollout", stopped.stderr);
        registry.run(&["rollout", "status", "3", "--wait", "50%"]);
        let url = registry.url();
        let status = ["rollout", "status", "3", "--wait", "--output", "json"];
        let waiting = tokio::task::spawn_blocking(move || ctl(&url, &status));
        tokio::time::sleep(Duration::from_secs(1)).await;
        registry.process.kill_9();
        registry.restart();
        is_listed(&registry, "second", "connected", 3).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert!(!waiting.is_finished(), "disconnected gateways are waited for");
        first.process.signal("CONT");
        let waited = waiting.await.expect("it ends");
        let waited = waited.json();
        assert_eq!((&waited["applied"], &waited["connected"]), (&2.into(), &2.into()), "{waited}");
        let early = ["rollout", "status", "9", "--wait", "--timeout", "1s", "--output", "json"];
        let early = registry.ctl(&early);
        assert!(early.code == 6 && early.json()["head"] == 3, "{early:?}");
    }
}

#[tokio::test]
async fn missing_auditor_role_fails_before_apply() {
    let guarded = Guarded::start(&[]);
    let token = guarded.token("ci", "docs", "publisher");
    let apply = ["apply", "-f", EXAMPLE, "--yes", "--wait", "--token", &token];
    let refused = guarded.registry.ctl(&apply);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.stderr.contains("auditor"), "{refused:?}");
    let listed = guarded.registry.run(&["log", "--token", &guarded.admin]);
    assert!(!listed.contains("anonymous") && listed.lines().count() == 1, "{listed}");
}

#[test]
fn dry_run_rejects_wait() {
    let registry = Registry::start();
    let refused = registry.ctl(&["apply", "-f", EXAMPLE, "--dry-run", "--wait"]);
    assert_eq!(refused.code, 2, "{refused:?}");
}

//! A relay that stops while it stores a backlog serves the last signed state.

use acceptance::{Gateway, Registry, eventually};
use sqlx::{Connection as _, SqliteConnection};

use super::{following_options, key_of, pinned_options, reaches};
use crate::{concurrent_writers::pair, deployment::readiness};

/// More than two pages of one store operation.
const BACKLOG: u64 = 600;

async fn execute(database: &str, sql: &'static str) {
    let mut connection = SqliteConnection::connect(database).await.expect("the relay's database");
    sqlx::query(sql).execute(&mut connection).await.expect("executed");
}

async fn stored(database: &str) -> i64 {
    let mut connection = SqliteConnection::connect(database).await.expect("the relay's database");
    sqlx::query_scalar("SELECT revision FROM head")
        .fetch_one(&mut connection)
        .await
        .expect("a head")
}

async fn commit(registry: &Registry, count: u64) {
    let mut client = registry.client().await;
    for _ in 0..count {
        let number = usize::try_from(registry.revision().await).expect("a number");
        client.apply_changes(pair("Backlog", number)).await.expect("accepted");
    }
}

/// A registry and its relay, which cannot store its whole backlog.
async fn in_the_middle() -> (Registry, Registry) {
    let mut registry = Registry::start();
    commit(&registry, 3).await;
    let mut relay = registry.start_relay(&["--follow-key", &key_of(&registry)]);
    eventually("the relay is connected", || async { relay.revision().await == 3 }).await;
    relay.process.kill_9();
    commit(&registry, BACKLOG).await;
    // After a restart, the registry has a signature only for its head.
    registry.process.kill_9();
    registry.restart();
    let refuse = "CREATE TRIGGER stop BEFORE INSERT ON commits WHEN NEW.revision = 400 \
                  BEGIN SELECT RAISE(ABORT, 'stopped-by-test'); END";
    execute(relay.database(), refuse).await;
    relay.restart();
    eventually("it cannot store all", || async {
        relay.process.stderr().contains("stopped-by-test")
    })
    .await;
    let there = stored(relay.database()).await;
    assert!(there > 3 && there < 400, "a part is stored: {there}");
    assert_eq!(relay.revision().await, 3, "no partial state is visible");
    (registry, relay)
}

#[tokio::test]
async fn killed_relay_serves_last_signed_state() {
    let (mut registry, mut relay) = in_the_middle().await;
    let key = key_of(&registry);
    registry.process.kill_9();
    relay.process.kill_9();
    execute(relay.database(), "DROP TRIGGER stop").await;
    relay.restart();
    let gateway = Gateway::start(&pinned_options(&relay, &key, ""));
    reaches(&gateway, 3).await;
    assert_eq!(relay.revision().await, 3, "its reported revision is the served one");
    assert_eq!(readiness(&relay.address).await.1["status"], "degraded");

    registry.restart();
    let all = 3 + BACKLOG;
    reaches(&gateway, all).await;
    assert_eq!(relay.revision().await, all);
    let verified = relay.ctl(&["audit", "verify"]);
    assert!(verified.success(), "{verified:?}");
    let chain = |server: &Registry| server.run(&["log", "--limit", "1", "--output", "json"]);
    assert_eq!(chain(&relay), chain(&registry));
}

#[tokio::test]
async fn relay_resumes_after_partial_store() {
    let (registry, relay) = in_the_middle().await;
    let gateway = Gateway::start(&following_options(&relay, ""));
    reaches(&gateway, 3).await;
    execute(relay.database(), "DROP TRIGGER stop").await;
    reaches(&gateway, 3 + BACKLOG).await;
    assert_eq!(relay.revision().await, registry.revision().await);
}

#[tokio::test]
async fn unsigned_commits_are_bounded() {
    let mut registry = Registry::start();
    commit(&registry, 3).await;
    let few = ["--follow-key", &key_of(&registry), "--relay-buffer-bytes", "20000"];
    let mut relay = registry.start_relay(&few);
    eventually("the relay is connected", || async { relay.revision().await == 3 }).await;
    relay.process.kill_9();
    commit(&registry, 100).await;
    // After a restart, the registry has a signature only for its head.
    registry.process.kill_9();
    registry.restart();
    relay.restart();
    let gateway = Gateway::start(&following_options(&relay, ""));
    eventually("it says why, and what to do", || async {
        let ready = readiness(&relay.admin_address()).await.1;
        ready["status"] == "degraded" && ready.to_string().contains("raise --relay-buffer-bytes")
    })
    .await;
    assert!(relay.process.stderr().contains("20000 bytes"));
    reaches(&gateway, 3).await;
    assert_eq!(stored(relay.database()).await, 3);

    relay.process.kill_9();
    let database = relay.database().to_owned();
    let follow = format!("grpc://{}", registry.address);
    let more = Registry::start_with(&database, &["--follow", &follow]);
    eventually("with more room it goes on", || async { more.revision().await == 103 }).await;
}

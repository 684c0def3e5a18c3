//! A relay that is stopped while it stores a backlog: it goes on serving the last state that was signed.

use acceptance::{Gateway, Registry, eventually};
use sqlx::{Connection as _, SqliteConnection};

use super::{following, key_of, pinned, reaches};
use crate::{hammer::pair, world::readiness};

/// More than two pages of what a relay stores at once.
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
        client.apply(pair("Backlog", number)).await.expect("accepted");
    }
}

/// A registry and its relay, which has stored a part of a backlog that it cannot store all of.
async fn in_the_middle() -> (Registry, Registry) {
    let mut registry = Registry::start();
    commit(&registry, 3).await;
    let mut relay = registry.start_relay(&["--follow-key", &key_of(&registry)]);
    eventually("the relay is there", || async { relay.revision().await == 3 }).await;
    relay.process.kill_9();
    commit(&registry, BACKLOG).await;
    // After a restart it knows no signatures but that on its head.
    registry.process.kill_9();
    registry.restart();
    let refuse = "CREATE TRIGGER stop BEFORE INSERT ON commits WHEN NEW.revision = 400 \
                  BEGIN SELECT RAISE(ABORT, 'stopped by the test'); END";
    execute(relay.database(), refuse).await;
    relay.restart();
    eventually("it cannot store all", || async {
        relay.process.stderr().contains("cannot store the commits")
    })
    .await;
    let there = stored(relay.database()).await;
    assert!(there > 3 && there < 400, "a part is stored: {there}");
    assert_eq!(relay.revision().await, 3, "nobody is shown a part");
    (registry, relay)
}

#[tokio::test]
async fn a_relay_killed_in_the_middle_of_storing_serves_what_was_signed_last() {
    let (mut registry, mut relay) = in_the_middle().await;
    let key = key_of(&registry);
    registry.process.kill_9();
    relay.process.kill_9();
    execute(relay.database(), "DROP TRIGGER stop").await;
    relay.restart();
    let gateway = Gateway::start(&pinned(&relay, &key, ""));
    reaches(&gateway, 3).await;
    assert_eq!(relay.revision().await, 3, "what it says it is at is what it serves");
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
async fn a_relay_that_could_store_a_part_alone_goes_on_with_the_rest() {
    let (registry, relay) = in_the_middle().await;
    let gateway = Gateway::start(&following(&relay, ""));
    reaches(&gateway, 3).await;
    execute(relay.database(), "DROP TRIGGER stop").await;
    reaches(&gateway, 3 + BACKLOG).await;
    assert_eq!(relay.revision().await, registry.revision().await);
}

#[tokio::test]
async fn what_waits_for_a_signature_is_bounded() {
    let mut registry = Registry::start();
    commit(&registry, 3).await;
    let few = ["--follow-key", &key_of(&registry), "--relay-buffer-bytes", "20000"];
    let mut relay = registry.start_relay(&few);
    eventually("the relay is there", || async { relay.revision().await == 3 }).await;
    relay.process.kill_9();
    commit(&registry, 100).await;
    // After a restart it knows no signatures but that on its head.
    registry.process.kill_9();
    registry.restart();
    relay.restart();
    let gateway = Gateway::start(&following(&relay, ""));
    eventually("it says why, and what to do", || async {
        let ready = readiness(&relay.admin_address()).await.1;
        ready["status"] == "degraded" && ready.to_string().contains("raise --relay-buffer-bytes")
    })
    .await;
    assert!(relay.process.stderr().contains("more than 20000 bytes of commits"));
    reaches(&gateway, 3).await;
    assert_eq!(stored(relay.database()).await, 3);

    relay.process.kill_9();
    let database = relay.database().to_owned();
    let follow = format!("grpc://{}", registry.address);
    let more = Registry::start_with(&database, &["--follow", &follow]);
    eventually("with more room it goes on", || async { more.revision().await == 103 }).await;
}

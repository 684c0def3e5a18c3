//! What a relay takes from whoever stands between it and its registry: nothing that the registry has
//! not signed.

use std::time::{Duration, Instant};

use acceptance::{FaultProxy, Gateway, Registry, eventually, root};
use registry_core::{ChainHash, Commit, SealedCommit, registry_file::read_export};
use registry_proto::{
    convert::sealed_commit,
    v1::{SyncResponse, sync_response::Message},
};
use serde_json::Value;

use super::{AGENT, between::Between, following, key_of, pinned, reaches};
use crate::{
    hammer::pair,
    world::{gateway_revision, readiness},
};

async fn is_at(relay: &Registry, revision: u64) {
    eventually("the relay is there", || async { relay.revision().await == revision }).await;
}

/// Of this server, by its readiness page.
async fn status(server: &Registry) -> Value {
    readiness(&server.address).await.1["status"].take()
}

/// No word of the registry comes through.
fn unsigned(mut message: SyncResponse) -> Option<SyncResponse> {
    message.attestation = None;
    Some(message).filter(|it| !matches!(it.message, Some(Message::Progress(_))))
}

/// Another author of the commit after a chain hash, and a chain that fits.
fn forged(before: &ChainHash, message: SyncResponse) -> Option<SyncResponse> {
    let Some(Message::Delta(delta)) = message.message else { return unsigned(message) };
    let sealed = sealed_commit(before, delta).expect("proved");
    let commit = Commit { author: "mallory".to_owned(), ..sealed.commit().clone() };
    let forged = SealedCommit::seal(before, commit, sealed.documents().to_vec()).expect("sealed");
    Some(SyncResponse { message: Some(Message::Delta((&forged).into())), attestation: None })
}

#[tokio::test]
async fn a_relay_keeps_to_what_is_signed_whatever_else_it_is_told() {
    let registry = Registry::start();
    registry.apply_example();
    let key = key_of(&registry);
    let exported = reqwest::get(format!("{}/registry.json", registry.url())).await;
    let exported = exported.expect("an answer").bytes().await.expect("bytes");
    let before = read_export(&exported).expect("an export").chain();
    let between = Between::start(&registry).await;
    let mut relay = Registry::start_relay_of(&between.address.to_string(), &["--follow-key", &key]);
    is_at(&relay, 1).await;
    let gateway = Gateway::start(&following(&relay, ""));
    reaches(&gateway, 1).await;

    for is_forged in [false, true] {
        between.changes(move |it| if is_forged { forged(&before, it) } else { unsigned(it) });
        relay.process.kill_9();
        relay.restart();
        if registry.revision().await == 1 {
            registry.apply_file(&root().join("examples/new-version.json"));
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(relay.revision().await, 1);
        // What it holds it serves, also to those who come now.
        let new = Gateway::start(&following(&relay, ""));
        reaches(&new, 1).await;
        assert_eq!(gateway_revision(&gateway).await, Some(1));
    }
    between.changes(Some);
    relay.process.kill_9();
    relay.restart();
    is_at(&relay, 2).await;
    reaches(&gateway, 2).await;
    let log = relay.run(&["log", "--output", "json"]);
    assert_eq!(log, registry.run(&["log", "--output", "json"]));
}

/// Signatures of scopes are said to be of later revisions.
fn promised(mut message: SyncResponse) -> SyncResponse {
    if let Some(Message::Step(step)) = &mut message.message
        && let Some(position) = &mut step.position
    {
        position.revision += 1_000_000_000;
    }
    message
}

#[tokio::test]
async fn a_scope_without_signatures_is_served_to_who_needs_none() {
    let registry = Registry::start();
    registry.apply_example();
    let key = key_of(&registry);
    let between = Between::start(&registry).await;
    between.changes(|message| Some(promised(message)));
    let mut relay = Registry::start_relay_of(&between.address.to_string(), &["--follow-key", &key]);
    is_at(&relay, 1).await;
    let trusting = Gateway::start(&following(&relay, AGENT));
    reaches(&trusting, 1).await;
    registry.apply_file(&root().join("examples/new-version.json"));
    is_at(&relay, 2).await;
    // It waits for longer than it would take to ask for them again.
    tokio::time::sleep(Duration::from_secs(30)).await;
    reaches(&trusting, 2).await;
    assert!(relay.process.stderr().contains("signatures of a scope"), "it says why");
    // With the true ones everybody is; started anew, it need not wait to ask for them again.
    between.changes(Some);
    relay.process.kill_9();
    relay.restart();
    let careful = Gateway::start(&pinned(&relay, &key, AGENT));
    reaches(&careful, 2).await;
}

#[tokio::test]
async fn who_follows_a_relay_of_a_relay_knows_how_old_the_news_is() {
    let dir = tempfile::tempdir().expect("a directory");
    let database = format!("sqlite:{}", dir.path().join("registry.db").display());
    let often = ["--heartbeat-interval", "300ms"];
    let mut registry = Registry::start_with(&database, &often);
    registry.apply_example();
    let near = registry.start_relay(&often);
    let far = near.start_relay(&often);
    let gateway =
        Gateway::start(&following(&far, "maxStaleness: { tools: 4s, readOnlyTools: 8s }"));
    reaches(&gateway, 1).await;
    let verdict = |wanted: &'static str| {
        let address = gateway.address.clone();
        async move { readiness(&address).await.1["staleness"] == wanted }
    };
    eventually("what is new is known to be", || verdict("serve")).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(verdict("serve").await, "nothing is wrong");
    registry.process.kill_9();
    eventually("it is old", || verdict("refuse")).await;
    // Both relays are there, and know that they have heard nothing.
    tokio::time::sleep(Duration::from_secs(15)).await;
    for relay in [&near, &far] {
        eventually("the relay says so", || async { status(relay).await == "degraded" }).await;
    }
    registry.restart();
    // Who has waited for so long looks seldom: every 30 s.
    eventually("it is new again", || verdict("serve")).await;
}

/// What a relay that lags passes on is as old as the registry's signature says beside the age that
/// the relay tells, however new it is to the follower.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_comes_late_is_not_taken_for_news() {
    let dir = tempfile::tempdir().expect("a directory");
    let database = format!("sqlite:{}", dir.path().join("registry.db").display());
    let registry = Registry::start_with(&database, &["--heartbeat-interval", "300ms"]);
    registry.apply_example();
    let lagging = Between::start(&registry).await;
    lagging.changes(|mut message| {
        if let Some(Message::Progress(progress)) = &mut message.message {
            progress.age_ms = 60_000;
        }
        Some(message)
    });
    let far =
        Registry::start_relay_of(&lagging.address.to_string(), &["--heartbeat-interval", "300ms"]);
    let limits = "maxStaleness: { tools: 10s, readOnlyTools: 20s }";
    let gateway = Gateway::start(&following(&far, limits));
    let verdict = async || readiness(&gateway.address).await.1["staleness"].clone();
    reaches(&gateway, 1).await;
    eventually("it is told to be old", || async { verdict().await == "refuse" }).await;
    registry.apply_file(&root().join("examples/new-version.json"));
    reaches(&gateway, 2).await;
    for _ in 0..30 {
        assert_eq!(verdict().await, "refuse", "the commit is as old as its signature");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    lagging.changes(Some);
    eventually("it is new", || async { verdict().await == "serve" }).await;
}

/// A relay that has yet to hear how old the news is says an age beyond all bounds; that is not what time
/// it is.
#[tokio::test(flavor = "multi_thread")]
async fn who_has_not_heard_of_the_registry_makes_no_later_news_old() {
    let dir = tempfile::tempdir().expect("a directory");
    let database = format!("sqlite:{}", dir.path().join("registry.db").display());
    let registry = Registry::start_with(&database, &["--heartbeat-interval", "300ms"]);
    registry.apply_example();
    let between = Between::start(&registry).await;
    between.changes(|mut message| {
        if let Some(Message::Progress(progress)) = &mut message.message {
            progress.age_ms = u64::MAX;
        }
        Some(message)
    });
    let relay = Registry::start_relay_of(&between.address.to_string(), &[]);
    let limits = "maxStaleness: { tools: 2s, readOnlyTools: 3s }";
    let gateway = Gateway::start(&following(&relay, limits));
    let verdict = async || readiness(&gateway.address).await.1["staleness"].clone();
    reaches(&gateway, 1).await;
    eventually("nobody knows how old it is", || async { verdict().await == "refuse" }).await;
    between.changes(Some);
    eventually("it is new", || async { verdict().await == "serve" }).await;
    // While commits come all the time, nothing else says how old they are.
    let mut client = registry.client().await;
    let began = Instant::now();
    for number in 0.. {
        client.apply(pair("News", number)).await.expect("accepted");
        assert_eq!(verdict().await, "serve", "after {:?}", began.elapsed());
        if began.elapsed() > Duration::from_secs(6) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Commits that come all the time leave no quiet in which to say how old the news is.
#[tokio::test(flavor = "multi_thread")]
async fn how_old_the_news_is_is_told_while_commits_flow() {
    let dir = tempfile::tempdir().expect("a directory");
    let database = format!("sqlite:{}", dir.path().join("registry.db").display());
    let often = ["--heartbeat-interval", "300ms"];
    let registry = Registry::start_with(&database, &often);
    registry.apply_example();
    let between = Between::start(&registry).await;
    between.changes(|mut message| {
        if let Some(Message::Progress(progress)) = &mut message.message {
            progress.age_ms = u64::MAX;
        }
        Some(message)
    });
    let relay = Registry::start_relay_of(&between.address.to_string(), &often);
    let mut client = registry.client().await;
    let writing = tokio::spawn(async move {
        for number in 0.. {
            client.apply(pair("com.news.", number)).await.expect("accepted");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    let limits = "maxStaleness: { tools: 2s, readOnlyTools: 3s }";
    let whole = Gateway::start(&following(&relay, limits));
    let part = format!("{limits}\n  scope: [\"com.news.*\"]");
    let part = Gateway::start(&following(&relay, &part));
    let verdict = async |of: &Gateway| readiness(&of.address).await.1["staleness"].clone();
    for gateway in [&whole, &part] {
        let unknown = "nobody knows how old it is";
        eventually(unknown, || async { verdict(gateway).await == "refuse" }).await;
    }
    between.changes(Some);
    for gateway in [&whole, &part] {
        eventually("it is new", || async { verdict(gateway).await == "serve" }).await;
    }
    assert!(!writing.is_finished(), "commits still come");
    writing.abort();
}

/// More than a page, none of which is signed but by the last of it.
#[tokio::test]
async fn a_long_log_is_copied_whole_and_followed_from_anywhere() {
    let registry = Registry::start();
    let mut client = registry.client().await;
    let mut commit = async |number| {
        client.apply(pair("Long", number)).await.expect("accepted");
    };
    for number in 0..300 {
        commit(number).await;
    }
    let mut relay = registry.start_relay(&["--follow-key", &key_of(&registry)]);
    is_at(&relay, 300).await;
    let gateway = Gateway::start(&following(&relay, ""));
    reaches(&gateway, 300).await;
    relay.process.kill_9();
    for number in 300..1_000 {
        commit(number).await;
    }
    relay.restart();
    is_at(&relay, 1_000).await;
    reaches(&gateway, 1_000).await;
    let verified = relay.ctl(&["audit", "verify"]);
    assert!(verified.success(), "{verified:?}");
    let chain = |server: &Registry| server.run(&["log", "--limit", "1", "--output", "json"]);
    assert_eq!(chain(&relay), chain(&registry));
}

/// Each goes to the other one, when their registry is gone.
#[tokio::test]
async fn two_relays_do_not_take_each_other_for_their_registry() {
    let mut registry = Registry::start();
    registry.apply_example();
    // Where the second will be, the first has to know before.
    let way = FaultProxy::start(&registry.address).await;
    let also = |other: &str| format!("{},{other}", registry.address);
    let first = Registry::start_relay_of(&also(&way.address()), &[]);
    let second = Registry::start_relay_of(&also(&first.address), &[]);
    way.lead_to(&second.address);
    eventually("both follow", || async {
        status(&first).await == "ready" && status(&second).await == "ready"
    })
    .await;
    registry.process.kill_9();
    tokio::time::sleep(Duration::from_secs(30)).await;
    for relay in [&first, &second] {
        let gone = "it says that its registry is gone";
        eventually(gone, || async { status(relay).await == "degraded" }).await;
    }
}

//! A relay accepts nothing from its upstream that the registry has not signed.

use std::time::{Duration, Instant};

use acceptance::{FaultProxy, Gateway, Registry, eventually, root};
use registry_core::{ChainHash, Commit, SealedCommit, registry_file::read_export};
use registry_proto::{
    convert::{duration, sealed_commit},
    v1::{SyncResponse, sync_response::Message},
};
use serde_json::Value;

use super::{AGENT, following_options, key_of, pinned_options, reaches, sync_proxy::SyncProxy};
use crate::{
    concurrent_writers::pair,
    deployment::{gateway_revision, readiness},
};

async fn is_at(relay: &Registry, revision: u64) {
    eventually("the relay is connected", || async { relay.revision().await == revision }).await;
}

async fn status(server: &Registry) -> Value {
    readiness(&server.address).await.1["status"].take()
}

/// Drops all signatures and ages.
fn without_signatures(mut message: SyncResponse) -> Option<SyncResponse> {
    message.attestation = None;
    Some(message).filter(|it| !matches!(it.message, Some(Message::Heartbeat(_))))
}

/// Changes the author of the commit after a chain hash, and computes a matching chain.
fn forged(before: &ChainHash, message: SyncResponse) -> Option<SyncResponse> {
    let Some(Message::Delta(delta)) = message.message else { return without_signatures(message) };
    let sealed = sealed_commit(before, delta).expect("proved");
    let commit = Commit { author: "mallory".to_owned(), ..sealed.commit().clone() };
    let forged = SealedCommit::seal(before, commit, sealed.documents().to_vec()).expect("sealed");
    Some(SyncResponse { message: Some(Message::Delta((&forged).into())), attestation: None })
}

#[tokio::test]
async fn relay_serves_only_signed_states() {
    let registry = Registry::start();
    registry.apply_example();
    let key = key_of(&registry);
    let exported = reqwest::get(format!("{}/registry.json", registry.url())).await;
    let exported = exported.expect("an answer").bytes().await.expect("bytes");
    let before = read_export(&exported).expect("an export").chain();
    let proxy = SyncProxy::start(&registry).await;
    let mut relay = Registry::start_relay_of(&proxy.address.to_string(), &["--follow-key", &key]);
    is_at(&relay, 1).await;
    let gateway = Gateway::start(&following_options(&relay, ""));
    reaches(&gateway, 1).await;

    for is_forged in [false, true] {
        proxy.rewrite(
            move |it| if is_forged { forged(&before, it) } else { without_signatures(it) },
        );
        relay.process.kill_9();
        relay.restart();
        if registry.revision().await == 1 {
            registry.apply_file(&root().join("examples/new-version.json"));
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(relay.revision().await, 1);
        // The relay serves its own state, also to new followers.
        let new = Gateway::start(&following_options(&relay, ""));
        reaches(&new, 1).await;
        assert_eq!(gateway_revision(&gateway).await, Some(1));
    }
    proxy.rewrite(Some);
    relay.process.kill_9();
    relay.restart();
    is_at(&relay, 2).await;
    reaches(&gateway, 2).await;
    let log = relay.run(&["log", "--output", "json"]);
    assert_eq!(log, registry.run(&["log", "--output", "json"]));
}

/// Assigns later revisions to the signatures of scopes.
fn with_later_revisions(mut message: SyncResponse) -> SyncResponse {
    if let Some(Message::ScopeDelta(step)) = &mut message.message
        && let Some(position) = &mut step.position
    {
        position.revision += 1_000_000_000;
    }
    message
}

#[tokio::test]
async fn unsigned_scope_is_served_without_pinned_key() {
    let registry = Registry::start();
    registry.apply_example();
    let key = key_of(&registry);
    let proxy = SyncProxy::start(&registry).await;
    proxy.rewrite(|message| Some(with_later_revisions(message)));
    let mut relay = Registry::start_relay_of(&proxy.address.to_string(), &["--follow-key", &key]);
    is_at(&relay, 1).await;
    let trusting = Gateway::start(&following_options(&relay, AGENT));
    reaches(&trusting, 1).await;
    registry.apply_file(&root().join("examples/new-version.json"));
    is_at(&relay, 2).await;
    // Longer than the interval of signature requests.
    tokio::time::sleep(Duration::from_secs(30)).await;
    reaches(&trusting, 2).await;
    let warnings =
        relay.process.logged(&["WARN registry_server::relay::scope_signatures", "scope="]);
    assert!(!warnings.is_empty(), "it logs why");
    // With valid signatures, all followers are served. A restarted gateway does not wait for the
    // next request.
    proxy.rewrite(Some);
    relay.process.kill_9();
    relay.restart();
    let careful = Gateway::start(&pinned_options(&relay, &key, AGENT));
    reaches(&careful, 2).await;
}

#[tokio::test]
async fn catalog_age_is_correct_through_chained_relays() {
    let dir = tempfile::tempdir().expect("a directory");
    let database = format!("sqlite:{}", dir.path().join("registry.db").display());
    let often = ["--heartbeat-interval", "300ms"];
    let mut registry = Registry::start_with(&database, &often);
    registry.apply_example();
    let near = registry.start_relay(&often);
    let far = near.start_relay(&often);
    let gateway =
        Gateway::start(&following_options(&far, "maxStaleness: { tools: 4s, readOnlyTools: 8s }"));
    reaches(&gateway, 1).await;
    let verdict = |wanted: &'static str| {
        let address = gateway.address.clone();
        async move { readiness(&address).await.1["staleness"] == wanted }
    };
    eventually("a new state is known to be new", || verdict("serve")).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(verdict("serve").await, "nothing is wrong");
    registry.process.kill_9();
    eventually("it is old", || verdict("reject")).await;
    // Both relays are running without contact to the registry.
    tokio::time::sleep(Duration::from_secs(15)).await;
    for relay in [&near, &far] {
        eventually("the relay says so", || async { status(relay).await == "degraded" }).await;
    }
    registry.restart();
    // After a long wait, the relay polls every 30 s.
    eventually("it is new again", || verdict("serve")).await;
}

/// A delayed state is as old as the time of its signature plus the age that the relay reports, even
/// if it is new to the follower.
#[tokio::test(flavor = "multi_thread")]
async fn delayed_commit_does_not_reset_age() {
    let dir = tempfile::tempdir().expect("a directory");
    let database = format!("sqlite:{}", dir.path().join("registry.db").display());
    let registry = Registry::start_with(&database, &["--heartbeat-interval", "300ms"]);
    registry.apply_example();
    let lagging = SyncProxy::start(&registry).await;
    lagging.rewrite(|mut message| {
        if let Some(Message::Heartbeat(progress)) = &mut message.message {
            progress.staleness = Some(duration(Duration::from_mins(1)));
        }
        Some(message)
    });
    let far =
        Registry::start_relay_of(&lagging.address.to_string(), &["--heartbeat-interval", "300ms"]);
    let limits = "maxStaleness: { tools: 10s, readOnlyTools: 20s }";
    let gateway = Gateway::start(&following_options(&far, limits));
    let verdict = async || readiness(&gateway.address).await.1["staleness"].clone();
    reaches(&gateway, 1).await;
    eventually("it is reported as old", || async { verdict().await == "reject" }).await;
    registry.apply_file(&root().join("examples/new-version.json"));
    reaches(&gateway, 2).await;
    for _ in 0..30 {
        assert_eq!(verdict().await, "reject", "the commit is as old as its signature");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    lagging.rewrite(Some);
    eventually("it is new", || async { verdict().await == "serve" }).await;
}

/// A relay without contact reports the maximum age, which must not be used as a time.
#[tokio::test(flavor = "multi_thread")]
async fn disconnected_relay_does_not_age_later_state() {
    let dir = tempfile::tempdir().expect("a directory");
    let database = format!("sqlite:{}", dir.path().join("registry.db").display());
    let registry = Registry::start_with(&database, &["--heartbeat-interval", "300ms"]);
    registry.apply_example();
    let proxy = SyncProxy::start(&registry).await;
    proxy.rewrite(|mut message| {
        if let Some(Message::Heartbeat(progress)) = &mut message.message {
            progress.staleness = Some(duration(Duration::MAX));
        }
        Some(message)
    });
    let relay = Registry::start_relay_of(&proxy.address.to_string(), &[]);
    let limits = "maxStaleness: { tools: 2s, readOnlyTools: 3s }";
    let gateway = Gateway::start(&following_options(&relay, limits));
    let verdict = async || readiness(&gateway.address).await.1["staleness"].clone();
    reaches(&gateway, 1).await;
    eventually("its age is unknown", || async { verdict().await == "reject" }).await;
    proxy.rewrite(Some);
    eventually("it is new", || async { verdict().await == "serve" }).await;
    // During continuous commits, no other message reports the age.
    let mut client = registry.client().await;
    let began = Instant::now();
    for number in 0.. {
        client.apply_changes(pair("News", number)).await.expect("accepted");
        assert_eq!(verdict().await, "serve", "after {:?}", began.elapsed());
        if began.elapsed() > Duration::from_secs(6) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Continuous commits leave no idle interval for progress messages.
#[tokio::test(flavor = "multi_thread")]
async fn age_is_reported_during_commits() {
    let dir = tempfile::tempdir().expect("a directory");
    let database = format!("sqlite:{}", dir.path().join("registry.db").display());
    let often = ["--heartbeat-interval", "300ms"];
    let registry = Registry::start_with(&database, &often);
    registry.apply_example();
    let proxy = SyncProxy::start(&registry).await;
    proxy.rewrite(|mut message| {
        if let Some(Message::Heartbeat(progress)) = &mut message.message {
            progress.staleness = Some(duration(Duration::MAX));
        }
        Some(message)
    });
    let relay = Registry::start_relay_of(&proxy.address.to_string(), &often);
    let mut client = registry.client().await;
    let writing = tokio::spawn(async move {
        for number in 0.. {
            client.apply_changes(pair("com.news.", number)).await.expect("accepted");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    let limits = "maxStaleness: { tools: 2s, readOnlyTools: 3s }";
    let whole = Gateway::start(&following_options(&relay, limits));
    let part = format!("{limits}\n  scope: [\"com.news.*\"]");
    let part = Gateway::start(&following_options(&relay, &part));
    let verdict = async |of: &Gateway| readiness(&of.address).await.1["staleness"].clone();
    for gateway in [&whole, &part] {
        let unknown = "its age is unknown";
        eventually(unknown, || async { verdict(gateway).await == "reject" }).await;
    }
    proxy.rewrite(Some);
    for gateway in [&whole, &part] {
        eventually("it is new", || async { verdict(gateway).await == "serve" }).await;
    }
    assert!(!writing.is_finished(), "commits still come");
    writing.abort();
}

/// More than one page of commits, with a signature only for the last commit.
#[tokio::test]
async fn long_log_is_replicated_completely() {
    let registry = Registry::start();
    let mut client = registry.client().await;
    let mut commit = async |number| {
        client.apply_changes(pair("Long", number)).await.expect("accepted");
    };
    for number in 0..300 {
        commit(number).await;
    }
    let mut relay = registry.start_relay(&["--follow-key", &key_of(&registry)]);
    is_at(&relay, 300).await;
    let gateway = Gateway::start(&following_options(&relay, ""));
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

/// Each relay follows the other one after their registry stops.
#[tokio::test]
async fn relays_following_each_other_grow_stale() {
    let mut registry = Registry::start();
    registry.apply_example();
    // The first relay needs the address of the second one before that starts.
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

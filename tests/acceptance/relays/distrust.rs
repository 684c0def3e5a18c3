//! What a relay takes from whoever stands between it and its registry: nothing that the registry has
//! not signed.
//!
//! Deliberately absent: what followers take from a relay (`relays.rs`).

use std::time::Duration;

use acceptance::{FaultProxy, Gateway, GatewayOptions, Registry, eventually, root};
use registry_core::{ChainHash, Commit, SealedCommit, registry_file::read_export};
use registry_proto::{
    convert::sealed_commit,
    v1::{SyncResponse, sync_response::Message},
};

use super::{AGENT, between::Between, key_of, reaches};
use crate::{hammer::pair, world::gateway_revision};

/// A relay of whatever stands at an address, with a database of its own.
struct Relay {
    server: Registry,
    _dir: tempfile::TempDir,
}

impl Relay {
    fn of(address: impl std::fmt::Display, key: &str) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let database = format!("sqlite:{}", dir.path().join("registry.db").display());
        let follow = format!("grpc://{address}");
        let flags = ["--follow", &follow, "--follow-key", key];
        Self { server: Registry::start_with(&database, &flags), _dir: dir }
    }

    async fn is_at(&self, revision: u64) {
        eventually("the relay is there", || async { self.server.revision().await == revision })
            .await;
    }
}

fn follower(server: &Registry, more: &str) -> GatewayOptions {
    let source = format!("grpc://{}\n  {more}", server.address);
    GatewayOptions { source, targets: String::new(), runtime: None, more: String::new() }
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
    let mut relay = Relay::of(between.address, &key);
    relay.is_at(1).await;
    let gateway = Gateway::start(&follower(&relay.server, ""));
    reaches(&gateway, 1).await;

    for is_forged in [false, true] {
        between.changes(move |it| if is_forged { forged(&before, it) } else { unsigned(it) });
        relay.server.process.kill_9();
        relay.server.restart();
        if registry.revision().await == 1 {
            registry.apply_file(&root().join("examples/new-version.json"));
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(relay.server.revision().await, 1);
        // What it holds it serves, also to those who come now.
        let new = Gateway::start(&follower(&relay.server, ""));
        reaches(&new, 1).await;
        assert_eq!(gateway_revision(&gateway).await, Some(1));
    }
    between.changes(Some);
    relay.server.process.kill_9();
    relay.server.restart();
    relay.is_at(2).await;
    reaches(&gateway, 2).await;
    let log = relay.server.run(&["log", "--output", "json"]);
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
    let mut relay = Relay::of(between.address, &key);
    relay.is_at(1).await;
    let trusting = Gateway::start(&follower(&relay.server, AGENT));
    reaches(&trusting, 1).await;
    registry.apply_file(&root().join("examples/new-version.json"));
    relay.is_at(2).await;
    // It waits for longer than it would take to ask for them again.
    tokio::time::sleep(Duration::from_secs(30)).await;
    reaches(&trusting, 2).await;
    assert!(relay.server.process.stderr().contains("signatures of a scope"), "it says why");
    // With the true ones everybody is; started anew, it need not wait to ask for them again.
    between.changes(Some);
    relay.server.process.kill_9();
    relay.server.restart();
    let careful = Gateway::start(&follower(&relay.server, &format!("key: {key}\n  {AGENT}")));
    reaches(&careful, 2).await;
}

#[tokio::test]
async fn who_follows_a_relay_of_a_relay_knows_how_old_the_news_is() {
    let dir = tempfile::tempdir().expect("a directory");
    let database = format!("sqlite:{}", dir.path().join("registry.db").display());
    let often = ["--progress-interval", "300ms"];
    let mut registry = Registry::start_with(&database, &often);
    registry.apply_example();
    let near = registry.start_relay(&often);
    let far = near.start_relay(&often);
    let gateway = Gateway::start(&follower(&far, "maxStaleness: { tools: 4s, readOnlyTools: 8s }"));
    reaches(&gateway, 1).await;
    let verdict = |wanted: &'static str| {
        let url = format!("http://{}/readyz", gateway.address);
        async move {
            let ready = reqwest::get(url).await.expect("an answer").text().await.expect("text");
            ready.contains(&format!("\"staleness\":\"{wanted}\""))
        }
    };
    eventually("what is new is known to be", || verdict("serve")).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(verdict("serve").await, "nothing is wrong");
    registry.process.kill_9();
    eventually("it is old", || verdict("refuse")).await;
    // Both relays are there, and know that they have heard nothing.
    tokio::time::sleep(Duration::from_secs(15)).await;
    for relay in [&near, &far] {
        eventually("the relay says so", || async {
            let ready = reqwest::get(format!("http://{}/readyz", relay.address)).await;
            ready.expect("an answer").text().await.expect("text").contains("\"degraded\"")
        })
        .await;
    }
    registry.restart();
    eventually("it is new again", || verdict("serve")).await;
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
    let mut relay = Relay::of(&registry.address, &key_of(&registry));
    relay.is_at(300).await;
    let gateway = Gateway::start(&follower(&relay.server, ""));
    reaches(&gateway, 300).await;
    relay.server.process.kill_9();
    for number in 300..1_000 {
        commit(number).await;
    }
    relay.server.restart();
    relay.is_at(1_000).await;
    reaches(&gateway, 1_000).await;
    let verified = relay.server.ctl(&["audit", "verify"]);
    assert!(verified.success(), "{verified:?}");
    let chain = |server: &Registry| server.run(&["log", "--limit", "1", "--output", "json"]);
    assert_eq!(chain(&relay.server), chain(&registry));
}

/// Each goes to the other one, when their registry is gone.
#[tokio::test]
async fn two_relays_do_not_take_each_other_for_their_registry() {
    let mut registry = Registry::start();
    registry.apply_example();
    // Where the second will be, the first has to know before.
    let way = FaultProxy::start(&registry.address).await;
    let also = |other: &str| format!("grpc://{},{other}", registry.address);
    let (dirs, mut relays) = ([tempfile::tempdir(), tempfile::tempdir()], Vec::new());
    for dir in &dirs {
        let dir = dir.as_ref().expect("a directory").path();
        let other = relays.last().map_or(way.address(), |first: &Registry| first.address.clone());
        let database = format!("sqlite:{}", dir.join("registry.db").display());
        relays.push(Registry::start_with(&database, &["--follow", &also(&other)]));
    }
    let [first, second] = &relays[..] else { panic!("two") };
    way.lead_to(&second.address);
    eventually("both follow", || async {
        is_ready(first).await == "ready" && is_ready(second).await == "ready"
    })
    .await;
    registry.process.kill_9();
    tokio::time::sleep(Duration::from_secs(30)).await;
    for relay in [first, second] {
        eventually("it says that its registry is gone", || async {
            is_ready(relay).await == "degraded"
        })
        .await;
    }
}

async fn is_ready(server: &Registry) -> String {
    let ready = reqwest::get(format!("http://{}/readyz", server.address)).await;
    let ready = ready.expect("an answer").text().await.expect("text");
    let words = ["degraded", "ready", "syncing"];
    words.into_iter().find(|word| ready.contains(&format!("\"{word}\""))).unwrap_or("").to_owned()
}

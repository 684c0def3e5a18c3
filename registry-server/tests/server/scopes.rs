//! Followers of a scope: exact content at every revision, through reconnects and scope changes.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use proptest::{collection::vec, prelude::*, sample::select, test_runner::Config};
use registry_core::{Catalog, Key, Revision, Scope};
use registry_proto::v1::{
    self, Entity, EntityKind, LifecycleState, sync_request, sync_response::Message,
};
use tonic::Code;

use crate::{
    follower::Follower,
    harness::{TestServer, batch, eventually, key, reason, register, schema_of, set_lifecycle},
};

fn scope(roots: &[&str]) -> Scope {
    Scope::from_roots(roots).unwrap()
}

/// A schema with a reference to another one.
fn linked(name: &str, version: &str, to: &str) -> Entity {
    let target = if to.is_empty() { "true".to_owned() } else { format!(r##"{{"$ref":"#{to}"}}"##) };
    schema_of(name, version, &format!(r#"{{"items":{target}}}"#))
}

async fn add(registry: &TestServer, name: &str, version: &str, to: &str) {
    let change = batch([register(linked(name, version, to))]);
    registry.registry().await.apply_changes(change).await.unwrap();
}

async fn deprecate(registry: &TestServer, name: &str, version: &str) {
    let change =
        set_lifecycle(key(EntityKind::Schema, name, version), LifecycleState::Deprecated, "old");
    registry.registry().await.apply_changes(batch([change])).await.unwrap();
}

fn names(catalog: &Catalog) -> String {
    let keys: Vec<_> = catalog.iter().map(|(k, _)| format!("{}:{}", k.name, k.version)).collect();
    keys.join(" ")
}

fn held(follower: &Follower) -> &Catalog {
    follower.catalog.as_ref().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn scope_deltas_follow_closure_changes() {
    let registry = TestServer::start().await;
    add(&registry, "B", "1.0.0", "").await;
    add(&registry, "A", "1.0.0", "B:1.0.0").await;
    add(&registry, "X", "1.0.0", "").await;
    let mut follower = Follower::of_scope(&registry, &scope(&["schema/A@*"]), None).await.unwrap();
    follower.reach(3).await;
    assert_eq!(names(held(&follower)), "A:1.0.0 B:1.0.0");
    add(&registry, "X", "2.0.0", "").await;
    follower.reach(4).await;
    add(&registry, "A", "2.0.0", "X:2.0.0").await;
    follower.reach(5).await;
    assert_eq!(names(held(&follower)), "A:1.0.0 A:2.0.0 B:1.0.0 X:2.0.0");
    deprecate(&registry, "A", "1.0.0").await;
    follower.reach(6).await;
    assert_eq!(names(held(&follower)), "A:2.0.0 X:2.0.0");
    assert_eq!(
        follower.heard,
        ["snapshot", "progress 3", "progress 4", "step 5 +2 -0", "step 6 +0 -2"]
    );
    assert!(held(&follower).settings().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn reconnect_receives_only_the_delta() {
    let registry = TestServer::start().await;
    add(&registry, "A", "1.0.0", "").await;
    let of = scope(&["schema/A@*"]);
    let mut follower = Follower::of_scope(&registry, &of, None).await.unwrap();
    follower.reach(1).await;
    let catalog = follower.catalog.take();
    drop(follower);
    for i in 0..20 {
        add(&registry, "X", &format!("1.{i}.0"), "").await;
    }
    let mut follower = Follower::of_scope(&registry, &of, catalog.clone()).await.unwrap();
    follower.reach(21).await;
    assert!(follower.heard.iter().all(|heard| heard.starts_with("progress")));
    add(&registry, "A", "2.0.0", "").await;
    let mut again = Follower::of_scope(&registry, &of, catalog).await.unwrap();
    again.reach(22).await;
    assert_eq!(again.heard, ["step 22 +1 -0"]);

    // A server without the earlier state compares the content.
    let (now, before) = (again.catalog.take(), follower.catalog.take());
    drop((again, follower));
    let registry = TestServer::on(registry.stop().await, &[]).await;
    let mut follower = Follower::of_scope(&registry, &of, now).await.unwrap();
    follower.hear().await.unwrap();
    assert_eq!(follower.heard, ["progress 22"]);
    let mut follower = Follower::of_scope(&registry, &of, before).await.unwrap();
    follower.reach(22).await;
    assert_eq!(follower.heard, ["snapshot"]);
    assert_eq!(names(held(&follower)), "A:1.0.0 A:2.0.0");
}

/// The age of a relay's knowledge has its own interval, independent of commits.
#[tokio::test(flavor = "multi_thread")]
async fn frequent_commits_do_not_delay_heartbeats() {
    let registry = TestServer::with(&["--heartbeat-interval", "300ms"]).await;
    add(&registry, "A", "1.0.0", "").await;
    let part = Follower::of_scope(&registry, &scope(&["schema/A@*"]), None).await.unwrap();
    let whole = Follower::of_scope(&registry, &Scope::Everything, None).await.unwrap();
    let hearing = [part, whole].map(|mut follower| {
        tokio::spawn(async move {
            let mut progress = 0;
            // The first heartbeat is sent in any case.
            while progress < 4 {
                progress += usize::from(matches!(follower.hear().await, Ok(Message::Heartbeat(_))));
            }
        })
    });
    let deadline = Instant::now() + Duration::from_secs(20);
    let mut versions = 1..;
    while !hearing.iter().all(tokio::task::JoinHandle::is_finished) {
        assert!(Instant::now() < deadline, "commits hold progress messages back");
        let version = format!("1.{}.0", versions.next().unwrap());
        add(&registry, "A", &version, "").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn scope_changes_on_an_open_stream() {
    let registry = TestServer::start().await;
    for name in ["A", "B", "C"] {
        add(&registry, name, "1.0.0", "").await;
    }
    let mut follower =
        Follower::of_scope(&registry, &scope(&["schema/A@*", "schema/B@*"]), None).await.unwrap();
    follower.reach(3).await;
    follower.change_scope(&scope(&["schema/B@*", "schema/C@*"])).await;
    while !matches!(follower.hear().await.unwrap(), Message::ScopeDelta(_)) {}
    assert_eq!(names(held(&follower)), "B:1.0.0 C:1.0.0");
    follower.change_scope(&Scope::Everything).await;
    while **held(&follower).scope() != Scope::Everything {
        follower.hear().await.unwrap();
    }
    assert_eq!(names(held(&follower)), "A:1.0.0 B:1.0.0 C:1.0.0");
    add(&registry, "D", "1.0.0", "").await;
    follower.reach(4).await;
    follower.change_scope(&scope(&["schema/D@*"])).await;
    while **held(&follower).scope() == Scope::Everything {
        follower.hear().await.unwrap();
    }
    assert_eq!(names(held(&follower)), "D:1.0.0");
    let heard: Vec<_> = follower.heard.iter().filter(|h| !h.starts_with("progress")).collect();
    assert_eq!(heard, ["snapshot", "step 3 +1 -1", "snapshot", "delta 4", "snapshot"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn scope_limit_counts_distinct_scopes() {
    let registry = TestServer::with(&["--max-scopes", "1", "--max-scopes-per-caller", "9"]).await;
    add(&registry, "A", "1.0.0", "").await;
    let of = scope(&["schema/A@*", "tag:x"]);
    let mut first = Follower::of_scope(&registry, &of, None).await.unwrap();
    first.reach(1).await;
    let mut second = Follower::of_scope(&registry, &of, None).await.unwrap();
    second.reach(1).await;
    let mut other = Follower::of_scope(&registry, &scope(&["tag:y"]), None).await.unwrap();
    let refused = other.hear().await.unwrap_err();
    assert_eq!((refused.code(), &*reason(&refused)), (Code::ResourceExhausted, "TOO_MANY_SCOPES"));
    drop((first, second));
    eventually("a scope without followers makes room", || async {
        let mut other = Follower::of_scope(&registry, &scope(&["tag:y"]), None).await.unwrap();
        while other.revision() < 1 {
            if other.hear().await.is_err() {
                return false;
            }
        }
        held(&other).is_empty()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn caller_scope_quota_is_enforced() {
    let registry = TestServer::with(&["--max-scopes", "5"]).await;
    add(&registry, "A", "1.0.0", "").await;
    let mut first = Follower::of_scope(&registry, &scope(&["tag:a"]), None).await.unwrap();
    first.reach(1).await;
    let mut second = Follower::of_scope(&registry, &scope(&["tag:b"]), None).await.unwrap();
    second.reach(1).await;
    let too_many = |refused: &tonic::Status| {
        let said = (refused.code(), &*reason(refused));
        assert_eq!(said, (Code::ResourceExhausted, "SCOPE_QUOTA_EXCEEDED"), "{refused:?}");
    };
    too_many(&Follower::of_scope(&registry, &scope(&["tag:c"]), None).await.err().unwrap());
    // Replacing a scope does not count twice.
    first.change_scope(&scope(&["tag:c"])).await;
    while **held(&first).scope() != scope(&["tag:c"]) {
        first.hear().await.unwrap();
    }
    let mut whole = Follower::new(&registry).await;
    whole.reach(1).await;
    whole.change_scope(&scope(&["tag:d"])).await;
    let end = loop {
        match whole.hear().await {
            Ok(_) => {}
            Err(end) => break end,
        }
    };
    too_many(&end);
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_follow_modes_are_rejected() {
    let registry = TestServer::start().await;
    let roots = Some((&scope(&["tag:a"])).into());
    let hello = v1::ClientHello { gateway: "odd".to_owned(), ..Default::default() };
    let (relay, signatures) = (v1::FollowMode::Relay, v1::FollowMode::Signatures);
    for (hello, field) in [
        (v1::ClientHello { mode: relay.into(), scope: roots, ..hello.clone() }, "mode: RELAY"),
        (v1::ClientHello { mode: signatures.into(), ..hello.clone() }, "mode: SIGNATURES"),
        (v1::ClientHello { mode: 9, ..hello }, "mode: unknown"),
    ] {
        let said = v1::SyncRequest { message: Some(sync_request::Message::Hello(hello)) };
        let refused = registry.sync().await.sync(tokio_stream::iter([said])).await.unwrap_err();
        assert_eq!(&*reason(&refused), "INVALID_REQUEST", "{refused:?}");
        assert_eq!(refused.code(), Code::InvalidArgument);
        assert!(refused.message().starts_with(field), "{refused:?}");
    }
}

const ROOTS: [&str; 6] =
    ["schema/A@*", "schema/B@1.0.0", "schema/C@*", "schema/D@2.0.0", "tag:none", "schema/E@*"];

#[derive(Debug, Clone)]
enum Act {
    Register(&'static str, &'static str, Option<(&'static str, &'static str)>),
    Set(&'static str, LifecycleState),
    Hear(u8),
    Break,
    Change(Vec<&'static str>),
}

fn act() -> impl Strategy<Value = Act> {
    let name = || select(&["A", "B", "C", "D", "E"][..]);
    let version = || select(&["1.0.0", "2.0.0"][..]);
    let state = select(&[LifecycleState::Active, LifecycleState::Deprecated][..]);
    let refers = proptest::option::of((name(), version()));
    prop_oneof![
        5 => (name(), version(), refers).prop_map(|(n, v, to)| Act::Register(n, v, to)),
        3 => (name(), state).prop_map(|(name, state)| Act::Set(name, state)),
        4 => (1..4_u8).prop_map(Act::Hear),
        1 => Just(Act::Break),
        1 => vec(select(&ROOTS[..]), 1..3).prop_map(Act::Change),
    ]
}

/// Catalog after each revision, from a follower of the whole catalog.
struct Oracle {
    follower: Follower,
    past: BTreeMap<Revision, Catalog>,
}

impl Oracle {
    async fn check(&mut self, part: &Catalog) {
        while !self.past.contains_key(&part.revision()) {
            self.follower.hear().await.unwrap();
            let now = self.follower.catalog.clone();
            self.past.extend(now.map(|now| (now.revision(), now)));
        }
        let whole = &self.past[&part.revision()];
        let keys: BTreeSet<Key> = part.iter().map(|(key, _)| key.clone()).collect();
        assert_eq!(keys, part.scope().keys(whole), "{} at {}", part.scope(), part.revision());
        assert!(part.iter().all(|(key, record)| whole.find(key) == Some(record)));
        assert_eq!(part.chain(), whole.chain());
    }
}

async fn run(acts: Vec<Act>, roots: Vec<&str>) {
    let registry = TestServer::start().await;
    let mut client = registry.registry().await;
    let mut oracle = Oracle { follower: Follower::new(&registry).await, past: BTreeMap::new() };
    let mut of = scope(&roots);
    let mut follower = Follower::of_scope(&registry, &of, None).await.unwrap();
    for act in acts {
        match act {
            Act::Register(name, version, to) => {
                let to = to.map_or(String::new(), |(name, version)| format!("{name}:{version}"));
                drop(client.apply_changes(batch([register(linked(name, version, &to))])).await);
            }
            Act::Set(name, state) => {
                let change = set_lifecycle(key(EntityKind::Schema, name, "1.0.0"), state, "");
                drop(client.apply_changes(batch([change])).await);
            }
            Act::Hear(messages) => {
                for _ in 0..messages {
                    let hearing = tokio::time::timeout(Duration::from_millis(50), follower.hear());
                    if let Ok(heard) = hearing.await {
                        heard.unwrap();
                    }
                    if let Some(part) = &follower.catalog {
                        oracle.check(part).await;
                    }
                }
            }
            Act::Break => {
                let held = follower.catalog.take().filter(|held| **held.scope() == of);
                follower = Follower::of_scope(&registry, &of, held).await.unwrap();
            }
            Act::Change(roots) => {
                of = scope(&roots);
                follower.change_scope(&of).await;
            }
        }
    }
    // One more commit, independent of rejections.
    let last = client.apply_changes(batch([register(linked("Last", "1.0.0", ""))])).await.unwrap();
    let head = last.into_inner().revision;
    while follower.catalog.as_ref().is_none_or(|part| **part.scope() != of)
        || follower.revision() < head
    {
        follower.hear().await.unwrap();
        if let Some(part) = &follower.catalog {
            oracle.check(part).await;
        }
    }
}

#[test]
fn follower_holds_scope_closure_at_every_revision() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let config = Config { cases: 12, ..Config::default() };
    proptest!(config, |(acts in vec(act(), 1..40), roots in vec(select(&ROOTS[..]), 1..3))| {
        runtime.block_on(run(acts, roots));
    });
}

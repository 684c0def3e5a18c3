//! Following: snapshots, deltas, acknowledgments, resumption, silence, and errors that need an
//! operator.

use std::{collections::HashMap, time::Duration};

use gateway_agent::{cache::Cache, feed::SourceState, startup::StartupValidation};
use registry_follow::Timing;
use registry_proto::v1::{Ack, CacheState, sync_request::Message};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::{
    disk::{beside, place},
    history::{History, old_progress, progress, snapshot},
    script::{Aborted, Following, Server, error, hurried, revision_of, then_end, then_silence},
};

fn ack(message: &Message) -> Option<Ack> {
    match message {
        Message::Ack(ack) => Some(ack.clone()),
        _ => None,
    }
}

#[tokio::test]
async fn snapshot_and_commits_are_applied() {
    let history = History::new("r", 7);
    let told = history.clone();
    let mut server = Server::start(move |_, _| {
        let mut messages = snapshot(told.at(4), 3);
        messages.extend(told.deltas(4, 7));
        then_silence(messages)
    })
    .await;
    let following = Following::start(server.address, Cache::in_memory(None), hurried());
    let Message::Hello(hello) = server.hear().await else { panic!("no hello") };
    assert_eq!((hello.gateway.as_str(), hello.position), ("gateway-1", None));
    assert_eq!(hello.gateway_version, env!("CARGO_PKG_VERSION"));
    following.reaches(history.head()).await;
    for applied in 4..=7 {
        assert_eq!(server.hear_until(ack).await.applied_revision, applied);
    }
    following.is(SourceState::Live).await;
    // The server has not reported that it sent everything.
    assert_eq!(following.cache.age(), None);
    assert_eq!(server.streams(), 1);
}

#[tokio::test]
async fn catalog_age_comes_from_server() {
    let history = History::new("r", 2);
    for (catches_up, is_old) in [(true, true), (false, false)] {
        let told = history.clone();
        let server = Server::start(move |_, _| {
            let mut messages = snapshot(told.at(1), 1);
            if catches_up {
                messages.extend(told.deltas(1, 2));
                messages.push(old_progress(told.at(2), Duration::from_mins(1)));
            } else {
                messages.push(old_progress(told.at(1), Duration::from_mins(1)));
                messages.extend(told.deltas(1, 2));
            }
            then_silence(messages)
        })
        .await;
        let following = Following::start(server.address, Cache::in_memory(None), hurried());
        following.reaches(history.head()).await;
        let is_known = |age: Duration| (age >= Duration::from_mins(1)) == is_old;
        let known = timeout(Duration::from_secs(10), async {
            while !following.cache.age().is_some_and(is_known) {
                sleep(Duration::from_millis(1)).await;
            }
        });
        known.await.expect("it is known how old it is");
    }
}

#[tokio::test]
async fn empty_registry_is_a_catalog() {
    let history = History::new("r", 1);
    let told = history.clone();
    let server = Server::start(move |_, _| {
        let mut messages = snapshot(told.at(0), 1);
        messages.push(progress(told.at(0)));
        messages.extend(told.deltas(0, 1));
        then_silence(messages)
    })
    .await;
    let cache = Cache::in_memory(None);
    assert!(!cache.has_catalog());
    let following = Following::start(server.address, cache, hurried());
    following.reaches(history.head()).await;
    assert!(following.cache.has_catalog());
}

#[tokio::test]
async fn stream_resumes_without_gap_or_duplicate() {
    let history = History::new("r", 9);
    let told = history.clone();
    // Each stream sends two commits and ends.
    let mut server = Server::start(move |_, hello| match revision_of(&hello) {
        None => then_end(snapshot(told.at(1), 1)),
        Some(revision) => {
            let after = usize::try_from(revision.0).expect("small");
            then_end(told.deltas(after, (after + 2).min(9)))
        }
    })
    .await;
    let following = Following::start(server.address, Cache::in_memory(None), hurried());
    following.reaches(history.head()).await;
    let mut said = Vec::new();
    while said.len() < 5 {
        if let Message::Hello(hello) = server.hear().await {
            let chain = hello.position.as_ref().map(|position| position.chain.clone());
            let revision = revision_of(&hello).map(|revision| revision.0);
            if let Some(revision) = revision {
                let at = history.at(usize::try_from(revision).expect("small"));
                assert_eq!(chain, Some(at.chain().to_string()));
            }
            said.push(revision);
        }
    }
    assert_eq!(said, [None, Some(1), Some(3), Some(5), Some(7)]);
}

#[tokio::test]
async fn persisted_revision_is_acknowledged_and_resumed() {
    let history = History::new("r", 3);
    let told = history.clone();
    let mut server =
        Server::start(move |_, hello| then_silence(told.answer(revision_of(&hello)))).await;
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("deep/cache.json");
    let (cache, writer) = Cache::open(&path, StartupValidation::default()).expect("a cache");
    let stop = CancellationToken::new();
    let writing = tokio::spawn(writer.run(stop.clone()));
    let following = Following::start(server.address, cache, hurried());
    let persisted = server.hear_until(|m| ack(m).filter(|ack| ack.persisted_revision == 3)).await;
    assert_eq!(persisted.applied_revision, 3);
    stop.cancel();
    writing.await.expect("the writer ends");
    drop(following);
    let (cache, _writer) = Cache::open(&path, StartupValidation::default()).expect("a cache");
    assert_eq!(cache.current().digest(), history.head().digest());
    let _following = Following::start(server.address, cache, hurried());
    let hello = server
        .hear_until(|m| match m {
            Message::Hello(hello) => Some(hello.clone()),
            _ => None,
        })
        .await;
    assert_eq!(revision_of(&hello).map(|revision| revision.0), Some(3));
    assert_eq!(server.hear_until(ack).await.persisted_revision, 3);
}

#[tokio::test]
async fn disk_state_is_acknowledged() {
    let history = History::new("r", 1);
    let told = history.clone();
    let mut server = Server::start(move |_, _| then_silence(snapshot(told.at(1), 1))).await;
    let in_memory = Following::start(server.address, Cache::in_memory(None), hurried());
    assert_eq!(server.hear_until(ack).await.cache_state(), CacheState::None);
    drop(in_memory);

    let (_dir, path) = place();
    let blocked = beside(&path, ".tmp");
    std::fs::create_dir(&blocked).expect("something is in the way");
    let (cache, writer) = Cache::open(&path, StartupValidation::default()).expect("a cache");
    let _writing = Aborted(tokio::spawn(writer.run(CancellationToken::new())));
    let _following = Following::start(server.address, cache, hurried());
    let is = |state| move |m: &Message| ack(m).filter(|ack| ack.cache_state() == state);
    assert_eq!(server.hear_until(is(CacheState::Ok)).await.persisted_revision, 0);
    let failing = server.hear_until(is(CacheState::Failing)).await;
    assert!(!failing.cache_problem.is_empty() && failing.persisted_revision == 0, "{failing:?}");
    std::fs::remove_dir(&blocked).expect("out of the way");
    let mended = server.hear_until(is(CacheState::Ok)).await;
    assert_eq!(mended.cache_problem, "");
}

#[tokio::test]
async fn silent_stream_is_reopened() {
    let history = History::new("r", 2);
    let told = history.clone();
    let server = Server::start(move |number, hello| match number {
        0 => then_silence(snapshot(told.at(1), 1)),
        _ => then_silence(told.answer(revision_of(&hello))),
    })
    .await;
    let timing = Timing { silence: Duration::from_millis(300), ..hurried() };
    let following = Following::start(server.address, Cache::in_memory(None), timing);
    following.reaches(history.head()).await;
    assert!(server.streams() >= 2);
}

#[tokio::test]
async fn progress_keeps_quiet_stream_open() {
    let history = History::new("r", 1);
    let told = history.clone();
    let server = Server::start(move |_, _| {
        let beat = progress(told.head());
        let beats = futures_util::stream::unfold(beat, |beat| async {
            sleep(Duration::from_millis(50)).await;
            Some((Ok(beat.clone()), beat))
        });
        let first = futures_util::stream::iter(snapshot(told.head(), 1).into_iter().map(Ok));
        Box::pin(futures_util::StreamExt::chain(first, beats))
    })
    .await;
    let timing = Timing { silence: Duration::from_millis(400), ..hurried() };
    let following = Following::start(server.address, Cache::in_memory(None), timing);
    following.reaches(history.head()).await;
    sleep(Duration::from_secs(1)).await;
    assert_eq!(server.streams(), 1);
    assert!(following.cache.age().expect("confirmed") < Duration::from_millis(300));
}

fn refusal(reason: &str) -> Status {
    let details = ErrorDetails::with_error_info(reason, "registry", HashMap::new());
    Status::with_error_details(Code::FailedPrecondition, "no", details)
}

#[tokio::test]
async fn cache_of_other_registry_is_kept() {
    for reason in ["REGISTRY_MISMATCH", "CHAIN_MISMATCH", "FOLLOWER_AHEAD"] {
        let server = Server::start(move |_, _| error(refusal(reason))).await;
        let held = History::new("mine", 5);
        let cache = Cache::in_memory(Some(held.head().clone()));
        let following = Following::start(server.address, cache, hurried());
        following.is(SourceState::Rejected).await;
        sleep(Duration::from_millis(300)).await;
        assert_eq!(server.streams(), 1, "{reason} is not to be retried in a hurry");
        assert_eq!(following.cache.current().digest(), held.head().digest());
        let told = following.status.report().reason.expect("a reason");
        assert!(told.contains(".previous"), "the files of the cache are named: {told}");
        for advice in ["lags", "keep a copy of the cache"] {
            assert_eq!(told.contains(advice), reason == "FOLLOWER_AHEAD", "{told}");
        }
    }
}

#[tokio::test]
async fn lagging_relay_does_not_block_recovered_server() {
    let history = History::new("r", 5);
    let (told, held) = (history.clone(), history.at(4).clone());
    let server = Server::start(move |number, hello| match number {
        0 => error(Status::unavailable("restarting")),
        _ => then_silence(told.answer(revision_of(&hello))),
    })
    .await;
    let relay = Server::start(|_, _| error(refusal("FOLLOWER_AHEAD"))).await;
    let cache = Cache::in_memory(Some(held));
    let following = Following::start_at(&[server.address, relay.address], cache, hurried());
    following.reaches(history.head()).await;
    assert_eq!(relay.streams(), 1);
}

#[tokio::test]
async fn unavailable_server_is_retried() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    drop(listener);
    let following = Following::start(address, Cache::in_memory(None), hurried());
    following.is(SourceState::Down).await;
    assert!(!following.cache.has_catalog());
    following.stop.cancel();
}

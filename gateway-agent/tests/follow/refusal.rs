//! Invalid messages: each is answered with a NACK, changes nothing, and the stream is reopened.

use std::sync::Arc;

use bytes::Bytes;
use gateway_agent::{cache::Cache, feed::SourceState};
use registry_core::{Action, ChainHash, Commit, Document, Notice, SealedCommit, chain::Position};
use registry_proto::v1::{
    Delta, Heartbeat, Nack, SnapshotChunk, SnapshotEnd, SyncResponse, sync_request,
    sync_response::Message,
};

use crate::{
    history::{History, begin, delta, end, progress, response, schema, snapshot},
    script::{Following, Server, hurried, revision_of, then_silence},
};

/// The catalog when the invalid message arrives.
const HELD: usize = 4;

fn nack(message: &sync_request::Message) -> Option<Nack> {
    match message {
        sync_request::Message::Nack(nack) => Some(nack.clone()),
        _ => None,
    }
}

/// A valid delta with a change.
fn changed(history: &History, change: impl FnOnce(&mut Delta)) -> Vec<SyncResponse> {
    let mut good = Delta::from(history.commit(HELD + 1));
    change(&mut good);
    vec![delta(good)]
}

/// A sealed commit that does not follow the catalog.
fn resealed(
    history: &History,
    change: impl FnOnce(&mut Commit, &mut Vec<Arc<Document>>),
) -> Vec<SyncResponse> {
    let good = history.commit(HELD + 1);
    let (mut commit, mut documents) = (good.commit().clone(), good.documents().to_vec());
    change(&mut commit, &mut documents);
    let sealed = SealedCommit::seal(&history.at(HELD).chain(), commit, documents);
    vec![delta((&sealed.expect("sealed")).into())]
}

fn flipped(bytes: &Bytes, at: usize) -> Bytes {
    let mut bytes = bytes.to_vec();
    bytes[at] ^= 1;
    bytes.into()
}

/// A name, the invalid messages, and a part of the NACK.
type Case = (&'static str, Vec<SyncResponse>, &'static str);

fn bad_deltas(history: &History) -> Vec<Case> {
    let other = History::new("other", HELD + 1);
    vec![
        (
            "chain",
            changed(history, |d| d.chain = ChainHash::from_bytes([7; 32]).to_string()),
            "chain hash mismatch",
        ),
        ("short chain", changed(history, |d| d.chain = d.chain[1..].to_owned()), "chain: "),
        ("commit", changed(history, |d| d.commit = flipped(&d.commit, 30)), ""),
        ("no commit", changed(history, |d| d.commit = Bytes::new()), "cannot parse the commit"),
        (
            "garbage",
            changed(history, |d| d.commit = Bytes::from_static(b"\xff\0{")),
            "cannot parse the commit",
        ),
        (
            "document",
            changed(history, |d| d.documents[0] = flipped(&d.documents[0], 9)),
            "document digest mismatch",
        ),
        ("no document", changed(history, |d| d.documents.clear()), "comes with 0 documents"),
        (
            "two documents",
            changed(history, |d| d.documents.push(schema("X", 1).bytes().clone())),
            "comes with 2 documents",
        ),
        ("claim", changed(history, |d| d.revision += 1), "carries the commit of revision"),
        ("gap", history.deltas(HELD + 1, HELD + 2), "chain hash mismatch"),
        ("repetition", history.deltas(HELD - 1, HELD), "chain hash mismatch"),
        ("other registry", other.deltas(HELD, HELD + 1), "chain hash mismatch"),
        ("skipped", resealed(history, |c, _| c.revision.0 += 5), "cannot follow revision 4"),
        (
            "registered twice",
            resealed(history, |c, documents| {
                c.changes.push(c.changes[0].clone());
                documents.push(documents[0].clone());
            }),
            "which is already registered",
        ),
        (
            "change of what is not there",
            resealed(history, |c, documents| {
                documents.clear();
                c.changes[0].action = Action::Retire(Notice::default());
            }),
            "which is not registered",
        ),
    ]
}

fn bad_snapshots(history: &History) -> Vec<Case> {
    let (next, held) = (history.at(HELD + 1), history.at(HELD));
    let good = snapshot(next, 2);
    let without = |i: usize| {
        let mut messages = good.clone();
        messages.remove(i);
        messages
    };
    let digest = |bytes: String| {
        let mut messages = without(good.len() - 1);
        messages.push(response(Message::SnapshotEnd(SnapshotEnd { digest: bytes })));
        messages
    };
    let mut edited = good.clone();
    if let Some(Message::SnapshotChunk(SnapshotChunk { entities, .. })) = &mut edited[1].message {
        "eve".clone_into(&mut entities[0].owner);
    }
    let mut damaged = good.clone();
    if let Some(Message::SnapshotChunk(SnapshotChunk { entities, .. })) = &mut damaged[1].message {
        entities[1].document = flipped(&entities[1].document, 12);
    }
    let mut doubled = good.clone();
    doubled.insert(2, good[1].clone());
    vec![
        ("snapshot digest", digest(held.digest().to_string()), "the snapshot has the digest"),
        ("short digest", digest("sha256:07".to_owned()), "`sha256:07`"),
        ("missing part", without(1), "entities instead of 5"),
        ("doubled part", doubled, "more than the announced 5 entities and 0 settings"),
        ("edited owner", edited, "the snapshot has the digest"),
        ("damaged document", damaged, "document digest mismatch"),
        ("no beginning", without(0), "without its start"),
        ("only an end", vec![end(next)], "without its start"),
        ("two beginnings", vec![begin(next), begin(next)], "within a snapshot"),
        (
            "delta inside",
            [vec![begin(next)], history.deltas(HELD, HELD + 1)].concat(),
            "within a snapshot",
        ),
        ("progress inside", vec![begin(next), progress(held)], "within a snapshot"),
    ]
}

fn bad_places(history: &History) -> Vec<Case> {
    let mut forked = History::new("r", HELD - 1);
    forked.grow(99);
    let mut overtaking = Heartbeat::from(&Position::of_catalog(history.at(HELD)));
    overtaking.content_digest = history.at(HELD - 1).content_digest().to_string();
    vec![
        ("nothing", vec![SyncResponse::default()], "without content"),
        ("ahead", vec![progress(history.at(HELD + 1))], "at revision 5, but 4 is served"),
        ("behind", vec![progress(history.at(HELD - 1))], "at revision 3, but 4 is served"),
        ("overtaking", vec![response(Message::Heartbeat(overtaking))], "content in scope differs"),
        ("forked progress", vec![progress(forked.head())], "another chain hash"),
    ]
}

/// Invalid messages after valid ones are answered with a NACK and change nothing, and the next
/// stream continues.
#[tokio::test]
async fn unverified_messages_are_rejected_without_effect() {
    let history = History::new("r", HELD + 2);
    let cases = [bad_deltas(&history), bad_snapshots(&history), bad_places(&history)].concat();
    assert_eq!(cases.len(), 31);
    for (name, messages, expected) in cases {
        let told = history.clone();
        let mut server = Server::start(move |number, hello| match number {
            0 => then_silence(messages.clone()),
            _ => then_silence(told.answer(revision_of(&hello))),
        })
        .await;
        let cache = Cache::in_memory(Some(history.at(HELD).clone()));
        let mut seen = cache.subscribe();
        let following = Following::start(server.address, cache, hurried());
        let nack = server.hear_until(nack).await;
        assert!(nack.message.contains(expected), "{name}: {}", nack.message);
        following.reaches(history.head()).await;
        // Every served state is valid.
        let now = seen.borrow_and_update().clone();
        let revision = usize::try_from(now.revision().0).expect("small");
        assert_eq!(now.digest(), history.at(revision).digest(), "{name}");
    }
}

#[tokio::test]
async fn snapshot_of_other_history_needs_operator() {
    let history = History::new("r", HELD);
    let mut forked = History::new("r", HELD - 1);
    forked.grow(99);
    for (served, expected) in [
        (History::new("other", 9), "registry other, but the cache belongs to r"),
        (History::new("r", HELD - 1), "has revision 3, but 4 is already served"),
        (forked, "another chain hash"),
    ] {
        let messages = snapshot(served.head(), 2);
        let mut server = Server::start(move |_, _| then_silence(messages.clone())).await;
        let cache = Cache::in_memory(Some(history.head().clone()));
        let following = Following::start(server.address, cache, hurried());
        let nack = server.hear_until(nack).await;
        assert!(nack.message.contains(expected), "{}", nack.message);
        following.is(SourceState::Rejected).await;
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        assert_eq!(server.streams(), 1);
        assert_eq!(following.cache.current().digest(), history.head().digest());
    }
}

#[tokio::test]
async fn delta_needs_snapshot() {
    let history = History::new("r", 2);
    let told = history.clone();
    let mut server = Server::start(move |number, _| match number {
        0 => then_silence(told.deltas(0, 1)),
        _ => then_silence(told.answer(None)),
    })
    .await;
    let following = Following::start(server.address, Cache::in_memory(None), hurried());
    assert!(server.hear_until(nack).await.message.contains("snapshot"));
    following.reaches(history.head()).await;
}

#[tokio::test]
async fn repeated_rejections_back_off() {
    let history = History::new("r", HELD + 1);
    let bad = changed(&history, |d| {
        d.chain = ChainHash::genesis(history.head().registry()).to_string();
    });
    let server = Server::start(move |_, _| then_silence(bad.clone())).await;
    let cache = Cache::in_memory(Some(history.at(HELD).clone()));
    let following = Following::start(server.address, cache, hurried());
    following.is(SourceState::Rejected).await;
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let streams = server.streams();
    // Half of the maximum on average; without delays there would be thousands.
    assert!((2..80).contains(&streams), "{streams} streams in a second at a cap of 50 ms");
    assert_eq!(following.cache.current().digest(), history.at(HELD).digest());
}

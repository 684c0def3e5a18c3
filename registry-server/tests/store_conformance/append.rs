//! Appends and rejections, without partial writes.

use registry_core::{Catalog, ChainHash, Revision, SealedCommit, Timestamp};
use registry_server::store::{AccessEvent, AppendError, CommitEvent, Error, NewAccessEvent, Store};

use crate::{
    fixture::Fixture,
    log::{Draft, Log, key},
};

/// All commits of the store, read in pages.
pub(crate) async fn whole_log(store: &Store, page: usize) -> Vec<SealedCommit> {
    let mut position = (Revision(0), ChainHash::genesis(store.registry()));
    let mut commits: Vec<SealedCommit> = Vec::new();
    loop {
        let more = store.commits_after(position, page).await.unwrap();
        let Some(last) = more.last() else { return commits };
        position = (last.revision(), last.chain());
        commits.extend(more);
    }
}

/// Asserts that the store has exactly this log and its folded state.
pub(crate) async fn assert_holds(store: &Store, log: &Log) {
    let loaded = store.load().await.unwrap();
    assert_eq!(loaded.digest(), log.catalog.digest());
    assert!(loaded == log.catalog);
    assert!(whole_log(store, 1_000).await == log.commits);
}

pub(crate) async fn empty_store_loads_an_empty_catalog(fixture: &Fixture) {
    let store = fixture.open().await;
    assert!(store.load().await.unwrap() == Catalog::empty(store.registry().clone()));
    assert_holds(&store, &Log::new(&store)).await;
    store.check().await.unwrap();
    store.append(Revision(0), &[]).await.unwrap();
    assert_holds(&store, &Log::new(&store)).await;
}

pub(crate) async fn loaded_catalog_equals_the_folded_log(fixture: &Fixture) {
    let store = fixture.open().await;
    let mut log = Log::new(&store);
    let drafts = [
        Draft::new().register("B", "1.0.0").register("A", "1.10.0").register("A", "1.2.0"),
        Draft::new().by("bob").deprecate("A", "1.2.0", "use 1.10.0").register("C", "1.0.0"),
        Draft::new().retire("A", "1.2.0").restore("A", "1.2.0").retire("B", "1.0.0"),
        // Registered and changed in the same commit.
        Draft::new().register("D", "2.0.0-rc.1+b").deprecate("D", "2.0.0-rc.1+b", "too new"),
        Draft::new().restore("B", "1.0.0"),
    ];
    for draft in drafts.clone() {
        log.append(&store, draft).await;
        assert_holds(&store, &log).await;
    }
    // One append of the whole log gives the same store.
    let another = fixture.another().await;
    let other = another.open().await;
    let mut at_once = Log::new(&other);
    for draft in drafts {
        at_once.commit(draft);
    }
    other.append(Revision(0), &at_once.commits).await.unwrap();
    assert_holds(&other, &at_once).await;
    drop(store);
    assert_holds(&fixture.open().await, &log).await;
}

pub(crate) async fn stored_commits_round_trip_byte_for_byte(fixture: &Fixture) {
    let store = fixture.open().await;
    let mut log = Log::new(&store);
    let sealed = log.append(&store, Draft::new().register("A", "1.0.0").request("r 1 ü")).await;
    let position = (Revision(0), ChainHash::genesis(store.registry()));
    let read = store.commits_after(position, 10).await.unwrap().remove(0);
    assert_eq!(read.bytes(), sealed.bytes());
    assert_eq!(read.chain(), sealed.chain());
    assert_eq!(read.documents()[0].bytes(), sealed.documents()[0].bytes());
    let loaded = store.load().await.unwrap();
    let record = loaded.find(&key("A", "1.0.0")).unwrap();
    assert_eq!(record.document.bytes(), sealed.documents()[0].bytes());
    assert_eq!(record.registered_at, sealed.commit().committed_at);
}

pub(crate) async fn wrong_head_conflicts_and_writes_nothing(fixture: &Fixture) {
    let store = fixture.open().await;
    let mut log = Log::new(&store);
    log.append(&store, Draft::new().register("A", "1.0.0")).await;
    let behind = log.clone();
    log.append(&store, Draft::new().register("B", "1.0.0")).await;
    let late = behind.seal(Draft::new().register("C", "1.0.0"));
    let error = store.append(behind.catalog.revision(), &[late]).await.unwrap_err();
    assert_eq!(error, AppendError::Conflict { head: Revision(2) });
    let mut ahead = log.clone();
    ahead.commit(Draft::new().register("D", "1.0.0"));
    let early = ahead.seal(Draft::new().register("E", "1.0.0"));
    let error = store.append(ahead.catalog.revision(), &[early]).await.unwrap_err();
    assert_eq!(error, AppendError::Conflict { head: Revision(2) });
    assert_holds(&store, &log).await;
}

/// Like a database that was restored from a backup and extended by another server.
pub(crate) async fn commit_of_another_history_is_rejected(fixture: &Fixture) {
    let store = fixture.open().await;
    let mut log = Log::new(&store);
    let mut other = log.clone();
    log.append(&store, Draft::new().register("A", "1.0.0")).await;
    other.commit(Draft::new().register("B", "1.0.0"));
    let foreign = other.commit(Draft::new().register("C", "1.0.0"));
    let error = store.append(Revision(1), &[foreign]).await.unwrap_err();
    let AppendError::Store(Error::Corrupt { what, .. }) = &error else { panic!("{error}") };
    assert_eq!(what, "the table head");
    assert_holds(&store, &log).await;
}

pub(crate) async fn non_consecutive_commits_are_rejected(fixture: &Fixture) {
    let store = fixture.open().await;
    let mut log = Log::new(&store);
    let untouched = log.clone();
    for name in ["A", "B", "C"] {
        log.commit(Draft::new().register(name, "1.0.0"));
    }
    let mut unchained = untouched.clone();
    unchained.commit(Draft::new().register("X", "1.0.0"));
    let [a, b, c] = &log.commits[..] else { panic!("three commits") };
    let x = &unchained.commits[0];
    for torn in [vec![a.clone(), c.clone()], vec![b.clone()], vec![x.clone(), b.clone()]] {
        let error = store.append(Revision(0), &torn).await.unwrap_err();
        assert!(matches!(error, AppendError::Store(Error::StatementRejected { .. })), "{error}");
    }
    assert_holds(&store, &untouched).await;
}

pub(crate) async fn change_of_a_missing_entity_is_rejected(fixture: &Fixture) {
    let store = fixture.open().await;
    let log = Log::new(&store);
    let sealed = log.seal(Draft::new().register("A", "1.0.0").retire("Ghost", "1.0.0"));
    let error = store.append(Revision(0), &[sealed]).await.unwrap_err();
    assert!(matches!(error, AppendError::Store(Error::StatementRejected { .. })), "{error}");
    assert!(error.to_string().contains("changes_entity_exists"), "{error}");
    let twice = log.seal(Draft::new().register("A", "1.0.0").register("A", "1.0.0"));
    let error = store.append(Revision(0), &[twice]).await.unwrap_err();
    assert!(matches!(error, AppendError::Store(Error::StatementRejected { .. })), "{error}");
    assert_holds(&store, &log).await;
}

pub(crate) async fn request_id_is_used_once(fixture: &Fixture) {
    let store = fixture.open().await;
    let mut log = Log::new(&store);
    log.append(&store, Draft::new().register("A", "1.0.0").request("r1")).await;
    log.append(&store, Draft::new().register("B", "1.0.0")).await;
    log.append(&store, Draft::new().register("C", "1.0.0")).await;
    let again = log.seal(Draft::new().register("D", "1.0.0").request("r1"));
    let taken = |id: &str, revision| AppendError::RequestIdTaken {
        author: "ann".to_owned(),
        request_id: id.to_owned(),
        revision: Revision(revision),
    };
    assert_eq!(store.append(Revision(3), &[again]).await.unwrap_err(), taken("r1", 1));
    let mut twice = log.clone();
    twice.commit(Draft::new().register("D", "1.0.0").request("r2"));
    twice.commit(Draft::new().register("E", "1.0.0").request("r2"));
    let batch = &twice.commits[3..];
    assert_eq!(store.append(Revision(3), batch).await.unwrap_err(), taken("r2", 4));
    assert_holds(&store, &log).await;
    log.append(&store, Draft::new().register("D", "1.0.0").request("r2")).await;
    assert_holds(&store, &log).await;
}

pub(crate) async fn request_ids_are_scoped_to_their_author(fixture: &Fixture) {
    let store = fixture.open().await;
    let mut log = Log::new(&store);
    let request = |name, author| Draft::new().register(name, "1.0.0").by(author).request("r1");
    log.append(&store, request("A", "ann")).await;
    log.append(&store, request("B", "bob")).await;
    log.commit(request("C", "carol"));
    log.commit(request("D", "dave"));
    store.append(Revision(2), &log.commits[2..]).await.unwrap();
    assert_holds(&store, &log).await;
    let now = log.commits[3].commit().committed_at;
    for (author, revision) in [("ann", 1), ("bob", 2), ("carol", 3), ("dave", 4)] {
        let found = store.find_request(author, "r1", now).await.unwrap().unwrap();
        assert_eq!(found.revision, Revision(revision), "{author}");
        let again = log.seal(request("E", author));
        let error = store.append(Revision(4), &[again]).await.unwrap_err();
        let is_taken = matches!(error, AppendError::RequestIdTaken { revision: Revision(of), .. } if of == revision);
        assert!(is_taken, "{author}: {error}");
    }
}

pub(crate) async fn request_ids_expire_after_seven_days(fixture: &Fixture) {
    const WEEK: i64 = 7 * 24 * 60 * 60 * 1000;
    let store = fixture.open().await;
    let mut log = Log::new(&store);
    let request = |name, millis| Draft::new().register(name, "1.0.0").request("r1").later(millis);
    let first = log.append(&store, request("A", 0)).await.commit().committed_at;
    // Each revision is one millisecond after the previous one.
    let early = log.seal(request("B", WEEK - 2));
    let error = store.append(Revision(1), &[early]).await.unwrap_err();
    assert!(matches!(error, AppendError::RequestIdTaken { .. }), "{error}");
    let second = log.append(&store, request("B", WEEK)).await.commit().committed_at;
    let found = async |now| store.find_request("ann", "r1", now).await.unwrap().map(|c| c.revision);
    assert_eq!(found(second).await, Some(Revision(2)));
    store.delete_expired_requests(first).await.unwrap();
    assert_eq!(fixture.number("SELECT count(*) FROM requests").await, 1);
    store.delete_expired_requests(Timestamp::from_millis(second.as_millis() + WEEK)).await.unwrap();
    assert_eq!(fixture.number("SELECT count(*) FROM requests").await, 0);
    assert_holds(&store, &log).await;
}

/// The upstream registry has checked the ids of its commits.
pub(crate) async fn copies_keep_repeated_request_ids(fixture: &Fixture) {
    let store = fixture.open().await;
    let mut log = Log::new(&store);
    log.append(&store, Draft::new().register("A", "1.0.0").request("r1")).await;
    log.commit(Draft::new().register("B", "1.0.0").request("r1"));
    log.commit(Draft::new().register("C", "1.0.0").request("r1"));
    store.append_copy(Revision(1), &log.commits[1..]).await.unwrap();
    assert_holds(&store, &log).await;
}

/// Servers before migration 8 recorded the client address in commits.
pub(crate) async fn commits_with_sealed_addresses_stay_valid(fixture: &Fixture) {
    let store = fixture.open().await;
    let mut log = Log::new(&store);
    let draft = Draft::new().register("A", "1.0.0").from("192.0.2.7");
    let sealed = log.append(&store, draft).await;
    assert!(String::from_utf8_lossy(sealed.bytes()).contains("192.0.2.7"));
    assert_holds(&store, &log).await;
    let stored = store.commit(Revision(1)).await.unwrap().unwrap();
    assert_eq!(stored.commit.origin.unwrap().address.as_deref(), Some("192.0.2.7"));
}

pub(crate) async fn commit_events_are_stored_with_their_commits(fixture: &Fixture) {
    let store = fixture.open().await;
    let mut log = Log::new(&store);
    let sealed = log.commit(Draft::new().register("A", "1.0.0"));
    let what = NewAccessEvent {
        at: sealed.commit().committed_at,
        principal: "ann".to_owned(),
        method: "certificate".to_owned(),
        address: "192.0.2.7".to_owned(),
        detail: String::new(),
    };
    let event = CommitEvent { revision: Revision(1), what: what.clone() };
    let appending = async |expected| {
        let events = std::slice::from_ref(&event);
        store.append_locked(None, Revision(expected), &log.commits, events).await
    };
    appending(7).await.unwrap_err();
    assert_eq!(store.access_events(0, 10).await.unwrap(), [], "nothing was committed");
    appending(0).await.unwrap();
    let trail = store.access_events(0, 10).await.unwrap();
    let [AccessEvent { event, subject, what: said, .. }] = trail.as_slice() else {
        panic!("one line: {trail:?}");
    };
    assert_eq!((event.as_str(), subject.as_str(), said), ("committed", "1", &what));
    assert!(!store.had_tokens().await.unwrap());
}

pub(crate) async fn concurrent_appends_are_atomic(fixture: &Fixture) {
    const EACH: usize = 60;
    let stores = [fixture.open().await, fixture.open().await];
    let writers = ["Left", "Right"].into_iter().zip(stores.clone()).map(|(side, store)| {
        tokio::spawn(async move {
            let (mut log, mut conflicts) = (Log::new(&store), 0);
            for i in 0..EACH {
                conflicts += insist(&store, &mut log, &format!("{side}{i}")).await;
            }
            conflicts
        })
    });
    let writers: Vec<_> = writers.collect();
    let mut conflicts = 0;
    for writer in writers {
        conflicts += writer.await.unwrap();
    }
    let commits = whole_log(&stores[0], 7).await;
    assert_eq!(commits.len(), 2 * EACH, "none lost, none twice ({conflicts} conflicts)");
    let mut fold = Catalog::empty(stores[0].registry().clone());
    for commit in &commits {
        fold.apply(commit).unwrap();
    }
    assert!(stores[1].load().await.unwrap() == fold);
    assert_eq!(fold.len(), 2 * EACH);
}

/// Appends like a registrar: reads missing commits after a conflict and retries.
async fn insist(store: &Store, log: &mut Log, name: &str) -> usize {
    for conflicts in 0.. {
        let sealed = log.seal(Draft::new().register(name, "1.0.0"));
        match store.append(log.catalog.revision(), std::slice::from_ref(&sealed)).await {
            Ok(()) => {
                log.catalog.apply(&sealed).unwrap();
                return conflicts;
            }
            Err(AppendError::Conflict { head }) => {
                assert!(head > log.catalog.revision());
                let position = (log.catalog.revision(), log.catalog.chain());
                for missed in store.commits_after(position, 100).await.unwrap() {
                    log.catalog.apply(&missed).unwrap();
                }
            }
            Err(error) => panic!("{error}"),
        }
    }
    unreachable!("it tries until it succeeds")
}

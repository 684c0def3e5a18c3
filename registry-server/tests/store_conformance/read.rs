//! Pages, filters and orders of reads.

use registry_core::{Action, ChainHash, Kind, Name, Notice, Revision, SealedCommit, Version};
use registry_server::store::{CommitQuery, Error, HistoryQuery, Order, Store};

use crate::{
    append::whole_log,
    fixture::Fixture,
    log::{Draft, Log},
};

/// 25 commits: odd revisions by ann, even ones by bob.
async fn filled(store: &Store) -> Log {
    let mut log = Log::new(store);
    for i in 1..=25 {
        let author = if i % 2 == 0 { "bob" } else { "ann" };
        let draft = Draft::new().by(author).request(&format!("r{i}"));
        log.append(store, draft.register(&format!("S{i}"), "1.0.0")).await;
    }
    log
}

pub(crate) async fn commit_pages_are_verified(fixture: &Fixture) {
    let store = fixture.open().await;
    let log = filled(&store).await;
    for page in [1, 7, 24, 25, 26] {
        assert!(whole_log(&store, page).await == log.commits, "pages of {page}");
    }
    let genesis = ChainHash::genesis(store.registry());
    let page = store.commits_after((Revision(0), genesis), 7).await.unwrap();
    assert!(page == log.commits[..7]);
    let head = (log.catalog.revision(), log.catalog.chain());
    assert!(store.commits_after(head, 7).await.unwrap().is_empty());
    assert!(store.commits_after((Revision(99), genesis), 7).await.unwrap().is_empty());
    // A position of another history.
    let error = store.commits_after((Revision(3), genesis), 7).await.unwrap_err();
    assert!(matches!(&error, Error::Corrupt { what, .. } if what == "revision 4"), "{error}");
}

pub(crate) async fn commit_is_found_by_revision_and_request(fixture: &Fixture) {
    let store = fixture.open().await;
    let log = filled(&store).await;
    let now = log.commits[24].commit().committed_at;
    for revision in [1, 2, 25] {
        let sealed = &log.commits[revision - 1];
        let found = store.commit(sealed.revision()).await.unwrap().unwrap();
        assert_eq!(found.commit, *sealed.commit());
        assert_eq!((found.chain, &found.canonical), (sealed.chain(), sealed.bytes()));
        let header = store
            .find_request(&sealed.commit().author, &format!("r{revision}"), now)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(header.revision, sealed.revision());
        assert_eq!(header.author, sealed.commit().author);
        assert_eq!(header.committed_at, sealed.commit().committed_at);
        assert_eq!(header.message, sealed.commit().message);
        assert_eq!(header.request_id, sealed.commit().request_id);
        assert_eq!((header.changes, header.chain), (1, sealed.chain()));
    }
    for absent in [0, 26, u64::MAX - 1, u64::MAX] {
        assert_eq!(store.commit(Revision(absent)).await.unwrap(), None, "{absent}");
    }
    assert_eq!(store.find_request("ann", "r26", now).await.unwrap(), None);
    assert_eq!(store.find_request("ann", "", now).await.unwrap(), None);
}

pub(crate) async fn commits_are_filtered_in_both_orders(fixture: &Fixture) {
    let store = fixture.open().await;
    let log = filled(&store).await;
    let all = CommitQuery {
        after: None,
        before: None,
        author: None,
        filter: None,
        order: Order::OldestFirst,
        limit: 100,
    };
    let revisions = async |query: &CommitQuery| -> Vec<u64> {
        let found = store.list_commits(query).await.unwrap();
        found.iter().map(|found| found.commit.revision.0).collect()
    };
    assert_eq!(revisions(&all).await, (1..=25).collect::<Vec<_>>());
    let newest = CommitQuery { order: Order::NewestFirst, ..all.clone() };
    assert_eq!(revisions(&newest).await, (1..=25).rev().collect::<Vec<_>>());
    let between = CommitQuery {
        after: Some(Revision(5)),
        before: Some(Revision(9)),
        limit: 2,
        ..newest.clone()
    };
    assert_eq!(revisions(&between).await, [8, 7]);
    let next = CommitQuery { before: Some(Revision(7)), ..between };
    assert_eq!(revisions(&next).await, [6]);
    let end = CommitQuery { before: Some(Revision(6)), ..next };
    assert_eq!(revisions(&end).await, [0; 0]);
    let by_bob = CommitQuery { author: Some("bob".to_owned()), limit: 3, ..all.clone() };
    assert_eq!(revisions(&by_bob).await, [2, 4, 6]);
    let last_by_bob = CommitQuery { order: Order::NewestFirst, ..by_bob };
    assert_eq!(revisions(&last_by_bob).await, [24, 22, 20]);
    let by_nobody = CommitQuery { author: Some("eve".to_owned()), ..all.clone() };
    assert_eq!(revisions(&by_nobody).await, [0; 0]);
    let listed = store.list_commits(&all).await.unwrap();
    assert!(
        listed.iter().map(|found| &found.commit).eq(log.commits.iter().map(SealedCommit::commit))
    );
}

pub(crate) async fn name_history_is_complete_and_paged(fixture: &Fixture) {
    let store = fixture.open().await;
    let mut log = Log::new(&store);
    log.append(&store, Draft::new().register("Other", "1.0.0").register("A", "1.0.0")).await;
    log.append(&store, Draft::new().register("A", "2.0.0").deprecate("A", "1.0.0", "use 2")).await;
    log.append(&store, Draft::new().by("bob").retire("A", "1.0.0")).await;
    log.append(&store, Draft::new().restore("A", "1.0.0").register("AB", "1.0.0")).await;
    let query = HistoryQuery {
        kind: Kind::Schema,
        name: Name::parse(Kind::Schema, "A").unwrap(),
        version: None,
        after: None,
        until: Revision(4),
        limit: 100,
    };
    let events = store.entity_history(&query).await.unwrap();
    let seen: Vec<_> = events
        .iter()
        .map(|e| (e.revision.0, e.ordinal, e.key.version.to_string(), e.action.as_str()))
        .collect();
    let expected = [
        (1, 1, "1.0.0", "register"),
        (2, 0, "2.0.0", "register"),
        (2, 1, "1.0.0", "deprecate"),
        (3, 0, "1.0.0", "retire"),
        (4, 0, "1.0.0", "restore"),
    ];
    assert_eq!(seen, expected.map(|(r, o, version, action)| (r, o, version.to_owned(), action)));
    for event in &events {
        let commit = log.commits[usize::try_from(event.revision.0).unwrap() - 1].commit();
        let change = &commit.changes[event.ordinal as usize];
        assert_eq!((&event.key, &event.action), (&change.key, &change.action));
        assert_eq!((&event.author, event.committed_at), (&commit.author, commit.committed_at));
        assert_eq!(event.message, commit.message);
    }
    assert_eq!(events[2].action, Action::Deprecate(Notice::with_message(Some("use 2"))));
    let mut paged = Vec::new();
    let mut page = HistoryQuery { limit: 2, ..query.clone() };
    loop {
        let more = store.entity_history(&page).await.unwrap();
        let Some(last) = more.last() else { break };
        page.after = Some((last.revision, last.ordinal));
        paged.extend(more);
    }
    assert_eq!(paged, events);
    let second = HistoryQuery { version: Some(Version::parse("2.0.0").unwrap()), ..query.clone() };
    assert_eq!(store.entity_history(&second).await.unwrap(), events[1..2]);
    let sooner = HistoryQuery { until: Revision(2), ..query.clone() };
    assert_eq!(store.entity_history(&sooner).await.unwrap(), events[..3]);
    let agent = HistoryQuery { kind: Kind::Agent, ..query };
    assert_eq!(store.entity_history(&agent).await.unwrap(), []);
}

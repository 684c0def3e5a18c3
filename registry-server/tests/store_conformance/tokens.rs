//! API tokens and access events.

use registry_core::{Digest, Timestamp};
use registry_server::store::{NewAccessEvent, StoredToken, TokenCursor, TokenFilter};

use crate::Fixture;

const MOST: usize = 3;

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn token(id: &str, created_at: i64, expires_at: Option<i64>) -> StoredToken {
    StoredToken {
        id: id.to_owned(),
        digest: Digest::compute(id.as_bytes()),
        name: "ci".to_owned(),
        team: "docs".to_owned(),
        roles: "reader publisher".to_owned(),
        scopes: "docs/* tool/fetch".to_owned(),
        created_at: at(created_at),
        created_by: "root".to_owned(),
        expires_at: expires_at.map(at),
        revoked: None,
        last_used_at: None,
    }
}

pub(crate) fn event(millis: i64) -> NewAccessEvent {
    NewAccessEvent {
        at: at(millis),
        principal: "root".to_owned(),
        method: "local".to_owned(),
        address: String::new(),
        detail: "a test".to_owned(),
    }
}

fn start() -> TokenCursor {
    TokenCursor::start()
}

fn ids(tokens: &[StoredToken]) -> Vec<&str> {
    tokens.iter().map(|token| &*token.id).collect()
}

pub(crate) async fn tokens_round_trip_and_expire(fixture: &Fixture) {
    let store = fixture.open().await;
    let (short, long) = (token("aa", 1_000, Some(5_000)), token("bb", 2_000, None));
    for token in [&short, &long] {
        assert!(store.insert_token(token, &event(1), MOST).await.unwrap());
    }
    let live = async |now| store.tokens(TokenFilter::Active(at(now)), &start(), 10).await.unwrap();
    assert_eq!(live(4_999).await, [long.clone(), short.clone()], "newest first");
    assert_eq!(ids(&live(5_000).await), ["bb"], "it has expired");
    assert!(store.revoke_token("bb", &event(6_000)).await.unwrap());
    assert!(!store.revoke_token("bb", &event(7_000)).await.unwrap(), "once is enough");
    assert!(!store.revoke_token("cc", &event(7_000)).await.unwrap());
    assert!(live(6_000).await.is_empty());
    let all = store.tokens(TokenFilter::All, &start(), 10).await.unwrap();
    let revoked = all[0].revoked.clone().unwrap();
    assert_eq!((revoked.at, &*revoked.by), (at(6_000), "root"));
    assert_eq!(fixture.number("SELECT count(*) FROM access_events").await, 3);
}

pub(crate) async fn token_pages_continue_after_a_cursor(fixture: &Fixture) {
    let store = fixture.open().await;
    // Two tokens of the same time are ordered by id.
    for (id, created_at) in [("bb", 2_000), ("aa", 2_000), ("cc", 1_000)] {
        assert!(store.insert_token(&token(id, created_at, None), &event(1), MOST).await.unwrap());
    }
    for which in [TokenFilter::All, TokenFilter::Active(at(9_000))] {
        let (mut seen, mut place) = (Vec::new(), start());
        while let Some(token) = store.tokens(which, &place, 1).await.unwrap().pop() {
            place = TokenCursor { created_at: token.created_at, id: token.id.clone() };
            seen.push(token.id);
        }
        assert_eq!(seen, ["aa", "bb", "cc"]);
    }
}

pub(crate) async fn access_events_are_read_in_order(fixture: &Fixture) {
    let store = fixture.open().await;
    store.insert_token(&token("aa", 1_000, None), &event(1_000), MOST).await.unwrap();
    assert!(store.revoke_token("aa", &event(2_000)).await.unwrap());
    let trail = store.access_events(0, 10).await.unwrap();
    let seen: Vec<_> = trail.iter().map(|line| (&*line.event, &*line.subject)).collect();
    assert_eq!(seen, [("token-created", "aa"), ("token-revoked", "aa")]);
    assert_eq!(trail[1].what, event(2_000), "who, when, how, from where");
    assert_eq!(store.access_events(0, 1).await.unwrap(), trail[..1]);
    assert_eq!(store.access_events(trail[0].number, 10).await.unwrap(), trail[1..]);
}

/// A reader that has read up to a number misses no earlier event, despite concurrent writers.
pub(crate) async fn access_events_become_visible_in_order(fixture: &Fixture) {
    const WRITERS: usize = 4;
    const EACH: usize = 25;
    let store = fixture.open().await;
    let write = |writer| {
        let store = store.clone();
        tokio::spawn(async move {
            for i in 0..EACH {
                let token = token(&format!("{writer}-{i}"), 1_000, None);
                store.insert_token(&token, &event(1), WRITERS * EACH).await.unwrap();
            }
        })
    };
    let writers: Vec<_> = (0..WRITERS).map(write).collect();
    let (mut seen, mut last) = (0, 0);
    while seen < WRITERS * EACH {
        let is_over = writers.iter().all(tokio::task::JoinHandle::is_finished);
        let trail = store.access_events(last, 10).await.unwrap();
        seen += trail.len();
        assert!(!(is_over && trail.is_empty()), "{seen} were seen, the last is {last}");
        last = trail.last().map_or(last, |line| line.number);
    }
}

pub(crate) async fn active_token_limit_is_enforced(fixture: &Fixture) {
    let store = fixture.open().await;
    for id in ["aa", "bb", "cc"] {
        assert!(store.insert_token(&token(id, 1_000, Some(5_000)), &event(1), MOST).await.unwrap());
    }
    assert!(!store.insert_token(&token("dd", 1_000, None), &event(1), MOST).await.unwrap());
    assert_eq!(fixture.number("SELECT count(*) FROM access_events").await, 3, "nothing happened");
    assert!(store.insert_token(&token("dd", 5_000, None), &event(1), MOST).await.unwrap());
}

pub(crate) async fn last_use_is_stored(fixture: &Fixture) {
    let store = fixture.open().await;
    store.insert_token(&token("aa", 1_000, None), &event(1), MOST).await.unwrap();
    store
        .record_token_use(&[("aa".to_owned(), at(9_000)), ("zz".to_owned(), at(1))])
        .await
        .unwrap();
    let live = store.tokens(TokenFilter::Active(at(9_000)), &start(), 10).await.unwrap();
    assert_eq!(live[0].last_used_at, Some(at(9_000)));
}

pub(crate) async fn triggers_reject_edits_of_access_events(fixture: &Fixture) {
    let store = fixture.open().await;
    store.insert_token(&token("aa", 1_000, None), &event(1), MOST).await.unwrap();
    for (mistake, table) in [
        ("UPDATE access_events SET principal = 'nobody'", "access_events"),
        ("DELETE FROM access_events", "access_events"),
        ("DELETE FROM tokens", "tokens"),
    ] {
        let said = fixture.mistake(mistake).await.unwrap_err();
        assert!(said.contains(table), "{mistake}: {said}");
    }
}

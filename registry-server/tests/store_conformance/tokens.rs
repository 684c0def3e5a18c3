//! API tokens and their trail.

use registry_core::{Digest, Timestamp};
use registry_server::store::{NewAccessEvent, StoredToken, TokenPlace, Which};

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

fn event(millis: i64) -> NewAccessEvent {
    NewAccessEvent {
        at: at(millis),
        principal: "root".to_owned(),
        method: "local".to_owned(),
        address: String::new(),
        detail: "a test".to_owned(),
    }
}

fn start() -> TokenPlace {
    TokenPlace::start()
}

fn ids(tokens: &[StoredToken]) -> Vec<&str> {
    tokens.iter().map(|token| &*token.id).collect()
}

pub(crate) async fn tokens_come_back_as_they_were_and_end_when_they_should(fixture: &Fixture) {
    let store = fixture.open().await;
    let (short, long) = (token("aa", 1_000, Some(5_000)), token("bb", 2_000, None));
    for token in [&short, &long] {
        assert!(store.insert_token(token, &event(1), MOST).await.unwrap());
    }
    let live = async |now| store.tokens(Which::Live(at(now)), &start(), 10).await.unwrap();
    assert_eq!(live(4_999).await, [long.clone(), short.clone()], "newest first");
    assert_eq!(ids(&live(5_000).await), ["bb"], "it has expired");
    assert!(store.revoke_token("bb", &event(6_000)).await.unwrap());
    assert!(!store.revoke_token("bb", &event(7_000)).await.unwrap(), "once is enough");
    assert!(!store.revoke_token("cc", &event(7_000)).await.unwrap());
    assert!(live(6_000).await.is_empty());
    let all = store.tokens(Which::All, &start(), 10).await.unwrap();
    let revoked = all[0].revoked.clone().unwrap();
    assert_eq!((revoked.at, &*revoked.by), (at(6_000), "root"));
    assert_eq!(fixture.number("SELECT count(*) FROM access_events").await, 3);
}

pub(crate) async fn pages_of_tokens_go_on_after_a_place(fixture: &Fixture) {
    let store = fixture.open().await;
    // Two of one moment, whose order is that of their ids.
    for (id, created_at) in [("bb", 2_000), ("aa", 2_000), ("cc", 1_000)] {
        assert!(store.insert_token(&token(id, created_at, None), &event(1), MOST).await.unwrap());
    }
    for which in [Which::All, Which::Live(at(9_000))] {
        let (mut seen, mut place) = (Vec::new(), start());
        while let Some(token) = store.tokens(which, &place, 1).await.unwrap().pop() {
            place = TokenPlace { created_at: token.created_at, id: token.id.clone() };
            seen.push(token.id);
        }
        assert_eq!(seen, ["aa", "bb", "cc"]);
    }
}

pub(crate) async fn the_trail_is_read_in_its_order(fixture: &Fixture) {
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

/// Whoever has read up to a number misses none before it, however many write.
pub(crate) async fn the_trail_is_seen_without_gaps_to_be_filled(fixture: &Fixture) {
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

pub(crate) async fn no_more_tokens_live_than_may(fixture: &Fixture) {
    let store = fixture.open().await;
    for id in ["aa", "bb", "cc"] {
        assert!(store.insert_token(&token(id, 1_000, Some(5_000)), &event(1), MOST).await.unwrap());
    }
    assert!(!store.insert_token(&token("dd", 1_000, None), &event(1), MOST).await.unwrap());
    assert_eq!(fixture.number("SELECT count(*) FROM access_events").await, 3, "nothing happened");
    assert!(store.insert_token(&token("dd", 5_000, None), &event(1), MOST).await.unwrap());
}

pub(crate) async fn the_last_use_is_kept(fixture: &Fixture) {
    let store = fixture.open().await;
    store.insert_token(&token("aa", 1_000, None), &event(1), MOST).await.unwrap();
    store.note_token_use(&[("aa".to_owned(), at(9_000)), ("zz".to_owned(), at(1))]).await.unwrap();
    let live = store.tokens(Which::Live(at(9_000)), &start(), 10).await.unwrap();
    assert_eq!(live[0].last_used_at, Some(at(9_000)));
}

pub(crate) async fn the_trail_only_grows(fixture: &Fixture) {
    let store = fixture.open().await;
    store.insert_token(&token("aa", 1_000, None), &event(1), MOST).await.unwrap();
    for mistake in [
        "UPDATE access_events SET principal = 'nobody'",
        "DELETE FROM access_events",
        "DELETE FROM tokens",
    ] {
        let said = fixture.mistake(mistake).await.unwrap_err();
        assert!(said.contains("only grows"), "{mistake}: {said}");
    }
}

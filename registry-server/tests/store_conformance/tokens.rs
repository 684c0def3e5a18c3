//! API tokens and their trail.

use registry_core::{Digest, Timestamp};
use registry_server::store::{NewAccessEvent, StoredToken, Which};

use crate::Fixture;

const MOST: usize = 3;

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn token(id: &str, created_at: i64, expires_at: Option<i64>) -> StoredToken {
    StoredToken {
        id: id.to_owned(),
        digest: Digest::of(id.as_bytes()),
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

fn ids(tokens: &[StoredToken]) -> Vec<&str> {
    tokens.iter().map(|token| &*token.id).collect()
}

pub(crate) async fn tokens_come_back_as_they_were_and_end_when_they_should(fixture: &Fixture) {
    let store = fixture.open().await;
    let (short, long) = (token("aa", 1_000, Some(5_000)), token("bb", 2_000, None));
    for token in [&short, &long] {
        assert!(store.insert_token(token, &event(1), MOST).await.unwrap());
    }
    let live = async |now| store.tokens(Which::Live(at(now)), 10).await.unwrap();
    assert_eq!(live(4_999).await, [long.clone(), short.clone()], "newest first");
    assert_eq!(ids(&live(5_000).await), ["bb"], "it has expired");
    assert!(store.revoke_token("bb", &event(6_000)).await.unwrap());
    assert!(!store.revoke_token("bb", &event(7_000)).await.unwrap(), "once is enough");
    assert!(!store.revoke_token("cc", &event(7_000)).await.unwrap());
    assert!(live(6_000).await.is_empty());
    let all = store.tokens(Which::All, 10).await.unwrap();
    let revoked = all[0].revoked.clone().unwrap();
    assert_eq!((revoked.at, &*revoked.by), (at(6_000), "root"));
    assert_eq!(fixture.number("SELECT count(*) FROM access_events").await, 3);
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
    let live = store.tokens(Which::Live(at(9_000)), 10).await.unwrap();
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

//! Manual edits are detected and located.

use registry_core::{ChainHash, Revision};
use registry_server::store::{Error, Store};

use crate::{
    fixture::Fixture,
    log::{Draft, Log},
};

/// A database with three commits after a manual edit.
async fn edited(fixture: &Fixture, sql: &str) -> (Fixture, Store) {
    let fixture = fixture.another().await;
    let store = fixture.open().await;
    let mut log = Log::new(&store);
    for name in ["A", "B", "C"] {
        log.append(&store, Draft::new().register(name, "1.0.0")).await;
    }
    assert!(store.load().await.is_ok());
    if !sql.is_empty() {
        fixture.execute(sql).await;
    }
    (fixture, store)
}

#[track_caller]
fn assert_corrupt<T>(result: Result<T, Error>, expected: &str, sql: &str) {
    match result {
        Err(Error::Corrupt { what, detail }) => assert_eq!(what, expected, "{sql}: {detail}"),
        Err(error) => panic!("{sql}: {error}"),
        Ok(_) => panic!("{sql}: not noticed"),
    }
}

pub(crate) async fn edited_entity_is_reported(fixture: &Fixture) {
    for (sql, what) in [
        (
            "UPDATE entities SET document = (SELECT document FROM entities WHERE name = 'A') \
             WHERE name = 'B'",
            "schema/B@1.0.0",
        ),
        (
            "UPDATE entities SET digest = (SELECT digest FROM entities WHERE name = 'A') \
             WHERE name = 'B'",
            "schema/B@1.0.0",
        ),
        (
            "UPDATE entities SET digest = 'md5:' || substr(digest, 5) WHERE name = 'B'",
            "schema/B@1.0.0",
        ),
        ("UPDATE entities SET name = 'b' WHERE name = 'B'", "schema/b@1.0.0"),
        ("DELETE FROM entities WHERE name = 'B'", "the table entities"),
        ("UPDATE entities SET registered_revision = 9 WHERE name = 'B'", "the table entities"),
    ] {
        let (_fixture, store) = edited(fixture, sql).await;
        assert_corrupt(store.load().await, what, sql);
    }
}

pub(crate) async fn edited_log_is_reported(fixture: &Fixture) {
    for (sql, what) in [
        (
            "UPDATE commits SET canonical = (SELECT canonical FROM commits WHERE revision = 3) \
             WHERE revision = 2",
            "revision 2",
        ),
        (
            "UPDATE commits SET chain = (SELECT chain FROM commits WHERE revision = 3) \
             WHERE revision = 2",
            "revision 2",
        ),
        ("DELETE FROM commits WHERE revision = 2", "revision 2"),
        ("DELETE FROM changes WHERE revision = 2", "revision 2"),
        ("UPDATE changes SET name = 'A' WHERE revision = 2", "revision 2"),
        (
            "UPDATE entities SET document = (SELECT document FROM entities WHERE name = 'A') \
             WHERE name = 'B'",
            "schema/B@1.0.0",
        ),
    ] {
        let (_fixture, store) = edited(fixture, sql).await;
        let genesis = (Revision(0), ChainHash::genesis(store.registry()));
        assert_corrupt(store.commits_after(genesis, 10).await, what, sql);
    }
    let sql = "UPDATE commits SET canonical = (SELECT canonical FROM commits WHERE revision = 3) \
               WHERE revision = 2";
    let (_fixture, store) = edited(fixture, sql).await;
    assert!(store.commit(Revision(1)).await.unwrap().is_some());
    assert_corrupt(store.commit(Revision(2)).await, "revision 2", sql);
}

pub(crate) async fn edited_head_is_reported(fixture: &Fixture) {
    for (sql, what) in [
        (
            "UPDATE head SET chain = (SELECT chain FROM commits WHERE revision = 1)",
            "the table head",
        ),
        ("UPDATE head SET revision = 2", "the table head"),
        ("UPDATE head SET revision = 9", "revision 9"),
        ("DELETE FROM commits WHERE revision = 3", "revision 3"),
        ("DELETE FROM head", "the table head"),
    ] {
        let (_fixture, store) = edited(fixture, sql).await;
        assert_corrupt(store.load().await, what, sql);
    }
    // Opening creates a missing head, as in a new database.
    let (fixture, _store) = edited(fixture, "DELETE FROM head").await;
    let reopened = fixture.open().await;
    assert_corrupt(reopened.load().await, "revision 0", "a head made anew");
}

pub(crate) async fn data_of_a_newer_server_is_not_corrupt(fixture: &Fixture) {
    let (fixture, store) = edited(fixture, "").await;
    let [second, third] = [2, 3].map(|revision| store.commit(Revision(revision)));
    let (second, third) = (second.await.unwrap().unwrap(), third.await.unwrap().unwrap());
    let text = String::from_utf8(third.canonical.to_vec()).unwrap();
    let newer = text.replacen('{', r#"{"aNewMember":1,"#, 1);
    let chain = second.chain.append(newer.as_bytes());
    let bytes = match fixture {
        Fixture::Sqlite(_) => format!("CAST('{newer}' AS BLOB)"),
        Fixture::Postgres(_) => format!("convert_to('{newer}', 'UTF8')"),
    };
    let sql =
        format!("UPDATE commits SET canonical = {bytes}, chain = '{chain}' WHERE revision = 3");
    fixture.execute(&sql).await;
    let following = store.commits_after((Revision(2), second.chain), 10).await.unwrap_err();
    let alone = store.commit(Revision(3)).await.unwrap_err();
    for error in [following, alone] {
        let text = error.to_string();
        assert!(matches!(error, Error::NewerData { .. }), "{text}");
        assert!(text.contains("revision 3") && text.contains("aNewMember"), "{text}");
    }
}

pub(crate) async fn triggers_reject_edits_of_the_log(fixture: &Fixture) {
    let (fixture, store) = edited(fixture, "").await;
    for (sql, table) in [
        ("UPDATE commits SET author = 'eve' WHERE revision = 2", "commits"),
        ("DELETE FROM commits WHERE revision = 3", "commits"),
        ("UPDATE changes SET reason = 'x'", "changes"),
        ("DELETE FROM changes", "changes"),
        ("DELETE FROM entities WHERE name = 'B'", "entities"),
    ] {
        let refused = fixture.mistake(sql).await.unwrap_err();
        assert!(refused.contains(&format!("table {table} ")), "{sql}: {refused}");
    }
    assert_eq!(store.load().await.unwrap().len(), 3);
}

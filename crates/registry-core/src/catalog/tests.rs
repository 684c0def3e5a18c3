//! Tests of catalogs.

use serde_json::json;

use super::{ApplyError, Catalog, LifecycleState};
use crate::{
    Kind, Name,
    chain::Revision,
    commit::{Action, Change, Commit, SealedCommit},
    lifecycle::Notice,
    rules::testing::{catalog, schema, server, set, source_tool, versioned},
    setting::{Setting, SettingChange},
    timestamp::Timestamp,
};

fn versions() -> Catalog {
    let read = source_tool("read", "files");
    catalog(&[
        versioned(&read, "1.10.0"),
        versioned(&read, "1.2.0"),
        versioned(&read, "2.0.0-rc.1"),
        source_tool("reader", "files"),
        schema("read", &json!(true)),
        server("read", &[]),
        set("tool/read@1.10.0", LifecycleState::Deprecated, None),
    ])
}

#[test]
fn versions_lists_one_name_in_order() {
    let catalog = versions();
    let read = Name::parse(Kind::Tool, "read").unwrap();
    let keys: Vec<_> = catalog.versions(Kind::Tool, &read).map(|(k, _)| k.to_string()).collect();
    assert_eq!(keys, ["tool/read@1.2.0", "tool/read@1.10.0", "tool/read@2.0.0-rc.1"]);
    assert_eq!(catalog.of_kind(Kind::Tool).count(), 4);
    assert_eq!(catalog.of_kind(Kind::Agent).count(), 0);
    let after: Vec<_> =
        catalog.after(Some(&keys[2].parse().unwrap())).map(|(k, _)| k.to_string()).collect();
    assert_eq!(after, ["tool/reader@1.0.0"]);
}

#[test]
fn usable_versions_begin_with_newest_active_release() {
    let retired = source_tool("read", "files");
    let mut log = vec![versioned(&retired, "3.0.0"), versioned(&retired, "1.1.0-rc.1")];
    log.extend(["1.2.0", "1.10.0", "1.1.0"].map(|version| versioned(&retired, version)));
    log.push(set("tool/read@3.0.0", LifecycleState::Retired, None));
    log.push(set("tool/read@1.10.0", LifecycleState::Deprecated, None));
    let catalog = catalog(&log);
    let read = Name::parse(Kind::Tool, "read").unwrap();
    let usable = catalog.usable_versions(Kind::Tool, &read).into_iter();
    let usable: Vec<_> = usable.map(|one| one.document.key().version.to_string()).collect();
    assert_eq!(usable, ["1.2.0", "1.1.0", "1.1.0-rc.1", "1.10.0"]);
}

#[test]
fn tool_is_callable_with_its_server() {
    let is_callable = |more: Vec<_>| {
        let mut entities = vec![source_tool("read", "files")];
        entities.extend(more);
        let catalog = catalog(&entities);
        catalog.is_callable(catalog.find(&"tool/read@1.0.0".parse().unwrap()).unwrap())
    };
    let files = || server("files", &["read"]);
    let set = |key, state| set(key, state, None);
    assert!(is_callable(Vec::new()), "a file without the server");
    assert!(is_callable(vec![files(), set("server/files@1.0.0", LifecycleState::Deprecated)]));
    assert!(!is_callable(vec![files(), set("server/files@1.0.0", LifecycleState::Retired)]));
    assert!(!is_callable(vec![set("tool/read@1.0.0", LifecycleState::Retired)]));
}

#[test]
fn dependents_of_unregistered_key_are_listed() {
    let catalog = versions();
    let files = "server/files@1.0.0".parse().unwrap();
    assert!(catalog.find(&files).is_none());
    assert_eq!(catalog.dependents(&files).count(), 4);
}

fn sealed(catalog: &Catalog, revision: u64, change: Change) -> SealedCommit {
    let commit = Commit {
        revision: Revision(revision),
        author: "tester".to_owned(),
        committed_at: Timestamp::from_millis(0),
        changes: vec![change],
        ..Commit::default()
    };
    let document = |action: &Action| match action {
        Action::Register { .. } => versions().find(&"tool/read@1.2.0".parse().unwrap()).cloned(),
        _ => None,
    };
    let documents = commit.changes.iter().filter_map(|c| document(&c.action));
    let documents = documents.map(|record| record.document.clone()).collect();
    SealedCommit::seal(&catalog.chain(), commit, documents).unwrap()
}

#[test]
fn apply_rejects_invalid_commit_atomically() {
    let before = versions();
    let read = before.find(&"tool/read@1.2.0".parse().unwrap()).unwrap().document.clone();
    let register = Change { key: read.key().clone(), action: Action::register(read.digest()) };
    let restore = Change { key: "tool/nothing@1.0.0".parse().unwrap(), action: Action::Restore };
    let mut catalog = before.clone();
    let mut refused = |revision, change: &Change| {
        let sealed = sealed(&catalog, revision, change.clone());
        catalog.apply(&sealed).unwrap_err()
    };
    assert!(matches!(refused(3, &register), ApplyError::OutOfOrder { .. }));
    assert!(matches!(refused(1, &register), ApplyError::OutOfOrder { .. }));
    assert!(matches!(refused(2, &register), ApplyError::Exists { .. }));
    assert!(matches!(refused(2, &restore), ApplyError::Absent { .. }));
    assert_eq!(catalog, before);
}

#[test]
fn content_digest_covers_settings() {
    let mut catalog = versions();
    let mut seen = vec![catalog.content_digest()];
    for (target, setting) in [
        ("tool/read", Setting::Archived(true)),
        ("tool/read", Setting::Owner("ann".to_owned())),
        ("*", Setting::Archived(true)),
        ("tool/read", Setting::Archived(false)),
    ] {
        let revision = catalog.revision().next();
        let setting = SettingChange { target: target.parse().unwrap(), setting };
        let commit = Commit { revision, settings: vec![setting], ..Commit::default() };
        let sealed = SealedCommit::seal(&catalog.chain(), commit, Vec::new()).unwrap();
        catalog.apply(&sealed).unwrap();
        let afresh = catalog.clone().with_settings(catalog.settings().clone());
        assert_eq!(catalog.content_digest(), afresh.content_digest());
        assert!(!seen.contains(&catalog.content_digest()));
        seen.push(catalog.content_digest());
    }
}

#[test]
fn changed_since_finds_each_change() {
    let schemas: Vec<_> = (0..300).map(|i| schema(&format!("S{i:03}"), &json!(true))).collect();
    let before = catalog(&schemas);
    for (key, _) in before.iter() {
        let commit = Commit {
            revision: before.revision().next(),
            changes: vec![Change { key: key.clone(), action: Action::Retire(Notice::default()) }],
            ..Commit::default()
        };
        let mut after = before.clone();
        after.apply(&SealedCommit::seal(&before.chain(), commit, Vec::new()).unwrap()).unwrap();
        let changed = after.changed_since(&before).unwrap();
        let changed: Vec<_> = changed.iter().map(|record| record.document.key()).collect();
        assert_eq!(changed, [key]);
        assert_ne!(before, after);
    }
}

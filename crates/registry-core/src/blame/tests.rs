//! Tests of blame.

use serde_json::json;

use super::{blame, blame_within, versions};
use crate::{
    Catalog, Kind, Name, Version,
    commit::{Action, Change, Commit, SealedCommit},
    rules::testing::{catalog, register, schema},
    timestamp::Timestamp,
};

/// Commits one version of the schema `a` per document.
fn registered(documents: &[(&str, serde_json::Value)]) -> Catalog {
    let mut catalog = catalog(&[schema("other", &json!(true))]);
    for (version, schema) in documents {
        let value = json!({ "name": "a", "version": version, "schema": schema });
        let crate::rules::Proposed::Register(document) = register(Kind::Schema, &value) else {
            unreachable!()
        };
        let action = Action::register(document.digest());
        let commit = Commit {
            revision: catalog.revision().next(),
            author: "tester".to_owned(),
            committed_at: Timestamp::from_millis(0),
            changes: vec![Change { key: document.key().clone(), action }],
            ..Commit::default()
        };
        let sealed = SealedCommit::seal(&catalog.chain(), commit, vec![document]).unwrap();
        catalog.apply(&sealed).unwrap();
    }
    catalog
}

/// No limits.
const ALL: (usize, usize) = (usize::MAX, usize::MAX);

/// Formats each leaf below the schema as `pointer version`.
fn blamed(catalog: &Catalog, version: Option<&str>, limits: (usize, usize)) -> Vec<String> {
    let name = Name::parse(Kind::Schema, "a").unwrap();
    let version = version.map(|version| Version::parse(version).unwrap());
    let versions = versions(catalog, (Kind::Schema, &name), version.as_ref());
    let lines = blame_within(limits, &versions).into_iter();
    let lines = lines.filter(|line| line.pointer.starts_with("/schema"));
    let text = |line: super::BlamedValue| {
        let earlier = if line.at_or_before { " or earlier" } else { "" };
        let version = &versions[line.origin].document.key().version;
        format!("{} {version}{earlier}", &line.pointer["/schema".len()..])
    };
    lines.map(text).collect()
}

#[test]
fn blame_names_version_since_which_value_is_unchanged() {
    let catalog = registered(&[
        ("1.0.0", json!({ "type": "string", "minLength": 1, "enum": ["a", "b"] })),
        ("1.1.0", json!({ "type": "string", "minLength": 2, "enum": ["a", "b", "c"] })),
        ("2.0.0", json!({ "type": "string", "minLength": 1, "enum": ["b", "b"], "not": {} })),
    ]);
    assert_eq!(
        blamed(&catalog, None, ALL),
        ["/enum/0 2.0.0", "/enum/1 1.0.0", "/minLength 2.0.0", "/not 2.0.0", "/type 1.0.0"]
    );
    assert_eq!(
        blamed(&catalog, Some("1.1.0"), ALL),
        ["/enum/0 1.0.0", "/enum/1 1.0.0", "/enum/2 1.1.0", "/minLength 1.1.0", "/type 1.0.0"]
    );
    assert!(blamed(&catalog, Some("9.0.0"), ALL).is_empty());
}

#[test]
fn blame_inserted_item_keeps_origin_of_others() {
    let catalog = registered(&[
        ("1.0.0", json!({ "enum": ["x", "y", "z"], "anyOf": [{ "minimum": 1 }] })),
        ("1.1.0", json!({ "enum": ["w", "x", "y", "z"], "anyOf": [true, { "minimum": 1 }] })),
        ("1.2.0", json!({ "enum": ["w", "y", "z"], "anyOf": [{ "minimum": 1 }] })),
    ]);
    assert_eq!(
        blamed(&catalog, None, ALL),
        ["/anyOf/0/minimum 1.0.0", "/enum/0 1.1.0", "/enum/1 1.0.0", "/enum/2 1.0.0"]
    );
}

#[test]
fn blame_orders_versions_by_registration() {
    let catalog = registered(&[
        ("2.0.0", json!({ "minimum": 1 })),
        ("1.0.0", json!({ "minimum": 1 })),
        ("1.0.1", json!({ "minimum": 0 })),
        ("2.0.1", json!({ "minimum": 1 })),
    ]);
    assert_eq!(blamed(&catalog, None, ALL), ["/minimum 2.0.1"]);
    assert_eq!(blamed(&catalog, Some("1.0.0"), ALL), ["/minimum 2.0.0"]);
}

#[test]
fn blame_over_limit_marks_origin_as_earliest_known() {
    let one = json!({ "minimum": 1 });
    let catalog = registered(&[("1.0.0", one.clone()), ("1.0.1", one.clone()), ("1.0.2", one)]);
    let name = Name::parse(Kind::Schema, "a").unwrap();
    let all = versions(&catalog, (Kind::Schema, &name), None);
    let bytes = all[1].document.bytes().len();
    assert_eq!(blamed(&catalog, None, (bytes, usize::MAX)), ["/minimum 1.0.1 or earlier"]);
    assert_eq!(blamed(&catalog, None, (2 * bytes, usize::MAX)), ["/minimum 1.0.0"]);
    let list = |one: &str| json!({ "enum": [one, "a", "b"], "type": "string" });
    let listed = registered(&[("1.0.0", list("x")), ("1.0.1", list("y"))]);
    assert_eq!(blamed(&listed, None, (usize::MAX, 1))[2], "/enum/2 1.0.0");
    let unaligned = blamed(&listed, None, (usize::MAX, 0));
    assert_eq!(unaligned[2..], ["/enum/2 1.0.1 or earlier", "/type 1.0.0"]);
    assert_eq!(blame(&all).len(), 3, "the name and the version too");
    assert!(blame(&[]).is_empty());
}

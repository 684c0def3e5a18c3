//! Random histories are tested in `tests/properties/scope.rs`.

use serde_json::json;

use super::{Scope, ScopedCatalog};
use crate::{
    Catalog, LifecycleState,
    rules::{
        Proposed,
        testing::{agent, catalog, schema, server, set, source_tool, versioned, with},
    },
    scope::InvalidScope,
};

fn entities() -> Vec<Proposed> {
    let uses = |tool: &str| json!([{ "type": "tool", "name": tool, "version": "1.0.0" }]);
    let read =
        with(&source_tool("read", "files"), json!({ "inputSchema": { "$ref": "#In:1.0.0" } }));
    vec![
        schema("In", &json!({ "type": "object" })),
        server("files", &["read", "write"]),
        server("team/mail", &["send"]),
        read,
        with(&source_tool("write", "files"), json!({ "metadata": { "tags": ["say \"x\""] } })),
        with(
            &source_tool("send", "team/mail"),
            json!({ "source": { "server": "team/mail", "serverVersion": "1.0.0", "tool": "send" } }),
        ),
        agent("clerk", &uses("read")),
        versioned(&agent("clerk", &uses("write")), "2.0.0"),
    ]
}

fn keys(catalog: &Catalog, roots: &[&str]) -> String {
    let scope = Scope::from_roots(roots).unwrap();
    let part = ScopedCatalog::select(scope.clone().into(), catalog);
    let keys: Vec<String> = part.catalog().iter().map(|(key, _)| key.to_string()).collect();
    let by_definition: Vec<String> = scope.keys(catalog).iter().map(ToString::to_string).collect();
    assert_eq!(keys, by_definition);
    keys.join(" ")
}

#[test]
fn unmatched_roots_match_no_entity() {
    let catalog = catalog(&entities());
    let roots = ["agent/clerk@1.0.0", "agent/clrk@*", "tag:say", "team/*", "tema/*"];
    let unmatched = Scope::from_roots(&roots).unwrap().unmatched_roots(&catalog);
    let unmatched: Vec<_> = unmatched.iter().map(ToString::to_string).collect();
    assert_eq!(unmatched, ["agent/clrk@*", "tema/*", "tag:say"]);
    assert!(Scope::Everything.unmatched_roots(&catalog).is_empty());
}

#[test]
fn scope_contains_dependencies_of_roots() {
    let catalog = catalog(&entities());
    for (root, expected) in [
        (
            "agent/clerk@1.0.0",
            "schema/In@1.0.0 server/files@1.0.0 tool/read@1.0.0 agent/clerk@1.0.0",
        ),
        ("tool/write@*", "server/files@1.0.0 tool/write@1.0.0"),
        ("team/*", "server/team/mail@1.0.0 tool/send@1.0.0"),
        ("tag:say \"x\"", "server/files@1.0.0 tool/write@1.0.0"),
        ("tag:say", ""),
        ("agent/nobody@*", ""),
        (
            "server/files@1.0.0",
            "schema/In@1.0.0 server/files@1.0.0 tool/read@1.0.0 tool/write@1.0.0",
        ),
    ] {
        assert_eq!(keys(&catalog, &[root]), expected, "{root}");
    }
    assert_eq!(Scope::Everything.keys(&catalog).len(), catalog.len());
}

#[test]
fn scope_contains_tool_behind_alias() {
    let source = json!({ "server": "files", "serverVersion": "1.0.0", "tool": "read" });
    let mut entities = entities();
    entities.push(with(&source_tool("load", "files"), json!({ "source": source })));
    let expected = "schema/In@1.0.0 server/files@1.0.0 tool/load@1.0.0 tool/read@1.0.0";
    assert_eq!(keys(&catalog(&entities), &["tool/load@*"]), expected);
}

#[test]
fn wildcard_root_selects_active_versions_only() {
    let mut entities = entities();
    let clerks = |catalog: &Catalog, root: &str| keys(catalog, &[root]).matches("agent/").count();
    assert_eq!(clerks(&catalog(&entities), "agent/clerk@*"), 2);
    entities.push(set("agent/clerk@1.0.0", LifecycleState::Deprecated, None));
    let catalog = catalog(&entities);
    assert_eq!(clerks(&catalog, "agent/clerk@*"), 1);
    assert_eq!(clerks(&catalog, "agent/clerk@1.0.0"), 1);
}

#[test]
fn root_round_trips_through_text() {
    let texts =
        ["agent/a@1.0.0", "tool/b@*", "server/io.x/y@2.0.0", "com.example.*", "team/*", "tag:x y"];
    let scope = Scope::from_roots(&texts).unwrap();
    let mut written: Vec<String> = scope.roots().map(ToString::to_string).collect();
    written.sort_unstable();
    let mut expected = texts;
    expected.sort_unstable();
    assert_eq!(written, expected);
    for bad in ["", "*", "agent/a", "agent/a@^1", "nothing/a@*", "tag:", "a*", "tag:\n", "tool/@*"]
    {
        let found = Scope::from_roots(&[bad]).unwrap_err();
        assert!(matches!(found, InvalidScope::Root(_)), "{bad} {found}");
    }
    assert_eq!(Scope::from_roots::<&str>(&[]), Err(InvalidScope::Empty));
    assert_eq!(Scope::from_roots(&["tag:x"; 1001]), Err(InvalidScope::TooMany(1001)));
    assert_eq!(Scope::Everything.to_string(), "*");
}

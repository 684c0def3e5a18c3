//! Closure and dependents on a small registry with every kind of relation.
//!
//! Deliberately absent: random graphs, which are property tests.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{closure, dependents};
use crate::{
    Catalog, Key, Scope,
    rules::testing::{agent, catalog, schema, server, source_tool, tool, with},
};

fn registry() -> Catalog {
    let on = |kind: &str, name: &str| json!({ "type": kind, "name": name, "version": "1.0.0", "skill": if kind == "agent" { json!("work") } else { Value::Null } });
    catalog(&[
        schema("Inner", &json!({ "type": "object" })),
        schema("Outer", &json!({ "items": { "$ref": "#Inner:1.0.0" } })),
        server("files", &["read", "write"]),
        with(&source_tool("read", "files"), json!({ "inputSchema": { "$ref": "#Outer:1.0.0" } })),
        source_tool("write", "files"),
        tool("copy", json!({ "spec": {}, "depends": [on("tool", "read"), on("tool", "missing")] })),
        agent("worker", &json!([on("tool", "copy")])),
        agent("boss", &json!([on("agent", "worker")])),
    ])
}

fn texts(keys: &BTreeSet<Key>) -> Vec<String> {
    keys.iter().map(ToString::to_string).collect()
}

#[test]
fn a_closure_has_everything_that_is_needed_and_no_more() {
    let needed = closure(&registry(), [&"agent/boss@1.0.0".parse().unwrap()]);
    assert_eq!(
        texts(&needed),
        [
            "schema/Inner@1.0.0",
            "schema/Outer@1.0.0",
            "server/files@1.0.0",
            "tool/copy@1.0.0",
            "tool/read@1.0.0",
            "agent/boss@1.0.0",
            "agent/worker@1.0.0",
        ]
    );
    assert!(closure(&registry(), [&"agent/nobody@1.0.0".parse().unwrap()]).is_empty());
}

#[test]
fn dependents_are_what_breaks() {
    let of = |key: &str| texts(&dependents(&registry(), &key.parse().unwrap()));
    assert_eq!(
        of("schema/Inner@1.0.0"),
        [
            "schema/Outer@1.0.0",
            "tool/copy@1.0.0",
            "tool/read@1.0.0",
            "agent/boss@1.0.0",
            "agent/worker@1.0.0"
        ]
    );
    assert_eq!(of("tool/write@1.0.0"), Vec::<String>::new());
    assert_eq!(of("agent/boss@1.0.0"), Vec::<String>::new());
}

#[test]
fn a_scope_is_everything_or_the_closure_of_agents() {
    let registry = registry();
    assert_eq!(Scope::Everything.keys(&registry).len(), registry.len());
    let agents = BTreeSet::from(["agent/worker@1.0.0".parse().unwrap()]);
    let scoped = Scope::Agents(agents.clone()).keys(&registry);
    assert_eq!(scoped, closure(&registry, &agents));
    assert_eq!(scoped.len(), 6);
}

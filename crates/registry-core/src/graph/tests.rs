//! Tests of the dependency graph.

mod impact;

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Direction, Reach, closure, dependents, paths};
use crate::{
    Catalog, Key,
    rules::testing::{agent, catalog, renamed, schema, server, source_tool, tool, with},
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
fn closure_contains_exactly_dependencies() {
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
fn dependents_are_direct_and_transitive() {
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
fn reach_orders_by_distance_with_shortest_paths() {
    let registry = registry();
    let roots: [Key; 1] = ["agent/boss@1.0.0".parse().unwrap()];
    let walk = |deepest| Reach::from_roots(&registry, &roots, Direction::Dependencies, deepest);
    let all = walk(None);
    let lines: Vec<String> =
        all.nodes().iter().map(|node| format!("{} {}", node.depth, node.key)).collect();
    assert_eq!(
        lines,
        [
            "0 agent/boss@1.0.0",
            "1 agent/worker@1.0.0",
            "2 tool/copy@1.0.0",
            "3 tool/read@1.0.0",
            "4 schema/Outer@1.0.0",
            "4 server/files@1.0.0",
            "5 schema/Inner@1.0.0",
        ]
    );
    assert_eq!(all.path(6), [0, 1, 2, 3, 4, 6]);
    assert_eq!(all.steps(3), [vec![1], vec![2], vec![]]);
    assert_eq!(walk(Some(0)).nodes().len(), 1);
    assert_eq!(walk(Some(2)).nodes(), &all.nodes()[..3]);
    assert_eq!(walk(Some(1)).steps(9), [vec![1], vec![]]);
}

/// A ladder of diamonds: two alternatives per step, thus 2^n paths.
fn ladder(steps: usize) -> Catalog {
    let on = |name: String| json!({ "type": "tool", "name": name, "version": "1.0.0" });
    let mut batch = Vec::new();
    for i in 0..=steps {
        let below = |side: &str| on(format!("{side}{i}"));
        let depends = if i == steps { json!([]) } else { json!([below("left"), below("right")]) };
        batch.push(tool(&format!("step{i}"), json!({ "spec": {}, "depends": depends })));
        for side in ["left", "right"] {
            let next = json!([on(format!("step{}", i + 1))]);
            batch.push(tool(&format!("{side}{i}"), json!({ "spec": {}, "depends": next })));
        }
    }
    catalog(&batch)
}

#[test]
fn paths_finds_shortest_and_counts_exponentially_many() {
    let registry = ladder(40);
    let key = |name: &str| format!("tool/{name}@1.0.0").parse::<Key>().unwrap();
    let found = paths(&registry, &key("step0"), &key("step40"), 3);
    assert_eq!((found.shown.len(), found.total), (3, 1 << 40));
    for path in &found.shown {
        assert_eq!((path.first(), path.last()), (Some(&key("step0")), Some(&key("step40"))));
        assert_eq!(path.len(), 81);
    }
    assert_ne!(found.shown[0], found.shown[1]);
    assert_eq!(paths(&registry, &key("step40"), &key("step0"), 3).shown, Vec::<Vec<Key>>::new());
    assert_eq!(paths(&ladder(70), &key("step0"), &key("step70"), 1).total, u64::MAX);
}

#[test]
fn paths_orders_by_length() {
    let on = |name: &str| json!({ "type": "tool", "name": name, "version": "1.0.0" });
    let uses = |name: &str, depends: &[&str]| {
        let depends: Vec<_> = depends.iter().map(|name| on(name)).collect();
        tool(name, json!({ "spec": {}, "depends": depends }))
    };
    let registry = catalog(&[
        uses("a", &["b", "c", "d"]),
        uses("b", &["c", "d"]),
        uses("c", &["d"]),
        uses("d", &[]),
    ]);
    let [a, d] = ["tool/a@1.0.0", "tool/d@1.0.0"].map(|key| key.parse::<Key>().unwrap());
    let found = paths(&registry, &a, &d, 10);
    let lengths: Vec<_> = found.shown.iter().map(Vec::len).collect();
    assert_eq!((lengths.as_slice(), found.total), (&[2, 3, 3, 4][..], 4));
    assert_eq!(paths(&registry, &a, &a, 10).shown, [vec![a]]);
}

#[test]
fn dependents_handles_ten_thousand_entities() {
    let mut batch = vec![server("files", &["read"]), source_tool("read", "files")];
    batch.extend((0..10_000).map(|i| renamed(&source_tool("read", "files"), &format!("r{i}"))));
    let registry = catalog_of_many(&batch);
    let root: Key = "server/files@1.0.0".parse().unwrap();
    let reach = Reach::from_roots(&registry, [&root], Direction::Dependents, None);
    assert_eq!(reach.nodes().len(), 10_002);
    assert_eq!(reach.steps(100)[0].len(), 99);
}

/// Like `catalog`, but for more entities than fit into one commit.
fn catalog_of_many(batch: &[crate::rules::Proposed]) -> Catalog {
    let records = batch.iter().filter_map(|proposed| match proposed {
        crate::rules::Proposed::Register(document) => Some(crate::Record {
            document: document.clone(),
            owner: "tester".into(),
            registered: crate::Revision(1),
            registered_at: crate::Timestamp::from_millis(0),
            lifecycle: crate::Lifecycle::active((
                crate::Revision(1),
                crate::Timestamp::from_millis(0),
            )),
        }),
        crate::rules::Proposed::SetLifecycle { .. } => None,
    });
    let empty = catalog(&[]);
    Catalog::restore(empty.registry().clone(), crate::Revision(1), empty.chain(), records)
}

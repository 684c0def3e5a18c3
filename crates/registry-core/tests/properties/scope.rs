//! A scoped catalog matches its definition at every revision, regardless of skipped revisions, and
//! deltas transform each scoped catalog into any other.

use std::{
    collections::{BTreeSet, HashSet},
    sync::Arc,
};

use proptest::{collection::vec, prelude::*, sample::select};
use registry_core::{
    Catalog, Entity, Key, Kind, LifecycleState, Scope,
    policies::{EffectiveVersions, ResourceNames},
    scoped_catalog::ScopedCatalog,
};
use registry_fixtures::world::{Wish, commit, empty, wish};

use serde_json::json;

const ROOTS: [&str; 12] = [
    "agent/a@1.0.0",
    "agent/a@*",
    "agent/b@*",
    "tool/b@*",
    "tool/c@1.1.0",
    "server/a@*",
    "server/d@1.0.0",
    "schema/c@*",
    "team/*",
    "tag:x",
    "tag:t",
    "agent/d@2.0.0-rc.1",
];

/// A proposed entity with tags or a namespace, depending on its name.
fn named() -> impl Strategy<Value = Wish> {
    wish().prop_map(|mut wish| {
        if let Wish::Register(kind, value) = &mut wish {
            match (*kind, value["name"].as_str()) {
                (Kind::Agent, Some("a" | "c")) => value["skills"][0]["tags"] = json!(["x"]),
                (Kind::Tool, Some("b")) => value["metadata"] = json!({ "tags": ["t", "x"] }),
                (Kind::Agent, Some("d")) => value["name"] = json!("team/d"),
                _ => {}
            }
        }
        wish
    })
}

/// The tools of other names that the server of an alias provides for its upstream tool.
fn behind(catalog: &Catalog, entity: &Entity) -> Vec<Key> {
    let Entity::Tool(tool) = entity else { return Vec::new() };
    let server = tool.source().and_then(|source| catalog.find(&source.server_key()));
    let names = ResourceNames::of_tool(tool).tools;
    let provided = server.into_iter().flat_map(|server| server.document.edges());
    let is_behind =
        |key: &&Key| key.name != tool.name && names.iter().any(|name| **name == *key.name.as_str());
    provided.filter(is_behind).cloned().collect()
}

/// A direct implementation of the definition.
fn expected(catalog: &Catalog, roots: &[&str]) -> BTreeSet<Key> {
    let mut found: BTreeSet<Key> = BTreeSet::new();
    let mut waiting: Vec<Key> = Vec::new();
    for (key, record) in catalog.iter() {
        let is_active = record.lifecycle.state == LifecycleState::Active;
        let value = record.document.entity().to_value();
        let tags = value["metadata"]["tags"].as_array().cloned().unwrap_or_default();
        let skills = value["skills"].as_array().cloned().unwrap_or_default();
        let of_skills =
            skills.iter().flat_map(|s| s["tags"].as_array().cloned().unwrap_or_default());
        let tags: HashSet<String> = tags
            .into_iter()
            .chain(of_skills)
            .filter_map(|t| Some(t.as_str()?.to_owned()))
            .collect();
        if key.kind == Kind::Policy {
            continue;
        }
        let names = |root: &&str| match root.strip_prefix("tag:") {
            Some(tag) => is_active && tags.contains(tag),
            None if *root == "team/*" => is_active && key.name.as_str().starts_with("team/"),
            None => match root.strip_suffix("@*") {
                Some(name) => is_active && format!("{}/{}", key.kind, key.name) == name,
                None => key.to_string() == **root,
            },
        };
        if roots.iter().any(names) {
            waiting.push(key.clone());
            if key.kind == Kind::Server {
                waiting.extend(record.document.edges().iter().cloned());
            }
        }
    }
    while let Some(key) = waiting.pop() {
        let Some(record) = catalog.find(&key) else { continue };
        if found.insert(key.clone()) && key.kind != Kind::Server {
            waiting.extend(record.document.edges().iter().cloned());
            waiting.extend(behind(catalog, record.document.entity()));
        }
    }
    let policies: Vec<Key> = catalog
        .effective_policies()
        .into_iter()
        .flat_map(EffectiveVersions::iter)
        .filter(|record| {
            let Entity::Policy(policy) = record.document.entity() else { return false };
            let selector = &policy.applies_to;
            let matches = |key: &Key| {
                let names = ResourceNames::of(catalog.find(key).unwrap().document.entity());
                names.is_some_and(|names| selector.selects(&names))
            };
            !selector.names_resources() || found.iter().any(matches)
        })
        .map(|record| record.document.key().clone())
        .collect();
    found.extend(policies);
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn scoped_catalog_is_closure_of_roots(
        batches in vec(vec(named(), 1..6), 1..12),
        roots in vec(select(&ROOTS[..]), 1..4),
        stride in 1..4_usize,
    ) {
        let scope = Arc::new(Scope::from_roots(&roots).unwrap());
        let mut catalog = empty();
        let mut part = ScopedCatalog::select(scope.clone(), &catalog);
        let mut told = part.catalog().clone();
        for (i, batch) in batches.iter().enumerate() {
            if let Some(sealed) = commit(&catalog, batch) {
                catalog.apply(&sealed).unwrap();
            }
            prop_assert_eq!(scope.keys(&catalog), expected(&catalog, &roots));
            if i % stride != 0 {
                continue;
            }
            let changed = catalog.changed_since(part.source());
            let has_changed = part.advance(&catalog, changed.as_deref());
            let held: BTreeSet<Key> = part.catalog().iter().map(|(key, _)| key.clone()).collect();
            prop_assert_eq!(held, expected(&catalog, &roots));
            let afresh = ScopedCatalog::select(scope.clone(), &catalog);
            prop_assert_eq!(part.catalog(), afresh.catalog());
            prop_assert_eq!(part.catalog().content_digest(), afresh.catalog().content_digest());
            prop_assert!(part.catalog().iter().all(|(key, r)| catalog.find(key) == Some(r)));
            let is_same = told.content_digest() == part.catalog().content_digest();
            prop_assert!(has_changed || is_same);
            let step = part.catalog().delta_from(&told);
            let at = (part.catalog().revision(), part.catalog().chain());
            let stepped = told.with_delta(at, scope.clone(), step).unwrap();
            prop_assert_eq!(&stepped, part.catalog());
            prop_assert_eq!(stepped.digest(), part.catalog().digest());
            told = stepped;
            // To another scope and back.
            let other = ScopedCatalog::select(Arc::new(Scope::from_roots(&ROOTS[3..9]).unwrap()), &catalog);
            let away = other.catalog().delta_from(&told);
            let there = told.with_delta(at, other.catalog().scope().clone(), away).unwrap();
            prop_assert_eq!(&there, other.catalog());
            let back = there.with_delta(at, scope.clone(), told.delta_from(&there)).unwrap();
            prop_assert_eq!(&back, &told);
        }
    }
}

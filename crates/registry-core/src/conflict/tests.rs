//! Tests of conflict resolution.

use std::sync::Arc;

use serde_json::json;

use super::{OnConflict, Resolution, ResolvedBatch};
use crate::{
    catalog::Catalog,
    document::Document,
    kind::Kind,
    rules::{
        Proposed, plan,
        testing::{agent, catalog, schema, server, source_tool, with},
    },
};

fn settle(catalog: &Catalog, batch: &[Proposed], how: OnConflict) -> ResolvedBatch {
    super::resolve_conflicts(catalog, batch, how).unwrap()
}

fn lines(settled: &ResolvedBatch) -> Vec<String> {
    let line = |settlement: &Resolution| match settlement {
        Resolution::Skipped(key) => format!("skip {key}"),
        Resolution::Bumped { from, to } => format!("{from} -> {}", to.version),
    };
    settled.resolutions.iter().map(line).collect()
}

fn batch(settled: &ResolvedBatch) -> Vec<Proposed> {
    settled.changes.iter().map(|(_, proposed)| proposed.clone()).collect()
}

fn accepted(catalog: &Catalog, settled: &ResolvedBatch) -> usize {
    let plan = plan(catalog, &batch(settled));
    assert!(plan.is_acceptable(), "{:?}", plan.diagnostics);
    plan.changes().count()
}

fn world(query: &serde_json::Value) -> Vec<Proposed> {
    let find = with(
        &source_tool("find", "docs"),
        json!({ "inputSchema": { "type": "object", "properties": { "q": { "$ref": "#Query:1.0.0" } } } }),
    );
    let depends = json!([{ "type": "tool", "name": "find", "version": "1.0.0" }]);
    vec![
        schema("Query", query),
        server("docs", &["find", "read"]),
        find,
        source_tool("read", "docs"),
        agent("reader", &depends),
    ]
}

#[test]
fn conflict_equal_content_is_none() {
    let batch = world(&json!({ "type": "string" }));
    let before = catalog(&batch);
    for how in [OnConflict::Fail, OnConflict::Skip, OnConflict::Bump] {
        let settled = settle(&before, &batch, how);
        assert_eq!(lines(&settled), <[&str; 0]>::default());
        assert_eq!(accepted(&before, &settled), 0);
    }
}

#[test]
fn skip_removes_only_conflicting_changes() {
    let before = catalog(&world(&json!({ "type": "string" })));
    let mut batch = world(&json!({ "type": "integer" }));
    batch.push(source_tool("find2", "docs2"));
    batch.push(server("docs2", &["find2"]));
    let settled = settle(&before, &batch, OnConflict::Skip);
    assert_eq!(lines(&settled), ["skip schema/Query@1.0.0"]);
    assert_eq!(accepted(&before, &settled), 2);
    assert!(settled.changes.iter().all(|(i, proposed)| batch[*i] == *proposed));
}

#[test]
fn bump_updates_dependents_and_is_idempotent() {
    let before = catalog(&world(&json!({ "type": "string" })));
    let batch = world(&json!({ "type": "integer" }));
    let settled = settle(&before, &batch, OnConflict::Bump);
    assert_eq!(
        lines(&settled),
        [
            "schema/Query@1.0.0 -> 2.0.0",
            "server/docs@1.0.0 -> 1.0.1",
            "tool/find@1.0.0 -> 2.0.0",
            "tool/read@1.0.0 -> 1.0.1",
            "agent/reader@1.0.0 -> 1.0.1",
        ]
    );
    assert_eq!(accepted(&before, &settled), 5);
    let after = catalog(&[world(&json!({ "type": "string" })), self::batch(&settled)].concat());
    let again = settle(&after, &batch, OnConflict::Bump);
    assert_eq!(lines(&again), lines(&settled), "the same content is found again");
    assert_eq!(accepted(&after, &again), 0);
    // A further change gets a still newer version.
    let more = settle(&after, &world(&json!({ "type": "null" })), OnConflict::Bump);
    assert_eq!(lines(&more)[0], "schema/Query@1.0.0 -> 3.0.0");
    assert_eq!(accepted(&after, &more), 5);
}

#[test]
fn bump_finds_same_content_below_newer_versions() {
    let worlds = ["string", "integer", "null"].map(|name| world(&json!({ "type": name })));
    let other_words = {
        let mut batch = worlds[1].clone();
        batch[3] = with(&source_tool("read", "docs"), json!({ "description": "Reads" }));
        batch
    };
    let mut before = worlds[0].clone();
    let mut got = Vec::new();
    for batch in [&worlds[1], &worlds[2], &other_words] {
        let settled = settle(&catalog(&before), batch, OnConflict::Bump);
        got.push(lines(&settled));
        let new = self::batch(&settled).into_iter().filter(|new| !before.contains(new));
        before.extend(new.collect::<Vec<_>>());
    }
    let after = catalog(&before);
    for (batch, got) in [&worlds[1], &worlds[2], &other_words].into_iter().zip(got) {
        let again = settle(&after, batch, OnConflict::Bump);
        assert_eq!(lines(&again), got);
        assert_eq!(accepted(&after, &again), 0);
    }
}

#[test]
fn bump_of_changed_title_is_patch() {
    let before = catalog(&[schema("A", &json!({ "type": "string" }))]);
    let words = [schema("A", &json!({ "type": "string", "title": "A" }))];
    assert_eq!(lines(&settle(&before, &words, OnConflict::Bump)), ["schema/A@1.0.0 -> 1.0.1"]);
}

#[test]
fn bump_without_successor_is_reported() {
    let at = |version: &str, schema: &serde_json::Value| {
        let value = json!({ "name": "A", "version": version, "schema": schema });
        let document = Document::parse(Kind::Schema, &value).unwrap();
        Proposed::Register(Arc::new(document))
    };
    for last in ["18446744073709551615.0.0", "1.0.18446744073709551615"] {
        let change = if last.starts_with("1.") { "string" } else { "integer" };
        let before = catalog(&[at(last, &json!({ "type": "string" }))]);
        let batch = [at(last, &json!({ "type": change, "title": "A" }))];
        let error = super::resolve_conflicts(&before, &batch, OnConflict::Bump).unwrap_err();
        assert_eq!(error.newest.to_string(), last);
    }
}

#[test]
fn bump_increment_matches_kind_of_change() {
    let bumped = |old: serde_json::Value, new: serde_json::Value| {
        let settled =
            settle(&catalog(&[schema("A", &old)]), &[schema("A", &new)], OnConflict::Bump);
        lines(&settled).join("\n")
    };
    let text = json!({ "type": "string" });
    assert_eq!(bumped(text.clone(), json!({ "anyOf": [text] })), "schema/A@1.0.0 -> 1.0.1");
    let wider = json!({ "type": ["string", "null"] });
    assert_eq!(bumped(text.clone(), wider.clone()), "schema/A@1.0.0 -> 1.1.0");
    assert_eq!(bumped(wider, text), "schema/A@1.0.0 -> 2.0.0");
    let pattern = |text: &str| json!({ "pattern": text });
    let open = bumped(pattern("^(a|b)$"), pattern("^[ab]$"));
    assert_eq!(open, "schema/A@1.0.0 -> 2.0.0", "what is undecided may break");
}

#[test]
fn bump_compares_through_bumped_references() {
    // `C` breaks. `B` and `A` change only in their references, except that `A` also has a new
    // title.
    let to = |name: &str| json!({ "items": { "$ref": format!("#{name}:1.0.0") } });
    let all = |c: &str, words: &str| {
        let mut a = to("B");
        a["title"] = json!(words);
        vec![schema("A", &a), schema("B", &to("C")), schema("C", &json!({ "type": c }))]
    };
    let before = catalog(&all("string", "a"));
    let settled = settle(&before, &all("integer", "b"), OnConflict::Bump);
    assert_eq!(
        lines(&settled),
        ["schema/A@1.0.0 -> 2.0.0", "schema/B@1.0.0 -> 2.0.0", "schema/C@1.0.0 -> 2.0.0"]
    );
    assert_eq!(accepted(&before, &settled), 3);
}

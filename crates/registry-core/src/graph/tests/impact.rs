//! The test registry has the chain agent → tool → tool → schema.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::{
    Catalog, Code, Document, Key, Kind,
    graph::{Affected, Effect, HypotheticalChange, Impact, Replacement, impact},
    lifecycle::LifecycleState::{Deprecated, Retired},
    limits,
    rules::{
        Proposed, plan,
        testing::{agent, catalog, schema, server, set, source_tool, tool, versioned, with},
    },
};

fn on(kind: &str, name: &str) -> Value {
    let skill = if kind == "agent" { json!("work") } else { Value::Null };
    json!({ "type": kind, "name": name, "version": "1.0.0", "skill": skill })
}

/// A composition that uses `copy`.
fn step() -> Value {
    json!({ "pipeline": { "steps": [{ "id": "a", "operation": { "tool": "copy" } }] } })
}

/// worker → copy → read → In; boss → worker; old → read, deprecated; gone → read, retired.
fn registry() -> Vec<Proposed> {
    vec![
        schema("In", &json!({ "type": "object" })),
        server("files", &["read"]),
        with(&source_tool("read", "files"), json!({ "inputSchema": { "$ref": "#In:1.0.0" } })),
        tool("copy", json!({ "spec": {}, "depends": [on("tool", "read")] })),
        agent("worker", &json!([on("tool", "copy")])),
        agent("boss", &json!([on("agent", "worker")])),
        tool("old", json!({ "spec": {}, "depends": [on("tool", "read")] })),
        tool("gone", json!({ "spec": {}, "depends": [on("tool", "read")] })),
        set("tool/old@1.0.0", Deprecated, None),
        set("tool/gone@1.0.0", Retired, None),
    ]
}

fn impact_of(catalog: &Catalog, key: &str, planned: &HypotheticalChange) -> Impact {
    impact(catalog, &key.parse().unwrap(), planned, usize::MAX)
}

fn replacement(proposed: &Proposed) -> HypotheticalChange {
    let Proposed::Register(document) = proposed else { panic!("not a registration") };
    let (document, accompanying) = (document.clone(), Vec::new());
    HypotheticalChange::Replace(Replacement { document, accompanying })
}

/// Formats each dependent as effect, path and finding codes.
fn lines(impact: &Impact) -> Vec<String> {
    let line = |affected: &Affected| {
        let Affected { path, effect, findings, .. } = affected;
        let names: Vec<_> = path.iter().map(|key| key.name.as_str()).collect();
        let codes: Vec<_> = findings.iter().map(|found| found.code.as_str()).collect();
        format!("{effect:?} {} {}", names.join(" → "), codes.join(" ")).trim_end().to_owned()
    };
    impact.affected.iter().map(line).collect()
}

#[test]
fn retirement_breaks_active_dependents_with_paths() {
    let catalog = catalog(&registry());
    let found = impact_of(&catalog, "schema/In@1.0.0", &HypotheticalChange::Retire);
    assert_eq!(
        lines(&found),
        [
            "Breaks read → In",
            "Breaks copy → read → In",
            "Breaks worker → copy → read → In",
            "Breaks boss → worker → copy → read → In",
            "Affected old → read → In",
            "Retired gone → read → In",
        ]
    );
    assert_eq!((found.total, found.breaking), (6, 4));
    assert!(!found.is_harmless());
    let nobody = impact_of(&catalog, "agent/boss@1.0.0", &HypotheticalChange::Retire);
    assert!(nobody.is_harmless() && nobody.affected.is_empty());
}

#[test]
fn retirement_breaks_dependents_behind_force_retired_entity() {
    let mut batch = registry();
    batch.push(agent("ghost", &json!([on("tool", "gone")])));
    let catalog = catalog(&batch);
    let found = impact_of(&catalog, "tool/read@1.0.0", &HypotheticalChange::Retire);
    assert!(lines(&found).contains(&"Breaks ghost → gone → read".to_owned()), "{found:?}");
    // The validation rule agrees.
    let refused = plan(&catalog, &[set("tool/read@1.0.0", Retired, None)]).diagnostics;
    assert_eq!(refused.len(), found.breaking);
    let gone = impact_of(&catalog, "tool/gone@1.0.0", &HypotheticalChange::Retire);
    assert_eq!(
        lines(&gone),
        ["Breaks ghost → gone"],
        "the queried entity itself is followed although it is retired"
    );
}

#[test]
fn deprecation_breaks_nothing() {
    let found = impact_of(&catalog(&registry()), "tool/read@1.0.0", &HypotheticalChange::Deprecate);
    assert_eq!((found.total, found.breaking), (5, 0));
    assert!(found.is_harmless());
}

#[test]
fn replacement_is_validated_with_its_batch() {
    let catalog = catalog(&registry());
    let source = json!({ "server": "files", "serverVersion": "2.0.0", "tool": "read" });
    let new = json!({ "version": "2.0.0", "source": source,
        "inputSchema": { "$ref": "#Wide:1.0.0" } });
    let new = with(&source_tool("read", "files"), new);
    let provides = json!([{ "tool": "read", "version": "2.0.0" }]);
    let server = with(&server("files", &[]), json!({ "version": "2.0.0", "provides": provides }));
    let batch = [server, schema("Wide", &json!({ "type": "object" }))];
    let HypotheticalChange::Replace(alone) = replacement(&new) else { panic!("a replacement") };
    let accompanying = batch.iter().filter_map(Proposed::document).cloned().collect();
    let together = Replacement { accompanying, ..alone.clone() };
    let impact_of = |replacement| {
        impact_of(&catalog, "tool/read@1.0.0", &HypotheticalChange::Replace(replacement))
    };
    let rejected: Vec<_> = impact_of(alone).findings.iter().map(|found| found.code).collect();
    assert!(rejected.contains(&Code::SourceUnknown), "{rejected:?}");
    let accepted = impact_of(together);
    assert_eq!(accepted.findings, []);
    assert!(accepted.is_harmless(), "{accepted:?}");
}

#[test]
fn unused_schema_of_batch_is_no_finding_of_dependents() {
    let reference = json!({ "$ref": "#Old:1.0.0" });
    let dependents = (0..=limits::UNUSED_SCHEMAS).map(|n| schema(&format!("D{n}"), &reference));
    let registered: Vec<_> = dependents.chain([schema("Old", &json!({}))]).collect();
    let new = with(&schema("Old", &json!({})), json!({ "version": "2.0.0" }));
    let HypotheticalChange::Replace(alone) = replacement(&new) else { panic!("a replacement") };
    let unused = schema("Unused", &json!({})).document().unwrap().clone();
    let together = Replacement { accompanying: vec![unused], ..alone };
    let planned = HypotheticalChange::Replace(together);
    let impact = impact_of(&catalog(&registered), "schema/Old@1.0.0", &planned);
    assert_eq!(impact.affected.len(), limits::UNUSED_SCHEMAS + 1);
    assert!(impact.affected.iter().all(|affected| affected.findings.is_empty()), "{impact:?}");
}

#[test]
fn impact_lists_up_to_limit_and_counts_all() {
    let catalog = catalog(&registry());
    let key: Key = "schema/In@1.0.0".parse().unwrap();
    let found = impact(&catalog, &key, &HypotheticalChange::Retire, 2);
    assert_eq!((found.affected.len(), found.total, found.breaking), (2, 6, 4));
}

#[test]
fn impact_counts_paths() {
    let mut batch = registry();
    batch.push(agent("both", &json!([on("tool", "copy"), on("tool", "read")])));
    let found = impact_of(&catalog(&batch), "tool/read@1.0.0", &HypotheticalChange::Retire);
    let both = found.affected.iter().find(|a| a.record.document.key().name.as_str() == "both");
    let both = both.unwrap();
    assert_eq!((both.paths, both.path.len()), (2, 2));
}

#[test]
fn impact_counts_paths_of_dependents_without_dependents() {
    let input = json!({ "inputSchema": { "$ref": "#In:1.0.0" } });
    let uses = |name| with(&source_tool(name, "files"), input.clone());
    let hub = [
        schema("In", &json!({ "type": "object" })),
        uses("write"),
        uses("read"),
        server("files", &["read", "write"]),
    ];
    let found = impact_of(&catalog(&hub), "schema/In@1.0.0", &HypotheticalChange::Retire);
    assert_eq!(lines(&found), ["Breaks read → In", "Breaks write → In"]);
    assert_eq!(found.affected.iter().map(|affected| affected.paths).collect::<Vec<_>>(), [1, 1]);
}

#[test]
fn removed_skill_breaks_its_users() {
    let catalog = catalog(&registry());
    let skill = json!([{ "id": "rest", "name": "Rest", "description": "rests", "tags": [] }]);
    let worker = agent("worker", &json!([on("tool", "copy")]));
    let new = versioned(&with(&worker, json!({ "skills": skill })), "2.0.0");
    let found = impact_of(&catalog, "agent/worker@1.0.0", &replacement(&new));
    assert_eq!(lines(&found), ["Breaks boss → worker dependency-skill-unknown"]);
    let message = &found.affected[0].findings[0].message;
    insta::assert_snapshot!(message, @"agent/worker@2.0.0 has no skill `work`");
    let same = versioned(&worker, "1.0.1");
    assert!(impact_of(&catalog, "agent/worker@1.0.0", &replacement(&same)).is_harmless());
}

#[test]
fn removed_provision_breaks_tool() {
    let new = versioned(&server("files", &[]), "2.0.0");
    let found = impact_of(&catalog(&registry()), "server/files@1.0.0", &replacement(&new));
    assert_eq!(lines(&found)[0], "Breaks read → files source-not-provided");
    assert_eq!(found.breaking, 1, "its dependents keep the registered tool: {found:?}");
}

#[test]
fn non_object_schema_breaks_tools_using_it_as_input() {
    let new = versioned(&schema("In", &json!({ "type": "array" })), "2.0.0");
    let found = impact_of(&catalog(&registry()), "schema/In@1.0.0", &replacement(&new));
    assert_eq!(lines(&found)[0], "Breaks read → In breaking-change schema-invalid");
}

#[test]
fn invalid_replacement_is_not_harmless() {
    let on_nothing = json!({ "depends": [on("tool", "nothing")] });
    let new = versioned(&tool("copy", json!({ "spec": {} })), "2.0.0");
    let found =
        impact_of(&catalog(&registry()), "tool/copy@1.0.0", &replacement(&with(&new, on_nothing)));
    assert_eq!(found.findings[0].code, Code::DependencyUnknown);
    assert!(!found.is_harmless() && found.breaking == 0);
}

#[test]
fn same_version_with_other_content_is_analyzed() {
    let new = server("files", &[]);
    let found = impact_of(&catalog(&registry()), "server/files@1.0.0", &replacement(&new));
    assert_eq!(found.findings[0].code, Code::AlreadyRegistered);
    assert_eq!(lines(&found)[0], "Breaks read → files source-not-provided");
}

#[test]
fn replacement_may_depend_on_old_dependent() {
    let value = json!({ "source": null, "spec": step(), "depends": [on("tool", "copy")] });
    let new = versioned(&with(&source_tool("read", "files"), value), "2.0.0");
    let found = impact_of(&catalog(&registry()), "tool/read@1.0.0", &replacement(&new));
    assert!(found.is_harmless(), "{found:?}");
}

#[test]
fn existing_findings_are_not_repeated() {
    // The registered composition already violates the grammar; the move adds no finding.
    let mut batch = registry();
    batch[3] = tool("copy", json!({ "spec": { "x": 1 }, "depends": [on("tool", "read")] }));
    let new = versioned(&source_tool("read", "files"), "1.0.1");
    let found = impact_of(&catalog(&batch), "tool/read@1.0.0", &replacement(&new));
    assert!(found.is_harmless(), "{found:?}");
}

#[test]
fn replacement_validates_limited_number_of_dependents() {
    let extra = 3;
    let mut batch = vec![server("files", &["read"])];
    for i in 0..limits::IMPACT_DOCUMENTS + extra {
        let source = json!({ "server": "files", "serverVersion": "1.0.0", "tool": "read" });
        let value = json!({ "name": format!("t{i:05}"), "version": "1.0.0", "source": source });
        let document = Document::parse(Kind::Tool, &value).unwrap();
        batch.push(Proposed::Register(Arc::new(document)));
    }
    let new = versioned(&server("files", &[]), "2.0.0");
    let found = impact_of(&catalog(&batch), "server/files@1.0.0", &replacement(&new));
    assert_eq!((found.breaking, found.unchecked), (limits::IMPACT_DOCUMENTS, extra));
    assert_eq!(found.affected.last().unwrap().effect, Effect::Unchecked);
}

/// caller → taker → In; giver produces values of In.
fn users_of(schema_of_in: &Value) -> Vec<Proposed> {
    let takes = json!({ "inputSchema": { "$ref": "#In:1.0.0" } });
    let gives = json!({ "outputSchema": { "$ref": "#In:1.0.0" } });
    vec![
        schema("In", schema_of_in),
        with(&tool("taker", json!({ "spec": {} })), takes),
        with(&tool("giver", json!({ "spec": {} })), gives),
        agent("caller", &json!([on("tool", "taker")])),
    ]
}

#[test]
fn schema_change_breaks_only_incompatible_direction() {
    let object = |more: &Value| json!({ "type": "object", "properties": { "a": more } });
    let wide = object(&json!({ "type": ["string", "null"] }));
    let narrow = object(&json!({ "type": "string" }));
    let change = |from: &Value, to: &Value| {
        let new = versioned(&schema("In", to), "2.0.0");
        let found = impact_of(&catalog(&users_of(from)), "schema/In@1.0.0", &replacement(&new));
        let outcome = found.comparison.as_ref().unwrap().found.outcome().as_str();
        (outcome, lines(&found), found)
    };
    // A narrower schema breaks consumers that took more, but not producers.
    let (outcome, told, found) = change(&wide, &narrow);
    assert_eq!(outcome, "breaking");
    assert_eq!(
        told,
        [
            "Breaks taker → In breaking-change",
            "Breaks caller → taker → In breaking-change",
            "Affected giver → In",
        ]
    );
    let message = &found.affected[0].findings[0].message;
    insta::assert_snapshot!(
        message,
        @"`type` (in schema/In@2.0.0 at /schema/properties/a/type) rejects a value that 1.0.0 \
          accepts: {\"a\":null}"
    );
    let messages = found.affected.iter().flat_map(|affected| &affected.findings);
    let messages: Vec<_> = messages.map(|finding| &*finding.message).collect();
    assert!(messages.iter().all(|message| !message.contains("+moved")), "{messages:?}");
    insta::assert_snapshot!(
        messages[1],
        @"the moved tool/taker@1.0.0 at /inputSchema/$ref: `type` (in schema/In@2.0.0 at \
          /schema/properties/a/type) rejects a value that 1.0.0 accepts: {\"a\":null}"
    );
    // A wider schema has the opposite effect.
    let (outcome, told, _) = change(&narrow, &wide);
    assert_eq!(outcome, "compatible");
    assert_eq!(
        told,
        [
            "Breaks giver → In breaking-change",
            "Affected taker → In",
            "Affected caller → taker → In",
        ]
    );
    let pattern = |text: &str| object(&json!({ "type": "string", "pattern": text }));
    let (outcome, told, found) = change(&pattern("^(a|b)$"), &pattern("^[ab]$"));
    assert_eq!((outcome, found.breaking, found.undecided), ("undecided", 0, 3));
    assert!(told.iter().any(|line| line == "Undecided taker → In compatibility-undecided"));
}

#[test]
fn unused_skill_change_breaks_no_one() {
    let skill = |id: &str, input: &str| {
        json!({ "id": id, "name": id, "description": "d", "tags": [],
            "inputSchema": { "type": input } })
    };
    let worker = |work: &str, rest: &str| {
        let skills = json!({ "skills": [skill("rest", rest), skill("work", work)] });
        with(&agent("worker", &json!([])), skills)
    };
    let batch = vec![worker("string", "string"), agent("boss", &json!([on("agent", "worker")]))];
    let catalog = catalog(&batch);
    let to = |new: &Proposed| {
        let new = replacement(&versioned(new, "2.0.0"));
        lines(&impact_of(&catalog, "agent/worker@1.0.0", &new))
    };
    assert_eq!(to(&worker("string", "null")), ["Affected boss → worker"]);
    assert_eq!(to(&worker("null", "string")), ["Breaks boss → worker breaking-change"]);
}

//! Registration: accepted and rejected batches, and their messages.

use acceptance::{Registry, root};
use serde_json::{Value, json};

fn field_example() -> String {
    root().join("crates/registry-core/tests/data/field-example.json").display().to_string()
}

/// The tools that the field example provides but does not register, by pointer in the file.
const UNREGISTERED: [(&str, &str); 5] = [
    ("get_user", "/servers/2/provides/1"),
    ("create_relations", "/servers/5/provides/2"),
    ("inventory_check", "/servers/7/provides/2"),
    ("payment_authorize", "/servers/8/provides/2"),
    ("shipping_track", "/servers/9/provides/2"),
];

#[tokio::test]
async fn field_example_is_rejected_with_five_errors() {
    let registry = Registry::start();
    let refused = registry.ctl(&["apply", "-f", &field_example(), "--yes", "--output", "json"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    let report: Value = serde_json::from_str(&refused.stdout).expect("JSON on standard output");
    let diagnostics = report["diagnostics"].as_array().expect("diagnostics");
    let errors: Vec<_> = diagnostics.iter().filter(|d| d["severity"] == "error").collect();
    assert_eq!(errors.len(), UNREGISTERED.len(), "{errors:#?}");
    for (tool, pointer) in UNREGISTERED {
        let found = errors.iter().find(|d| d["message"].as_str().unwrap_or("").contains(tool));
        let found = found.unwrap_or_else(|| panic!("no error names {tool}: {errors:#?}"));
        assert_eq!(found["code"], "provision-unknown");
        assert_eq!(found["pointer"], pointer);
    }
    assert_eq!(registry.revision().await, 0, "nothing may be stored");
}

#[tokio::test]
async fn validation_errors_point_into_file() {
    let registry = Registry::start();
    let file = field_example();
    let refused = registry.ctl(&["apply", "-f", &file, "--yes"]);
    let text = format!("{}{}", refused.stdout, refused.stderr);
    let source = std::fs::read_to_string(&file).expect("the example");
    for (tool, _) in UNREGISTERED {
        let line =
            source.lines().position(|l| l.contains(&format!("\"tool\": \"{tool}\""))).unwrap();
        let position = format!("field-example.json:{}:", line + 1);
        assert!(text.contains(&position), "{tool} is not shown at {position}:\n{text}");
    }
}

#[tokio::test]
async fn repeated_apply_creates_no_commit() {
    let registry = Registry::start();
    registry.apply_example();
    assert_eq!(registry.revision().await, 1);
    registry.apply_example();
    assert_eq!(registry.revision().await, 1, "equal content makes no commit");
    let log = registry.ctl(&["log", "--output", "json"]);
    assert!(log.success(), "{log:?}");
    assert_eq!(log.stdout.matches("\"chain\"").count(), 1, "{}", log.stdout);
}

#[tokio::test]
async fn dry_run_shows_plan_and_stores_nothing() {
    let registry = Registry::start();
    let plan = registry.ctl(&["apply", "-f", "examples/registry-v2.json", "--dry-run"]);
    assert!(plan.success(), "{plan:?}");
    assert!(plan.stdout.contains("search_documents"), "{}", plan.stdout);
    assert_eq!(registry.revision().await, 0);
}

#[tokio::test]
async fn apply_without_terminal_needs_yes() {
    let registry = Registry::start();
    let asked = registry.ctl(&["apply", "-f", "examples/registry-v2.json"]);
    assert!(!asked.success(), "{asked:?}");
    assert!(asked.stderr.contains("--yes"), "{}", asked.stderr);
    assert_eq!(registry.revision().await, 0);
}

#[tokio::test]
async fn registered_content_is_immutable() {
    let registry = Registry::start();
    registry.apply_example();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("changed.yaml");
    let yaml = "schemaVersion: '2.0'\nschemas:\n  - name: SearchQuery\n    version: 1.0.0\n    schema: { type: string }\n";
    std::fs::write(&file, yaml).unwrap();
    let refused = registry.ctl(&["apply", "-f", file.to_str().unwrap(), "--yes"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    let text = format!("{}{}", refused.stdout, refused.stderr);
    assert!(text.contains("already-registered"), "{text}");
    assert!(text.contains("changed.yaml:"), "{text}");
    assert_eq!(registry.revision().await, 1);
}

#[tokio::test]
async fn lifecycle_changes_appear_in_history() {
    let registry = Registry::start();
    registry.apply_example();
    let key = "tool/get_webpage@1.0.0";
    let deprecated =
        registry.ctl(&["deprecate", "--yes", key, "--message", "use fetch", "--author", "ada"]);
    assert!(deprecated.success(), "{deprecated:?}");
    let history = registry.ctl(&["history", "tool", "get_webpage", "--output", "json"]);
    assert!(history.stdout.contains("deprecate"), "{}", history.stdout);
    assert!(history.stdout.contains("ada"), "{}", history.stdout);
    assert_eq!(registry.json(&["get", key])["lifecycle"]["message"], "use fetch");
}

#[tokio::test]
async fn missing_entity_exits_with_not_found() {
    let registry = Registry::start();
    let missing = registry.ctl(&["get", "tool/nothing@1.0.0"]);
    assert_eq!(missing.code, 1, "{missing:?}");
    assert!(missing.stderr.contains("tool/nothing@1.0.0"), "{}", missing.stderr);
    let unreachable = acceptance::ctl("http://127.0.0.1:1", &["list"]);
    assert_eq!(unreachable.code, 3, "{unreachable:?}");
    assert!(unreachable.stderr.contains("127.0.0.1:1"), "{}", unreachable.stderr);
}

#[tokio::test]
async fn recursion_beside_unevaluated_properties_is_registered() {
    let registry = Registry::start();
    let dir = tempfile::tempdir().expect("a directory");
    let back = json!({ "$ref": "#" });
    let named = json!({ "properties": { "name": { "type": "string" } }, "required": ["name"] });
    let children = json!({ "properties": { "children": { "type": "array", "items": back } } });
    let schemas = [
        json!({ "$defs": { "named": named }, "$ref": "#/$defs/named", "type": "object",
            "properties": children["properties"], "unevaluatedProperties": false }),
        json!({ "$defs": { "base": children }, "$ref": "#/$defs/base", "type": "object",
            "properties": { "parent": back }, "unevaluatedProperties": false }),
        json!({ "anyOf": [{ "prefixItems": [{ "type": "string" }, back] }, { "type": "null" }],
            "unevaluatedItems": false }),
    ];
    let entry = |(i, schema)| {
        json!({ "name": format!("tree{i}"), "version": "1.0.0", "description": "A tree",
            "schema": schema })
    };
    let schemas: Vec<_> = schemas.into_iter().enumerate().map(entry).collect();
    let file = dir.path().join("registry.json");
    let text = json!({ "schemaVersion": "2.0", "schemas": schemas }).to_string();
    std::fs::write(&file, text).expect("written");
    let applied = registry.ctl(&["apply", "-f", file.to_str().expect("UTF-8"), "--yes"]);
    assert!(applied.success(), "{applied:?}");
    assert_eq!(registry.revision().await, 1);
}

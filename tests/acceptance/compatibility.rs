//! Compatibility checks: breaking changes are rejected with an example, new major versions are
//! accepted, and `compat` gives the same result for any two versions.

use std::{fs, path::PathBuf};

use acceptance::Registry;
use serde_json::{Value, json};
use tempfile::TempDir;

/// A registry with one version of a composed tool, and a directory for files.
struct Scene {
    registry: Registry,
    dir: TempDir,
}

impl Scene {
    fn open() -> Self {
        let scene = Self {
            registry: Registry::start(),
            dir: tempfile::tempdir().expect("a temporary directory"),
        };
        scene.registry.apply_file(&scene.file(&order("1.0.0", &json!({ "type": "string" }))));
        scene
    }

    fn file(&self, schema: &Value) -> PathBuf {
        let version = schema["version"].as_str().expect("a version");
        let path = self.dir.path().join(format!("{version}.json"));
        let file = json!({ "schemaVersion": "2.0", "schemas": [schema] });
        fs::write(&path, file.to_string()).expect("a file is written");
        path
    }

    fn apply(&self, schema: &Value) -> (i32, Value) {
        let path = self.file(schema).display().to_string();
        let applied = self.registry.ctl(&["apply", "-f", &path, "--yes", "--output", "json"]);
        (applied.code, serde_json::from_str(&applied.stdout).unwrap_or_default())
    }
}

fn order(version: &str, note: &Value) -> Value {
    let schema = json!({ "type": "object", "properties": { "note": note }, "required": ["note"] });
    json!({ "name": "Order", "version": version, "schema": schema })
}

#[tokio::test]
async fn breaking_change_needs_major_version() {
    let scene = Scene::open();
    let short = json!({ "type": "string", "maxLength": 3 });
    let (code, answer) = scene.apply(&order("1.1.0", &short));
    assert_eq!(code, 1, "{answer}");
    let found = answer["diagnostics"].as_array().unwrap();
    let found = found.iter().find(|d| d["code"] == "breaking-change").expect("the finding");
    assert_eq!(found["severity"], "error");
    assert!(found["pointer"].as_str().unwrap().ends_with("/schema/properties/note/maxLength"));
    let message = found["message"].as_str().unwrap();
    assert!(
        message.contains("`maxLength`") && message.contains("{\"note\":\""),
        "the keyword and an example: {message}"
    );
    assert!(found["help"].as_str().unwrap().contains("2.0.0"), "{found}");
    assert_eq!(scene.registry.revision().await, 1, "nothing may be stored");

    let named = json!({ "type": "string", "minLength": 1, "pattern": "^[a-z0-9-]+$" });
    let (code, answer) = scene.apply(&order("1.0.1", &named));
    assert_eq!(code, 1, "{answer}");

    let (code, answer) = scene.apply(&order("2.0.0", &short));
    assert_eq!(code, 0, "{answer}");
    let (code, answer) = scene.apply(&order("1.1.0", &json!({ "type": ["string", "null"] })));
    assert_eq!(code, 0, "{answer}");
    assert_eq!(scene.registry.revision().await, 3);
}

#[test]
fn undecided_compatibility_is_warned() {
    let scene = Scene::open();
    let pattern = |version: &str, pattern: &str| {
        order(version, &json!({ "type": "string", "pattern": pattern }))
    };
    assert_eq!(scene.apply(&pattern("3.0.0", "^(a|b)$")).0, 0);
    let (code, answer) = scene.apply(&pattern("3.1.0", "^[ab]$"));
    assert_eq!(code, 0, "{answer}");
    assert!(answer.to_string().contains("compatibility-undecided"), "{answer}");
}

#[test]
fn compatibility_check_compares_versions_and_files() {
    let scene = Scene::open();
    scene.apply(&order("2.0.0", &json!({ "type": "integer" })));
    scene.apply(&order("1.1.0", &json!({ "type": ["string", "null"] })));
    let ctl = |arguments: &[&str]| scene.registry.ctl(arguments);
    let wider = ctl(&["compatibility", "check", "schema", "Order", "1.0.0", "1.1.0"]);
    assert_eq!(
        (wider.code, wider.stdout.trim()),
        (0, "schema/Order@1.0.0 -> schema/Order@1.1.0: compatible")
    );
    let forward = ["compatibility", "check", "schema/Order", "1.0.0", "1.1.0"];
    let forward = [&forward[..], &["--direction", "forward", "--output", "json"]].concat();
    let forward = ctl(&forward);
    assert_eq!(forward.code, 1, "{forward:?}");
    let forward = forward.json();
    assert_eq!(forward["outcome"], "breaking", "{forward}");
    let difference = &forward["differences"][0];
    assert_eq!(
        (&difference["keyword"], &difference["rejectedBy"]),
        (&"type".into(), &"old".into())
    );
    let broken =
        ["compatibility", "check", "schema/Order@1.0.0", "schema/Order@2.0.0", "--output", "json"];
    let broken = ctl(&broken);
    assert_eq!(broken.code, 1, "{broken:?}");
    let answer: Value = serde_json::from_str(&broken.stdout).unwrap();
    assert_eq!(answer["outcome"], "breaking");
    assert_eq!(answer["differences"][0]["pointer"], "/schema/properties/note/type");
    assert!(answer["differences"][0]["instance"]["note"].is_string(), "{answer}");
    let same = ctl(&["compatibility", "check", "schema", "Order", "1.0.0", "1.0.0"]);
    assert!(same.success() && same.stdout.contains("identical"), "{same:?}");

    let draft = scene.file(&order("1.2.0", &json!({ "type": "null" }))).display().to_string();
    let draft =
        ctl(&["compatibility", "check", "schema", "Order", "1.1.0", "1.2.0", "--file", &draft]);
    assert_eq!(draft.code, 1, "{draft:?}");
    let invalid = scene.file(&order("1.2.0", &json!({ "type": "string", "pattern": "(?=a)" })));
    let invalid = invalid.display().to_string();
    let invalid =
        ctl(&["compatibility", "check", "schema", "Order", "1.1.0", "1.2.0", "--file", &invalid]);
    assert!(invalid.stderr.contains("without look-around"), "{invalid:?}");
    assert_eq!(ctl(&["compatibility", "check", "schema", "Order", "1.0.0", "9.0.0"]).code, 1);
    assert_eq!(ctl(&["compatibility", "check", "schema/Order@1.0.0", "tool/x@1.0.0"]).code, 2);
}

#[tokio::test]
async fn exponential_schema_is_rejected_quickly() {
    let scene = Scene::open();
    let link = |i: usize| match i {
        0 => json!({ "type": "string" }),
        i => {
            let before = json!({ "$ref": format!("#/$defs/d{}", i - 1) });
            json!({ "allOf": [before, before] })
        }
    };
    let defs: serde_json::Map<_, _> = (0..=60).map(|i| (format!("d{i}"), link(i))).collect();
    let schema = json!({ "$ref": "#/$defs/d60", "$defs": defs });
    let bomb = json!({ "name": "Bomb", "version": "1.0.0", "schema": schema });
    let (code, answer) = scene.apply(&bomb);
    assert_eq!(code, 1, "{answer}");
    let found = &answer["diagnostics"][0];
    assert_eq!(found["code"], "schema-invalid");
    assert!(found["message"].as_str().unwrap().contains(" 10000 "), "the limit: {found}");
    assert_eq!(scene.registry.revision().await, 1);
}

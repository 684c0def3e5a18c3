//! `registryctl import registry`: the file of the field, and files of version 1.

use acceptance::{Registry, ctl};
use serde_json::{Value, json};

const FIELD: &str = "registry-core/tests/data/field-example.json";

#[test]
fn the_field_s_own_file_is_repaired_registered_and_read_back() {
    let registry = Registry::start();
    let refused = registry.ctl(&["apply", "-f", FIELD, "--yes"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    let done = registry.ctl(&["import", "registry", FIELD, "--apply", "--yes"]);
    assert!(done.success(), "{done:?}");
    assert!(done.stderr.contains("5 repaired, 0 to look at"), "{done:?}");
    assert!(done.stderr.contains("the tool get_user@1.0.0 is not in the file"), "{done:?}");
    let got = registry.ctl(&["get", "tool/get_user@1.0.0", "--document"]).stdout;
    let got: Value = serde_json::from_str(&got).expect("a document");
    assert_eq!(got["source"]["server"], "user-service");
    assert!(registry.ctl(&["get", "agent/research-agent@2.1.0"]).success());
}

#[test]
fn version_1_is_written_for_review_and_then_valid() {
    let dir = tempfile::tempdir().expect("a directory");
    let (old, new) = (dir.path().join("old.yaml"), dir.path().join("new.json"));
    let text = "tools:\n  - $comment: '=== search ==='\n  - name: search\n    source: { target: backend, tool: find }\n";
    std::fs::write(&old, text).expect("written");
    let (old, new) = (old.to_str().expect("UTF-8"), new.to_str().expect("UTF-8"));
    let nowhere = "http://127.0.0.1:1";
    let done = ctl(nowhere, &["import", "registry", old, "--out", new, "--managed-by", "git/x"]);
    assert!(done.success() && done.stdout.contains("written: "), "{done:?}");
    assert!(done.stderr.contains("`target` is written `server`"), "{done:?}");
    let valid = ctl(nowhere, &["validate", "-f", new]);
    assert!(valid.success() && valid.stdout.contains("3 register"), "{valid:?}");
    let written: Value =
        serde_json::from_slice(&std::fs::read(new).expect("a file")).expect("JSON");
    assert_eq!(written["tools"][0]["metadata"]["managedBy"], "git/x");
    let scripted = ctl(nowhere, &["import", "registry", old, "--output", "json"]).stdout;
    let scripted: Value = serde_json::from_str(&scripted).expect("JSON");
    assert_eq!(scripted["repairs"][0]["by"], "import");
    assert_eq!(scripted["file"]["schemaVersion"], "2.0");
}

#[test]
fn every_repair_of_a_big_file_is_listed_and_counted() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("x.json");
    let tools: Vec<_> =
        (0..400).map(|i| json!({ "name": format!("t{i}"), "source": "s" })).collect();
    std::fs::write(&path, json!({ "tools": tools }).to_string()).expect("written");
    let args = ["import", "registry", path.to_str().expect("UTF-8"), "--output", "json"];
    let [scripted, shown] = [&args[..], &args[..3]].map(|args| ctl("http://127.0.0.1:1", args));
    let scripted: Value = serde_json::from_str(&scripted.stdout).expect("JSON");
    let count = scripted["repairs"].as_array().expect("a list").len();
    assert!(count > 1_200, "{count}");
    assert_eq!(scripted["unlisted"], json!({ "person": 0, "import": 0 }));
    let more = format!("and {} more; --output json has all\n{count} repaired, 0 to", count - 100);
    assert!(shown.stderr.contains(&more), "{more}: {shown:?}");
}

#[test]
fn what_is_no_file_is_an_error() {
    let dir = tempfile::tempdir().expect("a directory");
    let nowhere = "http://127.0.0.1:1";
    for (text, code) in [("{ \"tools\": [,] }", 2), ("7", 1), ("{}", 1)] {
        let path = dir.path().join("x.json");
        std::fs::write(&path, text).expect("written");
        let failed = ctl(nowhere, &["import", "registry", path.to_str().expect("UTF-8")]);
        assert_eq!(failed.code, code, "{text}: {failed:?}");
    }
    assert_eq!(ctl(nowhere, &["import", "registry", "/no/such/file"]).code, 2);
}

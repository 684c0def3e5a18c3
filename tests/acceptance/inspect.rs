//! `registryctl inspect`: findings of a file, without values.

use std::fs;

use acceptance::{CtlOutput, ctl};
use serde_json::{Value, json};

/// No registry listens here.
const NOWHERE: &str = "http://127.0.0.1:1";
const CARD: &str = "4111 1111 1111 1111";

fn inspect(name: &str, content: &str, options: &[&str]) -> CtlOutput {
    run(name, content, &[&["--output", "json"], options].concat())
}

fn run(name: &str, content: &str, options: &[&str]) -> CtlOutput {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join(name);
    fs::write(&path, content).expect("written");
    let path = path.to_str().expect("UTF-8");
    ctl(NOWHERE, &[&["inspect", path], options].concat())
}

fn detectors(output: &CtlOutput) -> Vec<String> {
    let findings = output.json()["findings"].as_array().expect("findings").clone();
    let name = |finding: &Value| finding["detector"].as_str().expect("a name").to_owned();
    findings.iter().map(name).collect()
}

#[test]
fn inspect_lists_findings_without_values() {
    let document = json!({ "a": [{ "card": CARD }], "b": CARD.replace(' ', "") });
    for format in ["json", "table"] {
        let output = run("result.json", &document.to_string(), &["--output", format]);
        assert_eq!(output.code, 1, "{output:?}");
        assert!(!format!("{output:?}").contains("1111"), "{output:?}");
    }
    let output = inspect("result.json", &document.to_string(), &[]);
    let first = json!({
        "class": "financial", "detector": "payment-card", "line": 1, "column": 15,
        "pointer": "/a/0/card", "part": "value", "value": 1,
    });
    assert_eq!(output.json()["findings"][0], first);
    assert_eq!(output.json()["findings"][1]["value"], 1, "equal values have equal numbers");
    assert_eq!(output.json()["format"], "json");
}

#[test]
fn inspect_reads_texts_by_line() {
    let output = inspect("notes.txt", "one\ntwo: mail anna.berg@kestrel.dev\n", &[]);
    let finding = json!({
        "class": "contact", "detector": "email", "line": 2, "column": 11, "value": 1,
    });
    assert_eq!(output.json()["findings"], json!([finding]));
    assert_eq!(output.json()["format"], "text");
}

#[test]
fn inspect_succeeds_without_findings() {
    let output = inspect("notes.txt", "order 4111111111111112, user@example.com", &[]);
    assert!(output.success(), "{output:?}");
    assert_eq!(output.json()["findings"], json!([]));
}

#[test]
fn classes_and_detectors_are_selected() {
    let text = "anna.berg@kestrel.dev from 84.17.52.201, CPF 111.444.777-35";
    assert_eq!(detectors(&inspect("a.txt", text, &[])), ["email"]);
    assert_eq!(detectors(&inspect("a.txt", text, &["--class", "network"])), ["ipv4"]);
    let both = ["--class", "contact", "--detector", "br-cpf"];
    assert_eq!(detectors(&inspect("a.txt", text, &both)), ["email", "br-cpf"]);
    assert_eq!(inspect("a.txt", text, &["--detector", "unknown"]).code, 2);
}

#[test]
fn detectors_are_listed() {
    let output = ctl(NOWHERE, &["inspect", "--list", "--output", "json"]);
    assert!(output.success(), "{output:?}");
    let all = output.json();
    let find = |name: &str| {
        let mut all = all.as_array().expect("detectors").iter();
        all.find(|detector| detector["name"] == name).expect(name).clone()
    };
    assert_eq!(find("payment-card")["opt_in"], false);
    assert_eq!(find("br-cpf")["opt_in"], true);
    assert_eq!(find("ipv4")["opt_in"], true);
}

//! Every command that reads or writes entities handles policies.

use std::fs;

use acceptance::{Database, Registry, ctl, root};
use serde_json::{Value, json};

use super::{applied, apply, bank, findings, keys, limit};

const CHARGE: &str = "forbid (principal, action == Action::\"call\", resource)
    when { context.arguments has amount && context.arguments.amount > 10 };";

fn charges(version: &str, limit_of_calls: u32) -> Value {
    limit(
        version,
        &json!({
            "description": "Large charges", "appliesTo": { "tools": ["charge"] },
            "authorization": { "cedar": CHARGE },
            "price": { "reportedBy": "_meta.cost", "maximum": "0.5", "failures": "free" },
            "budgets": [
                { "name": "month", "per": "team", "limit": "500", "window": "month",
                  "timeZone": "Europe/Berlin", "alertAt": [0.8, 1] },
                { "name": "sprint", "per": "fleet", "limit": "80", "window": "P14D",
                  "onUnavailable": { "allow": "0.5" } },
            ],
            "rates": [{ "per": ["caller"], "limit": limit_of_calls, "window": "PT1M",
                "reach": "fleet" }],
            "limits": { "trace": { "cost": "5" } },
        }),
    )
}

#[tokio::test]
async fn commands_handle_policies_on_both_databases() {
    for database in Database::both().await {
        let registry = Registry::start_on(&database.url());
        applied(&registry, &bank());
        applied(&registry, &charges("1.0.0", 5));
        applied(&registry, &charges("1.1.0", 7));

        let shown = registry.json(&["get", "policy/limit"]);
        assert_eq!(
            (&shown["version"], &shown["otherVersions"][0]["version"]),
            (&json!("1.1.0"), &json!("1.0.0"))
        );
        assert_eq!(keys(&registry.json(&["list", "policies"])).len(), 2);
        let found = registry.json(&["search", "charge", "--kind", "policy"]);
        assert!(found.to_string().contains("limit"), "{found}");
        let difference = registry.json(&["diff", "policy/limit", "1.0.0", "1.1.0"]);
        assert!(difference.to_string().contains("/rates/0/limit"), "{difference}");
        let origin = registry.json(&["blame", "policy/limit@1.1.0"]).to_string();
        assert!(origin.contains("1.1.0") && origin.contains("1.0.0"), "{origin}");
        assert!(registry.json(&["history", "policy/limit"]).to_string().contains("1.1.0"));

        let impact = registry.json(&["impact", "policy/limit@1.1.0"]);
        assert_eq!(keys(&impact["selected"]), ["tool/charge@1.0.0", "tool/pay@1.0.0"]);
        let impact = registry.json(&["impact", "tool/pay@1.0.0"]);
        assert_eq!(keys(&impact["policies"]), ["policy/limit@1.1.0"]);
        assert_eq!(impact["policies"][0]["mode"], "enforce");
        assert_eq!(registry.json(&["impact", "tool/balance@1.0.0"])["policies"], json!([]));
        let diagram = registry.run(&["impact", "policy/limit@1.1.0", "--output", "mermaid"]);
        assert!(diagram.contains("{{\"policy/limit@1.1.0\"}}"), "{diagram}");

        let bill = registry.run(&["sbom", "export", "tool/pay@1.0.0", "--format", "cyclonedx-1.6"]);
        assert!(
            bill.contains("policy/limit@1.1.0") && !bill.contains("policy/limit@1.0.0"),
            "{bill}"
        );
        assert!(!registry.ctl(&["sbom", "export", "policy/limit@1.1.0"]).success());
    }
}

#[tokio::test]
async fn exported_policies_are_registered_again() {
    let registry = Registry::start();
    applied(&registry, &bank());
    applied(&registry, &charges("1.0.0", 5));
    let body = reqwest::get(format!("{}/registry.json", registry.url())).await.expect("an answer");
    let body: Value = body.json().await.expect("an answer");
    assert_eq!(body["policies"][0]["name"], "limit");
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("export.json");
    let path = file.to_str().expect("UTF-8");
    registry.run(&["export", "-o", path]);
    let again = Registry::start();
    again.run(&["apply", "-f", path, "--yes"]);
    let digest =
        |registry: &Registry| registry.json(&["get", "policy/limit@1.0.0"])["digest"].clone();
    assert_eq!(digest(&again), digest(&registry));
}

#[test]
fn example_policies_are_valid_and_applied() {
    let files = ["examples/registry-v2.json", "examples/policies.yaml"];
    let valid = ctl("http://127.0.0.1:1", &["validate", files[0], files[1], "--output", "json"]);
    assert!(valid.success() && !valid.stdout.contains("policy-"), "{valid:?}");
    let registry = Registry::start();
    registry.apply_example();
    registry.apply_file(&root().join(files[1]));
    let impact = registry.json(&["impact", "tool/payment_charge@1.0.0", "--deprecate"]);
    assert_eq!(
        keys(&impact["policies"]),
        ["policy/loops@1.0.0", "policy/order-changes@1.0.0", "policy/payments@1.0.0"]
    );
    let impact = registry.json(&["impact", "tool/get_webpage@1.0.0", "--deprecate"]);
    assert!(keys(&impact["policies"]).contains(&"policy/fetch-rate@1.0.0".to_owned()));
}

#[test]
fn unmatched_selector_is_a_warning() {
    let registry = Registry::start();
    applied(&registry, &bank());
    let about = limit("1.0.0", &json!({ "appliesTo": { "tools": ["charge", "chrage"] } }));
    let output = apply(&registry, &about, &[]);
    assert!(output.success(), "{output:?}");
    let expected =
        ("policy-selector-unmatched".to_owned(), "/policies/0/appliesTo/tools/1".to_owned());
    assert_eq!(findings(&output), [expected]);
}

#[test]
fn unknown_member_of_a_policy_is_rejected() {
    let registry = Registry::start();
    let later = limit("1.0.0", &json!({ "quotas": [] }));
    let output = apply(&registry, &later, &[]);
    assert_eq!(output.code, 1);
    assert_eq!(findings(&output)[0].0, "document-invalid");
}

#[test]
fn rollback_registers_old_content_as_next_version() {
    let registry = Registry::start();
    applied(&registry, &bank());
    applied(&registry, &charges("1.0.0", 5));
    applied(&registry, &charges("1.1.0", 7));
    let lower = apply(&registry, &charges("1.0.5", 5), &[]);
    assert_eq!((lower.code, findings(&lower)[0].0.as_str()), (1, "policy-version-regresses"));

    let dry =
        registry.ctl(&["policy", "rollback", "limit", "1.0.0", "--dry-run", "--output", "json"]);
    assert_eq!((dry.json()["committed"].clone(), dry.code), (json!(false), 0));
    registry.run(&["policy", "rollback", "limit", "1.0.0", "--yes"]);
    let document = |version: &str| {
        let key = format!("policy/limit@{version}");
        let mut document: Value =
            serde_json::from_str(&registry.run(&["get", &key, "--document"])).expect("JSON");
        document["version"] = Value::Null;
        document
    };
    assert_eq!(document("1.1.1"), document("1.0.0"));
    let again = registry.ctl(&["policy", "rollback", "limit", "1.1.1", "--yes"]);
    assert_eq!(again.code, 2, "it is in force: {again:?}");
}

#[test]
fn retirement_of_the_highest_version_turns_it_off() {
    let registry = Registry::start();
    applied(&registry, &bank());
    applied(&registry, &charges("1.0.0", 5));
    applied(&registry, &charges("1.1.0", 7));
    applied(&registry, &charges("1.2.0-rc.1", 7));
    let policies = || keys(&registry.json(&["impact", "tool/charge@1.0.0"])["policies"]);
    assert_eq!(policies(), ["policy/limit@1.1.0", "policy/limit@1.2.0-rc.1"]);
    registry.run(&["retire", "policy/limit@1.1.0", "--yes"]);
    assert_eq!(policies(), ["policy/limit@1.2.0-rc.1"]);
    assert_eq!(registry.json(&["impact", "tool/charge@1.0.0"])["policies"][0]["mode"], "audit");
}

#[test]
fn retirement_of_lower_version_names_version_in_force() {
    let registry = Registry::start();
    applied(&registry, &bank());
    applied(&registry, &charges("1.0.0", 5));
    applied(&registry, &charges("1.1.0", 7));
    let retire = |version: &str| {
        let retired = registry.ctl(&["retire", &format!("policy/limit@{version}"), "--yes"]);
        assert!(retired.success(), "{retired:?}");
        retired.stderr
    };
    assert!(retire("1.0.0").contains("policy/limit@1.1.0"));
    assert!(!retire("1.1.0").contains("note:"));
}

#[test]
fn lenient_import_keeps_policies() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("old.json");
    let mut old = bank();
    old["policies"] = json!({ "limit": { "version": "1", "mode": "audit" } });
    fs::write(&file, old.to_string()).expect("written");
    let imported =
        ctl("http://127.0.0.1:1", &["import", "registry", file.to_str().expect("UTF-8")]);
    let imported: Value = serde_json::from_str(&imported.stdout).expect("JSON");
    assert_eq!(
        imported["policies"][0],
        json!({ "name": "limit", "version": "1.0.0", "mode": "audit" })
    );
}

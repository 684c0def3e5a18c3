//! Every command that reads or writes entities handles policies.

use std::fs;

use acceptance::{Database, Registry, ctl, root};
use serde_json::{Value, json};

use super::{agent, applied, apply, bank, findings, keys, limit};

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
fn unmatched_name_in_conditions_is_a_warning() {
    let registry = Registry::start();
    let mut file = bank();
    file["agents"] = json!([agent("clerk", &[])]);
    applied(&registry, &file);
    let warnings = |version: &str, cedar: &str| {
        let members =
            json!({ "appliesTo": { "tools": ["charge"] }, "authorization": { "cedar": cedar } });
        let output = apply(&registry, &limit(version, &members), &[]);
        assert!(output.success(), "{output:?}");
        output
    };
    let matched = "forbid (principal == Agent::\"clerk\", action, resource == Tool::\"charge\");
        forbid (principal == Agent::\"(unknown)\", action, resource in Server::\"bank\");
        forbid (principal in Team::\"red\", action, resource in Tag::\"money\");";
    assert!(findings(&warnings("1.0.0", matched)).is_empty());
    let unmatched = "forbid (principal == Agent::\"clrek\", action, resource == Tool::\"bank\");
        forbid (principal, action, resource) when { resource in Server::\"bnk\" };";
    let output = warnings("1.1.0", unmatched);
    let expected =
        ("policy-selector-unmatched".to_owned(), "/policies/0/authorization/cedar".to_owned());
    assert_eq!(findings(&output), [expected.clone(), expected.clone(), expected]);
    let help = output.json()["diagnostics"][0]["help"].to_string();
    assert!(help.contains("clerk"), "{help}");
}

#[test]
fn forgotten_statements_are_warnings() {
    let registry = Registry::start();
    applied(&registry, &bank());
    let warnings = |version: &str, mut members: Value| {
        members["appliesTo"] = json!({ "tools": ["charge"] });
        let output = apply(&registry, &limit(version, &members), &[]);
        assert!(output.success(), "{output:?}");
        findings(&output)
    };
    let warning =
        |code: &str, pointer: &str| vec![(code.to_owned(), format!("/policies/0{pointer}"))];
    let forbid = json!({ "cedar": "forbid (principal, action, resource);" });
    let permit = json!({ "cedar": "permit (principal, action, resource);" });
    let comment = json!({ "cedar": "// later" });
    let denies_all = || warning("policy-denies-all", "/default");
    assert_eq!(warnings("1.0.0", json!({ "default": "deny" })), denies_all());
    let forbids = json!({ "default": "deny", "authorization": forbid });
    assert_eq!(warnings("1.1.0", forbids), denies_all());
    let burst = json!({ "rates": [{ "limit": 2, "window": "PT1M", "burst": 0 }] });
    assert_eq!(warnings("1.1.1", burst), warning("policy-denies-all", "/rates/0/burst"));
    let empty = json!({ "authorization": comment });
    assert_eq!(warnings("1.2.0", empty), warning("policy-empty", "/authorization/cedar"));
    let permits = json!({ "default": "deny", "authorization": permit });
    assert!(warnings("1.3.0", permits).is_empty());
}

#[test]
fn misspelled_argument_behind_has_is_a_warning() {
    let registry = Registry::start();
    applied(&registry, &bank());
    let found = |version: &str, argument: &str| {
        let cedar = format!(
            "forbid (principal, action == Action::\"call\", resource) when {{ context.arguments has \
             {argument} && context.arguments.{argument} > 1000 }};"
        );
        let members =
            json!({ "appliesTo": { "tools": ["charge"] }, "authorization": { "cedar": cedar } });
        let output = apply(&registry, &limit(version, &members), &[]);
        assert!(output.success(), "{output:?}");
        findings(&output)
    };
    assert!(found("1.0.0", "amount").is_empty());
    let pointer = "/policies/0/authorization/cedar".to_owned();
    assert_eq!(found("1.1.0", "amont"), [("policy-argument-undeclared".to_owned(), pointer)]);
}

#[test]
fn unknown_purpose_in_conditions_is_rejected() {
    let registry = Registry::start();
    applied(&registry, &bank());
    let cedar = "forbid (principal, action, resource) when { context.purpose == \"poll\" };";
    let members =
        json!({ "appliesTo": { "tools": ["charge"] }, "authorization": { "cedar": cedar } });
    let output = apply(&registry, &limit("1.0.0", &members), &[]);
    assert_eq!((output.code, findings(&output)[0].0.as_str()), (1, "policy-invalid"));
}

#[test]
fn statement_that_no_call_satisfies_is_a_warning() {
    let registry = Registry::start();
    applied(&registry, &bank());
    let found = |version: &str, list: &str, cedar: &str| {
        let name = if list == "tools" { "charge" } else { "bank" };
        let members = json!({
            "appliesTo": { list: [name] }, "authorization": { "cedar": cedar },
        });
        let output = apply(&registry, &limit(version, &members), &[]);
        assert!(output.success(), "{output:?}");
        findings(&output)
    };
    let send = "forbid (principal, action == Action::\"send\", resource);";
    let read = "forbid (principal, action == Action::\"read\", resource);";
    let misspelled = "forbid (principal, action, resource) when { principal has teem };";
    let pointer = "/policies/0/authorization/cedar".to_owned();
    let warning = [("policy-unsatisfiable".to_owned(), pointer)];
    assert_eq!(found("1.0.0", "tools", send), warning);
    assert_eq!(found("1.1.0", "tools", misspelled), warning);
    assert_eq!(found("1.2.0", "servers", send), warning);
    assert!(found("1.3.0", "servers", read).is_empty());
}

#[test]
fn impact_reports_changed_mode_of_a_policy() {
    let registry = Registry::start();
    applied(&registry, &bank());
    let policy = |version: &str, mode: &str| {
        limit(version, &json!({ "mode": mode, "appliesTo": { "tools": ["charge"] } }))
    };
    applied(&registry, &policy("1.0.0", "enforce"));
    let relaxed = apply(&registry, &policy("1.1.0", "audit"), &[]);
    assert!(relaxed.success(), "{relaxed:?}");
    assert_eq!(findings(&relaxed), [("policy-relaxed".to_owned(), "/policies/0/mode".to_owned())]);
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("policy.json");
    let found = |old: &str, new: Value| {
        fs::write(&path, new.to_string()).expect("written");
        let file = path.to_str().expect("UTF-8");
        let view = registry.json(&["impact", &format!("policy/limit@{old}"), "--change", file]);
        assert_eq!(view.get("comparison"), None, "policies promise no schemas");
        let findings = view["findings"].as_array().expect("a list").iter();
        findings.map(|found| found["code"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(found("1.0.0", policy("1.2.0", "audit")), [json!("policy-relaxed")]);
    assert_eq!(found("1.1.0", policy("1.2.0", "enforce")), [json!("policy-tightened")]);
    assert_eq!(found("1.1.0", policy("1.2.0", "audit")), [] as [Value; 0]);
    assert_eq!(found("1.0.0", policy("1.2.0-rc.1", "enforce")), [] as [Value; 0]);
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
    let equal = registry.ctl(&["policy", "rollback", "limit", "1.0.0", "--yes"]);
    assert_eq!(equal.code, 2, "its content is in force: {equal:?}");
}

#[test]
fn revert_of_replacing_policy_version_is_rejected() {
    let registry = Registry::start();
    applied(&registry, &bank());
    applied(&registry, &charges("1.0.0", 5));
    applied(&registry, &charges("1.1.0", 7));
    let refused = registry.ctl(&["revert", "3", "--yes"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    insta::assert_snapshot!(refused.stderr, @r"
    error: revision 3 cannot be reverted:
      policy/limit@1.1.0 replaced version 1.0.0, which is never in force again, so that the revert would turn the policy off; register its content again with `registryctl policy rollback limit 1.0.0`
    ");
    registry.run(&["policy", "rollback", "limit", "1.0.0", "--yes"]);
    registry.run(&["revert", "3", "--yes"]);
    assert_eq!(registry.json(&["get", "policy/limit@1.1.1"])["inForce"], true);
    // The first version replaced nothing.
    registry.run(&["retire", "policy/limit@1.1.1", "--yes"]);
    registry.run(&["revert", "2", "--yes"]);
    let shown = registry.run(&["get", "policy/limit@1.0.0"]);
    let line = shown.lines().find(|line| line.starts_with("in ")).expect("a line");
    insta::assert_snapshot!(line, @"in force    no, the policy is off, because 1.1.1 is retired");
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
fn change_of_lower_version_names_version_in_force() {
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
    let restored = registry.ctl(&["restore", "policy/limit@1.0.0", "--yes"]);
    assert!(restored.success() && restored.stderr.contains("policy/limit@1.1.0"), "{restored:?}");
    assert!(!retire("1.1.0").contains("note:"));
    let change = |command: &str, version: &str| {
        let changed = registry.ctl(&[command, &format!("policy/limit@{version}"), "--yes"]);
        assert!(changed.success(), "{changed:?}");
        changed.stderr
    };
    retire("1.0.0");
    change("restore", "1.0.0");
    let policies = || keys(&registry.json(&["impact", "tool/charge@1.0.0"])["policies"]);
    assert_eq!(policies(), [""; 0]);
    assert!(change("deprecate", "1.1.0").contains("policy/limit@1.1.0"));
    assert_eq!(policies(), ["policy/limit@1.1.0"]);
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

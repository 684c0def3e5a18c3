//! Registry files with invalid policies, as the source of a gateway.

use std::fs;

use acceptance::{Gateway, ModernClient, ctl, eventually};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{agent, bank, bank_gateway_of};

const UNPARSABLE: &str = "forbid (principal";
const MISTYPED: &str = "forbid (principal, action == Action::\"call\", resource)
    when { context.arguments has amount && context.arguments.amount == \"many\" };";
const UNUSED_PERMIT: &str = "permit (principal, action, resource);";

/// A bank with these conditions about its charges.
fn file(conditions: &[&str]) -> Value {
    let mut file = bank();
    let policy = |(number, cedar): (usize, &&str)| {
        json!({
            "name": format!("p{number}"), "version": "1.0.0",
            "appliesTo": { "tools": ["charge"] }, "authorization": { "cedar": cedar },
        })
    };
    file["policies"] = conditions.iter().enumerate().map(policy).collect();
    file["agents"] = json!([agent("clerk", &[("charge", "1.0.0")])]);
    file
}

/// A gateway with a registry file, and the directory of the file.
fn gateway(file: &Value) -> (Gateway, TempDir) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("registry.json");
    fs::write(&path, file.to_string()).expect("written");
    (bank_gateway_of(format!("file://{}", path.display()), &[]), dir)
}

/// The findings of `registryctl validate` about policies, as the gateway writes them.
fn registration_findings(dir: &TempDir) -> Vec<String> {
    let path = dir.path().join("registry.json");
    let arguments = ["validate", path.to_str().expect("UTF-8"), "--output", "json"];
    let validated = ctl("http://127.0.0.1:1", &arguments).json();
    let text = |found: &Value, member: &str| found[member].as_str().unwrap_or_default().to_owned();
    let line = |found: &Value| {
        let [severity, code, entity] = ["severity", "code", "entity"].map(|m| text(found, m));
        let [pointer, message] = ["pointer", "message"].map(|member| text(found, member));
        format!("{severity}[{code}] {entity} at {pointer:?}: {message}")
    };
    let found = validated["diagnostics"].as_array().expect("a list").iter().map(line);
    found.filter(|line| line.contains("[policy-i")).collect()
}

#[tokio::test]
async fn check_reports_the_findings_of_registration() {
    let (gateway, dir) = gateway(&file(&[UNPARSABLE, MISTYPED, UNUSED_PERMIT]));
    let expected = registration_findings(&dir);
    let policies = |found: &[String]| -> Vec<bool> {
        let found_in = |number| found.iter().any(|one| one.contains(&format!("policy/p{number}@")));
        (0..3).map(found_in).collect()
    };
    assert_eq!(policies(&expected), [true; 3]);
    let checked = gateway.check();
    assert_eq!(checked.code, 1, "{checked:?}");
    for finding in &expected {
        assert!(checked.stdout.contains(finding.as_str()), "no {finding} in {checked:?}");
    }
    let pointer = "policy/p1@1.0.0 at \"/policies/1/authorization/cedar\": Cedar line 2, column ";
    assert!(checked.stdout.contains(pointer), "{checked:?}");

    eventually("each finding is logged", || async {
        expected.iter().all(|finding| !gateway.process.logged(&[" WARN ", finding]).is_empty())
    })
    .await;
    let logged = gateway.process.logged(&[" WARN ", "[policy-i"]);
    assert_eq!(logged.len(), expected.len(), "{logged:?}");
}

#[tokio::test]
async fn gateway_denies_calls_under_invalid_policy() {
    for conditions in [UNPARSABLE, MISTYPED] {
        let (gateway, _dir) = gateway(&file(&[conditions]));
        gateway.ready().await;
        let client = ModernClient::agent(&gateway.mcp_url(), "clerk", "1.0.0");
        let answer = client.call("charge", json!({ "amount": 1 })).await;
        let reason = &answer.message["result"]["_meta"]["registry/governance"]["reason"];
        assert_eq!(reason, "POLICY_ERROR", "{:?}", answer.message);
    }
}

#[test]
fn check_passes_valid_policies_and_rejects_unusable_file() {
    let valid = "forbid (principal, action, resource) when { context.hops > 3 };";
    let (gateway, dir) = gateway(&file(&[valid]));
    assert_eq!(gateway.check().code, 0, "{:?}", gateway.check());
    let mut unusable = file(&[valid]);
    unusable["policies"][0]["mode"] = "sometimes".into();
    fs::write(dir.path().join("registry.json"), unusable.to_string()).expect("written");
    let checked = gateway.check();
    let finding = "at \"/policies/0/mode\"";
    assert_eq!((checked.code, checked.stderr.contains(finding)), (1, true), "{checked:?}");
}

//! New versions of tools that policies in force do not fit.

use std::fs;

use acceptance::{CtlOutput, Database, ModernClient, Registry, access::Guarded};
use serde_json::{Value, json};

use super::{
    agent, applied, apply, bank, bank_gateway, findings, limit,
    roles::{self, run},
};

/// A version of the alias `pay` with this type of amount.
fn pay(version: &str, amount: &str) -> Value {
    json!({
        "schemaVersion": "2.0",
        "tools": [{
            "name": "pay", "version": version,
            "inputSchema": { "type": "object", "properties": { "amount": { "type": amount } } },
            "source": { "server": "bank", "serverVersion": "1.0.0", "tool": "charge" },
        }],
    })
}

/// A policy about the amount as an integer.
fn amounts() -> Value {
    let cedar = "forbid (principal, action == Action::\"call\", resource)
        when { context.arguments has amount && context.arguments.amount == 13 };";
    let members =
        json!({ "appliesTo": { "tools": ["charge"] }, "authorization": { "cedar": cedar } });
    limit("1.0.0", &members)
}

/// The policies that the registration of a version breaks, by the history of its name.
fn broken(registry: &Registry, name: &str, version: &str) -> Value {
    let history = registry.json(&["history", name]);
    let events = history.as_array().or(history["events"].as_array()).expect("a list").clone();
    let event = events.into_iter().find(|event| event["version"] == version);
    event.expect("the registration")["brokenPolicies"].clone()
}

#[tokio::test]
async fn broken_policies_are_recorded_on_both_databases() {
    for database in Database::both().await {
        let registry = Registry::start_on(&database.url());
        applied(&registry, &bank());
        applied(&registry, &amounts());
        let incompatible = ("policy-incompatible".to_owned(), "/tools/0".to_owned());
        let output = apply(&registry, &pay("2.0.0", "string"), &[]);
        assert_eq!((output.code, findings(&output).first()), (1, Some(&incompatible)));

        let output = apply(&registry, &pay("2.0.0", "string"), &["--allow-policy-break"]);
        assert!(output.success(), "{output:?}");
        assert_eq!(findings(&output), [incompatible]);
        assert_eq!(broken(&registry, "tool/pay", "2.0.0"), json!(["policy/limit@1.0.0"]));
        assert_eq!(broken(&registry, "tool/pay", "1.0.0"), Value::Null);
        let again = apply(&registry, &pay("2.0.0", "string"), &[]);
        assert!(again.success() && findings(&again).is_empty(), "{again:?}");
        let verified = registry.ctl(&["audit", "verify", "--output", "json"]);
        assert!(verified.success(), "{verified:?}");
    }
}

#[test]
fn foreign_policy_is_broken_by_governors_only() {
    let guarded = Guarded::start(&[]);
    let bankers = guarded.token("ann", "bank", "publisher");
    let governor = guarded.token("gov", "security", "governor");
    let roles = ["--role", "publisher", "--role", "governor"];
    let create = ["token", "create", "--name", "eve", "--team", "bank", "--yes"];
    let both = run(&guarded, &guarded.admin, &[&create[..], &roles].concat()).json();
    let both = both["secret"].as_str().expect("a secret").to_owned();
    assert!(roles::apply(&guarded, &bankers, &bank()).success());
    assert!(roles::apply(&guarded, &governor, &amounts()).success());
    let change = |token: &str, arguments: &[&str]| {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("file.json");
        fs::write(&path, pay("2.0.0", "string").to_string()).expect("written");
        let file = ["apply", "-f", path.to_str().expect("UTF-8")];
        let arguments = if arguments.is_empty() { &file[..] } else { arguments };
        run(&guarded, token, &[arguments, &["--allow-policy-break", "--yes"]].concat())
    };
    let restore = ["restore", "tool/pay@2.0.0"];
    let refused = change(&bankers, &[]);
    assert_eq!((refused.code, findings(&refused)[0].0.as_str()), (1, "role-required"));
    assert!(change(&both, &[]).success());
    assert!(run(&guarded, &bankers, &["retire", "tool/pay@2.0.0", "--yes"]).success());
    let refused = change(&bankers, &restore);
    assert_eq!((refused.code, findings(&refused)[0].0.as_str()), (1, "role-required"));
    assert!(change(&both, &restore).success());
}

#[test]
fn fitting_policy_in_the_batch_prevents_the_break() {
    let registry = Registry::start();
    applied(&registry, &bank());
    applied(&registry, &amounts());
    let mut batch = pay("2.0.0", "string");
    batch["policies"] = limit("1.1.0", &json!({}))["policies"].clone();
    let output = apply(&registry, &batch, &["--allow-policy-break"]);
    assert!(output.success() && findings(&output).is_empty(), "{output:?}");
    assert_eq!(broken(&registry, "tool/pay", "2.0.0"), Value::Null);
}

#[test]
fn argument_of_new_type_needs_new_name() {
    let registry = Registry::start();
    applied(&registry, &bank());
    let with_policy = |mut batch: Value, conditions: &[&str]| {
        let forbid = |condition: &&str| {
            format!(
                "forbid (principal, action == Action::\"call\", resource) when {{ {condition} }};"
            )
        };
        let cedar = conditions.iter().map(forbid).collect::<Vec<_>>().join("\n");
        let members =
            json!({ "appliesTo": { "tools": ["pay"] }, "authorization": { "cedar": cedar } });
        batch["policies"] = limit("1.0.0", &members)["policies"].clone();
        apply(&registry, &batch, &["--dry-run"])
    };
    // Each statement is about one version, but is checked against both.
    let by_version = [
        "resource.version == \"2.0.0\" && context.arguments has amount
            && context.arguments.amount.greaterThan(decimal(\"8.0\"))",
        "resource.version != \"2.0.0\" && context.arguments has amount
            && context.arguments.amount > 8",
    ];
    let refused = with_policy(pay("2.0.0", "number"), &by_version);
    assert_eq!(refused.code, 1, "{refused:?}");
    let found = refused.json()["diagnostics"].as_array().expect("a list").clone();
    let found = found.iter().find(|found| found["code"] == "policy-invalid");
    let help = found.expect("a finding")["help"].as_str().expect("a help");
    insta::assert_snapshot!(
        help,
        @r#"compare a `number` with `.greaterThan(decimal("10.0"))`, `.lessThan(decimal("10.0"))` or `== decimal("10.0")`, and an `integer` with `> 10`; other versions fit: no policy can read an argument that has several types, so give it another name in one version, or retire the other versions"#
    );
    let mut renamed = pay("2.0.0", "number");
    let input = &mut renamed["tools"][0]["inputSchema"];
    input["properties"] = json!({ "total": { "type": "number" } });
    let by_name = [
        "context.arguments has total
            && context.arguments.total.greaterThan(decimal(\"8.0\"))",
        "context.arguments has amount && context.arguments.amount > 8",
    ];
    let accepted = with_policy(renamed, &by_name);
    assert!(accepted.success(), "{accepted:?}");
}

#[test]
fn restored_tool_is_checked_against_policies() {
    let registry = Registry::start();
    applied(&registry, &bank());
    applied(&registry, &pay("2.0.0", "string"));
    registry.run(&["retire", "tool/pay@2.0.0", "--yes"]);
    applied(&registry, &amounts());
    let restore = |more: &[&str]| {
        registry.ctl(&[&["restore", "tool/pay@2.0.0", "--yes", "--output", "json"], more].concat())
    };
    let rejected = restore(&[]);
    assert_eq!((rejected.code, findings(&rejected)[0].0.as_str()), (1, "policy-incompatible"));
    let allowed = restore(&["--allow-policy-break"]);
    assert!(allowed.success(), "{allowed:?}");
}

#[test]
fn restored_policy_is_checked_against_tools() {
    let registry = Registry::start();
    applied(&registry, &bank());
    applied(&registry, &amounts());
    registry.run(&["retire", "policy/limit@1.0.0", "--yes"]);
    applied(&registry, &pay("2.0.0", "string"));
    let restore = ["restore", "policy/limit@1.0.0", "--yes", "--output", "json"];
    let rejected = registry.ctl(&restore);
    assert_eq!((rejected.code, findings(&rejected)[0].0.as_str()), (1, "policy-invalid"));
    registry.run(&["retire", "tool/pay@2.0.0", "--yes"]);
    let restored = registry.ctl(&restore);
    assert!(restored.success(), "{restored:?}");
}

#[test]
fn tool_cannot_prevent_changes_of_policies() {
    let registry = Registry::start();
    applied(&registry, &bank());
    let about_amounts = |version: &str, most: u32| {
        let cedar = format!(
            "forbid (principal, action == Action::\"call\", resource)
            when {{ context.arguments has amount && context.arguments.amount > {most} }};"
        );
        let applies_to = json!({ "servers": ["bank"] });
        limit(version, &json!({ "appliesTo": applies_to, "authorization": { "cedar": cedar } }))
    };
    applied(&registry, &about_amounts("1.0.0", 100));
    let mut unreadable = pay("2.0.0", "integer");
    unreadable["tools"][0].as_object_mut().expect("an object").remove("inputSchema");
    let allow = "--allow-policy-break";
    let output = apply(&registry, &unreadable, &[allow]);
    assert!(output.success(), "{output:?}");

    let all_have = |output: &CtlOutput, code: &str| {
        let found = findings(output);
        assert!(!found.is_empty() && found.iter().all(|(found, _)| found == code), "{output:?}");
    };
    let changes = |change: &dyn Fn(&[&str]) -> CtlOutput| {
        let rejected = change(&[]);
        assert_eq!(rejected.code, 1, "{rejected:?}");
        all_have(&rejected, "policy-invalid");
        let accepted = change(&[allow]);
        assert!(accepted.success(), "{accepted:?}");
        accepted
    };
    let stricter = about_amounts("1.1.0", 10);
    let accepted = changes(&|more| apply(&registry, &stricter, more));
    all_have(&accepted, "policy-incompatible");
    assert_eq!(broken(&registry, "policy/limit", "1.1.0"), json!(["policy/limit@1.1.0"]));
    let run = |arguments: &[&str], more: &[&str]| {
        registry.ctl(&[arguments, &["--yes", "--output", "json"], more].concat())
    };
    changes(&|more| run(&["policy", "rollback", "limit", "1.0.0"], more));
    registry.run(&["retire", "policy/limit@1.1.1", "--yes"]);
    changes(&|more| run(&["restore", "policy/limit@1.1.1"], more));
}

#[test]
fn mistake_without_arguments_is_no_break() {
    let registry = Registry::start();
    applied(&registry, &bank());
    let cedar = "forbid (principal, action == Action::\"call\", resource)
        when { context.arguments has amount && principal.tema == \"red\" };";
    let members =
        json!({ "appliesTo": { "tools": ["charge"] }, "authorization": { "cedar": cedar } });
    let output = apply(&registry, &limit("1.0.0", &members), &["--allow-policy-break"]);
    let found = findings(&output);
    let is_invalid = found.iter().all(|(code, _)| code == "policy-invalid");
    assert!(output.code == 1 && !found.is_empty() && is_invalid, "{output:?}");
}

#[test]
fn retired_tool_of_a_batch_breaks_no_policy() {
    let registry = Registry::start();
    let mut file = bank();
    let mut old = pay("2.0.0", "string")["tools"][0].clone();
    old["retired"] = json!(true);
    file["tools"].as_array_mut().expect("a list").push(old);
    file["policies"] = amounts()["policies"].clone();
    let output = apply(&registry, &file, &[]);
    assert!(output.success() && findings(&output).is_empty(), "{output:?}");
}

#[test]
fn impact_lists_the_break_beforehand() {
    let registry = Registry::start();
    applied(&registry, &bank());
    applied(&registry, &amounts());
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("pay.json");
    fs::write(&file, pay("2.0.0", "string").to_string()).expect("written");
    let path = file.to_str().expect("UTF-8");
    let impact = registry.ctl(&["impact", "tool/pay@1.0.0", "--change", path, "--output", "json"]);
    assert_eq!(
        (impact.code, &impact.json()["findings"][0]["code"]),
        (1, &json!("policy-incompatible"))
    );
    fs::write(&file, pay("2.0.0", "integer").to_string()).expect("written");
    let impact = registry.json(&["impact", "tool/pay@1.0.0", "--change", path]);
    assert_eq!(impact["findings"], json!([]));
}

#[tokio::test]
async fn gateway_denies_calls_of_breaking_version() {
    let registry = Registry::start();
    applied(&registry, &bank());
    applied(&registry, &amounts());
    let output = apply(&registry, &pay("2.0.0", "string"), &["--allow-policy-break"]);
    assert!(output.success(), "{output:?}");
    let agents = [agent("clerk", &[("pay", "2.0.0")]), agent("teller", &[("pay", "1.0.0")])];
    applied(&registry, &json!({ "schemaVersion": "2.0", "agents": agents }));
    let gateway = bank_gateway(&registry, &[]);
    gateway.ready().await;
    let reason = async |agent: &str, arguments: Value| {
        let client = ModernClient::agent(&gateway.mcp_url(), agent, "1.0.0");
        let answer = client.call("pay", arguments).await;
        answer.message["result"]["_meta"]["registry/governance"]["reason"].clone()
    };
    assert_eq!(reason("clerk", json!({ "amount": "13" })).await, "POLICY_ERROR");
    assert_eq!(reason("clerk", json!({})).await, "POLICY_ERROR");
    assert_eq!(reason("teller", json!({ "amount": 13 })).await, "UNAUTHORIZED");
    assert_eq!(reason("teller", json!({ "amount": 12 })).await, Value::Null);
}

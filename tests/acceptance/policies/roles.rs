//! The roles that register and retire policies.

use std::fs;

use acceptance::{CtlOutput, access::Guarded};
use serde_json::{Value, json};

use super::{bank, findings, limit};

/// Runs `registryctl` with a token.
pub(super) fn run(guarded: &Guarded, token: &str, arguments: &[&str]) -> CtlOutput {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("token");
    fs::write(&file, token).expect("written");
    let file = file.to_str().expect("UTF-8");
    guarded.registry.ctl(&[arguments, &["--token-file", file, "--output", "json"]].concat())
}

pub(super) fn apply(guarded: &Guarded, token: &str, file: &Value) -> CtlOutput {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("file.json");
    fs::write(&path, file.to_string()).expect("written");
    run(guarded, token, &["apply", "-f", path.to_str().expect("UTF-8"), "--yes"])
}

fn refusal(output: &CtlOutput) -> Vec<String> {
    assert_eq!(output.code, 1, "{output:?}");
    findings(output).into_iter().map(|(code, _)| code).collect()
}

#[test]
fn publisher_governs_names_of_its_team_only() {
    let guarded = Guarded::start(&[]);
    let bankers = guarded.token("ann", "bank", "publisher");
    let others = guarded.token("bob", "other", "publisher");
    let governor = guarded.token("gov", "security", "governor");
    assert!(apply(&guarded, &bankers, &bank()).success());

    let own = limit("1.0.0", &json!({ "appliesTo": { "tools": ["charge"], "servers": ["bank"] } }));
    assert_eq!(refusal(&apply(&guarded, &others, &own)), ["role-required"]);
    assert!(apply(&guarded, &bankers, &own).success());
    let wide = |name: &str| json!({ "schemaVersion": "2.0", "policies": [{ "name": name, "version": "1.0.0" }] });
    assert_eq!(refusal(&apply(&guarded, &bankers, &wide("all"))), ["role-required"]);
    assert!(apply(&guarded, &governor, &wide("all")).success());
    let retire = ["retire", "policy/all@1.0.0", "--yes"];
    assert_ne!(run(&guarded, &bankers, &retire).code, 0);
    assert!(run(&guarded, &governor, &retire).success());
    assert!(apply(&guarded, &guarded.admin, &wide("admins")).success());
}

#[test]
fn publisher_changes_no_settings_of_governors_policy() {
    let guarded = Guarded::start(&[]);
    let governor = guarded.token("gov", "security", "governor");
    let publisher = guarded.token("pub", "security", "publisher");
    let wide =
        json!({ "schemaVersion": "2.0", "policies": [{ "name": "all", "version": "1.0.0" }] });
    assert!(apply(&guarded, &governor, &wide).success());
    let archive = ["archive", "policy/all", "--yes"];
    let transfer = ["transfer", "policy/all", "bank", "--yes"];
    let refuses = || {
        for change in [&archive[..], &transfer] {
            assert_eq!(refusal(&run(&guarded, &publisher, change)), ["role-required"]);
        }
    };
    refuses();
    assert!(run(&guarded, &governor, &["retire", "policy/all@1.0.0", "--yes"]).success());
    refuses();
    assert!(run(&guarded, &governor, &archive).success());
}

#[test]
fn governor_changes_policies_of_own_team_only() {
    let guarded = Guarded::start(&[]);
    let publisher = guarded.token("ann", "bank", "publisher");
    let own = guarded.token("bea", "bank", "governor");
    let other = guarded.token("gov", "security", "governor");
    let wide = |version: &str| json!({ "schemaVersion": "2.0", "policies": [{ "name": "all", "version": version }] });
    let help = |token: &str, expected: &str| {
        let refused = apply(&guarded, token, &wide("1.0.1"));
        assert_eq!(refusal(&refused), [expected]);
        refused.json()["diagnostics"][0]["help"].as_str().expect("a remedy").to_owned()
    };
    // No team owns the name.
    insta::assert_snapshot!(
        help(&publisher, "role-required"),
        @"select names or namespaces that `bank` owns, or ask a governor or an admin to make the change"
    );
    assert!(apply(&guarded, &own, &wide("1.0.0")).success());
    insta::assert_snapshot!(
        help(&publisher, "role-required"),
        @"select names or namespaces that `bank` owns, or ask a governor of `bank`, or an admin, to make the change"
    );
    insta::assert_snapshot!(
        help(&other, "not-owner"),
        @"ask a governor of `bank`, or an admin, to make the change"
    );
    assert_eq!(
        refusal(&run(&guarded, &other, &["retire", "policy/all@1.0.0", "--yes"])),
        ["not-owner"]
    );
    let transfer = ["transfer", "policy/all", "security", "--yes"];
    assert_eq!(refusal(&run(&guarded, &other, &transfer)), ["not-owner"]);
    assert!(apply(&guarded, &own, &wide("1.0.1")).success());
    assert!(run(&guarded, &own, &transfer).success());
    assert!(apply(&guarded, &other, &wide("1.0.2")).success());
}

#[test]
fn tools_of_other_teams_block_no_policy() {
    let guarded = Guarded::start(&[]);
    let bankers = guarded.token("ann", "bank", "publisher");
    let others = guarded.token("bob", "other", "publisher");
    assert!(apply(&guarded, &bankers, &bank()).success());
    let about =
        |version: &str, tool: &str| limit(version, &json!({ "appliesTo": { "tools": [tool] } }));
    assert!(apply(&guarded, &bankers, &about("1.0.0", "charge")).success());
    let alias = |name: &str, upstream: &str| {
        json!({
            "schemaVersion": "2.0",
            "servers": [{
                "name": format!("{name}-server"), "version": "1.0.0",
                "provides": [{ "tool": name, "version": "1.0.0" }],
            }],
            "tools": [{
                "name": name, "version": "1.0.0",
                "source": {
                    "server": format!("{name}-server"), "serverVersion": "1.0.0", "tool": upstream,
                },
            }],
        })
    };
    assert!(apply(&guarded, &others, &alias("x1", "charge")).success());
    assert!(apply(&guarded, &bankers, &about("1.0.1", "charge")).success());

    // The alias has no readable arguments.
    let cedar = "forbid (principal, action == Action::\"call\", resource)
        when { context.arguments has amount && context.arguments.amount > 10 };";
    let reading = limit(
        "1.0.2",
        &json!({ "appliesTo": { "tools": ["charge"] }, "authorization": { "cedar": cedar } }),
    );
    let accepted = apply(&guarded, &bankers, &reading);
    assert!(accepted.success(), "{accepted:?}");
    let found = findings(&accepted);
    let is_break = |(code, _): &(String, String)| code == "policy-incompatible";
    assert!(!found.is_empty() && found.iter().all(is_break), "{found:?}");
    for change in ["retire", "restore"] {
        let changed = run(&guarded, &bankers, &[change, "policy/limit@1.0.2", "--yes"]);
        assert!(changed.success(), "{changed:?}");
    }

    // The upstream name is older than the tool of the bank.
    assert!(apply(&guarded, &others, &alias("x2", "audit")).success());
    assert!(apply(&guarded, &bankers, &alias("audit", "audit")).success());
    let refused = apply(&guarded, &bankers, &about("1.0.3", "audit"));
    assert_eq!(refusal(&refused), ["role-required"]);
}

#[test]
fn publisher_without_auditor_cannot_wait() {
    let guarded = Guarded::start(&[]);
    let publisher = guarded.token("ann", "bank", "publisher");
    let both = ["token", "create", "--name", "eve", "--team", "bank", "--yes"];
    let both = [&both[..], &["--role", "publisher", "--role", "auditor"]].concat();
    let both = run(&guarded, &guarded.admin, &both).json()["secret"].clone();
    assert!(apply(&guarded, &publisher, &bank()).success());
    let stop = ["policy", "stop", "tool/charge", "--reason", "a test", "--dry-run"];
    let denied = run(&guarded, &publisher, &stop);
    assert!(denied.code == 1 && denied.has_code("PERMISSION_DENIED"), "{denied:?}");
    insta::assert_snapshot!(
        denied.stderr.lines().nth(1).expect("a remedy").trim_start(),
        @"= help: nothing was changed; `policy stop` and `--wait` list gateways, which also requires the role auditor or governor. Use a token with both roles, or `apply` without `--wait`"
    );
    let allowed = run(&guarded, both.as_str().expect("a secret"), &stop);
    assert!(allowed.success(), "{allowed:?}");
}

#[test]
fn governor_registers_policies_only() {
    let guarded = Guarded::start(&[]);
    let governor = guarded.token("gov", "security", "governor");
    assert_eq!(refusal(&apply(&guarded, &governor, &bank()))[0], "role-required");
    let who = run(&guarded, &governor, &["whoami"]).json();
    assert_eq!((&who["roles"], &who["writes"]), (&json!(["governor"]), &json!("policies")));
    let approver = guarded.token("app", "security", "approver");
    assert_eq!(run(&guarded, &approver, &["whoami"]).json()["writes"], "nothing");
    let shown = guarded.registry.ctl(&["whoami", "--token", &approver]).stdout;
    insta::assert_snapshot!(
        shown.lines().find(|line| line.starts_with("rights")).expect("rights"),
        @"rights     read the catalog and the history, and decide about calls that need its approval"
    );
    let shown = guarded.registry.ctl(&["whoami", "--token", &governor]).stdout;
    insta::assert_snapshot!(
        shown.lines().find(|line| line.starts_with("rights")).expect("rights"),
        @"rights     read the catalog and the history, register and retire policies of its team about names of any team, change budgets, read usage, list gateways, and see and cancel all approvals"
    );
    let auditor = guarded.token("rev", "security", "auditor");
    let shown = guarded.registry.ctl(&["whoami", "--token", &auditor]).stdout;
    insta::assert_snapshot!(
        shown.lines().find(|line| line.starts_with("rights")).expect("rights"),
        @"rights     read the catalog and the history, list gateways, budgets and approvals, read usage, traces and access events, and verify the log"
    );
    let publisher = guarded.token("ann", "bank", "publisher");
    assert_eq!(run(&guarded, &publisher, &["whoami"]).json()["writes"], "entities");
    let shown = guarded.registry.ctl(&["whoami", "--token", &publisher]);
    let mut lines = shown.stdout.lines().map(|line| line.split_whitespace());
    assert!(lines.any(|words| words.eq(["writes", "entities", "*"])), "{shown:?}");
    assert!(run(&guarded, &approver, &["list", "tool"]).success());
}

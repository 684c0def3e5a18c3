//! Policies: registration, versions in force, roles, scopes, budgets, emergencies, and decisions without calls.

mod alerts;
mod approvals;
mod approved_calls;
mod breaks;
mod budgets;
mod corpus;
mod decisions;
mod entity;
mod files;
mod fleet_rates;
mod followers;
mod inspection;
mod page;
mod relayed_budgets;
mod renamed_gateways;
mod roles;
mod seed_budget;
mod spending;
mod stop;
mod traces;
mod usage;

use std::fs;

use acceptance::{CtlOutput, Gateway, GatewayOptions, Registry, ctl, root};
use serde_json::{Value, json};

/// A bank with one destructive tool, its alias, and a reader.
fn bank() -> Value {
    let tool = |name: &str, upstream: &str, reads: bool| {
        json!({
            "name": name, "version": "1.0.0", "annotations": { "readOnlyHint": reads },
            "inputSchema": { "type": "object", "properties": { "amount": { "type": "integer" } } },
            "source": { "server": "bank", "serverVersion": "1.0.0", "tool": upstream },
        })
    };
    let provides = [
        json!({ "tool": "charge", "version": "1.0.0" }),
        json!({ "tool": "balance", "version": "1.0.0" }),
    ];
    json!({
        "schemaVersion": "2.0",
        "servers": [{ "name": "bank", "version": "1.0.0", "provides": provides }],
        "tools": [tool("charge", "charge", false), tool("pay", "charge", false), tool("balance", "balance", true)],
    })
}

/// A gateway whose bank cannot be reached, so that allowed calls fail.
fn bank_gateway(registry: &Registry, arguments: &[&str]) -> Gateway {
    bank_gateway_of(format!("grpc://{}", registry.address), arguments)
}

fn bank_gateway_of(source: String, arguments: &[&str]) -> Gateway {
    let targets = bank_at("http://127.0.0.1:1/mcp");
    let options = GatewayOptions { source, targets, runtime: None, more: String::new() };
    Gateway::start_with(&options, arguments)
}

/// The targets of a gateway whose bank has this URL.
fn bank_at(url: &str) -> String {
    format!("targets:\n  - {{ server: bank, version: \"*\", http: \"{url}\" }}\n")
}

/// A policy of an example, which is validated and applied with the example of the registry.
fn example_policy(example: &str, policy: &str) -> Value {
    let files = ["examples/registry-v2.json", example];
    let valid = ctl("http://127.0.0.1:1", &["validate", files[0], files[1], "--output", "json"]);
    assert!(valid.success(), "{valid:?}");
    let registry = Registry::start();
    registry.apply_example();
    registry.apply_file(&root().join(example));
    let document = registry.run(&["get", policy, "--document"]);
    serde_json::from_str(&document).expect("JSON")
}

/// An agent that declares these tools.
fn agent(name: &str, tools: &[(&str, &str)]) -> Value {
    let depends: Vec<_> = tools
        .iter()
        .map(|(tool, version)| json!({ "type": "tool", "name": tool, "version": version }))
        .collect();
    json!({
        "name": name, "version": "1.0.0", "description": "An agent",
        "url": "https://agents.example/a", "protocolVersion": "0.3.0",
        "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
        "skills": [{ "id": "work", "name": "Work", "description": "Works", "tags": [] }],
        "capabilities": { "extensions": [
            { "uri": "urn:agentgateway:sbom", "params": { "depends": depends } },
        ] },
    })
}

/// A policy named `limit` with these members.
fn limit(version: &str, members: &Value) -> Value {
    let mut policy = json!({ "name": "limit", "version": version });
    policy
        .as_object_mut()
        .expect("an object")
        .extend(members.as_object().expect("an object").clone());
    json!({ "schemaVersion": "2.0", "policies": [policy] })
}

/// Applies a file, with more arguments.
fn apply(registry: &Registry, file: &Value, more: &[&str]) -> CtlOutput {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("file.json");
    fs::write(&path, file.to_string()).expect("written");
    let path = path.to_str().expect("UTF-8");
    registry.ctl(&[&["apply", "-f", path, "--yes", "--output", "json"], more].concat())
}

fn applied(registry: &Registry, file: &Value) {
    let output = apply(registry, file, &[]);
    assert!(output.success(), "{output:?}");
}

/// The codes and pointers of the findings.
fn findings(output: &CtlOutput) -> Vec<(String, String)> {
    let found = output.json()["diagnostics"].clone();
    let text = |finding: &Value, member: &str| finding[member].as_str().expect("a text").to_owned();
    let found = found.as_array().expect("a list");
    found.iter().map(|f| (text(f, "code"), text(f, "pointer"))).collect()
}

/// The keys of a list of JSON objects.
fn keys(list: &Value) -> Vec<String> {
    let text = |entity: &Value, member: &str| entity[member].as_str().expect("a text").to_owned();
    let key = |e: &Value| format!("{}/{}@{}", text(e, "kind"), text(e, "name"), text(e, "version"));
    list.as_array().expect("a list").iter().map(key).collect()
}

//! Inspection: registration of policies, and calls whose values appear nowhere else.

use std::fs;

use acceptance::{Gateway, GatewayOptions, ModernClient, Registry, eventually};
use gateway_testkit::{McpServer, Received};
use serde_json::{Value, json};

use super::{applied, apply, bank, bank_at, example_policy, findings, limit};

const EXAMPLE: &str = "examples/policies/privacy.yaml";
const MAIL: &str = "jane.doe@acme-bank.org";
const CARD: &str = "4539578763621486";

fn inspected(version: &str, inspection: &Value) -> Value {
    limit(version, &json!({ "inspection": inspection }))
}

#[test]
fn privacy_example_is_valid_and_applied() {
    let document = example_policy(EXAMPLE, "policy/privacy");
    let expected = json!({
        "arguments": { "contact": "log", "credential": "block" },
        "results": { "contact": "log", "credential": "block", "financial": "redact" },
    });
    assert_eq!(document["inspection"], expected);
}

#[test]
fn invalid_inspections_are_rejected() {
    let registry = Registry::start();
    for (inspection, pointer) in [
        (json!({ "arguments": { "contact": "redact" } }), "/arguments/contact"),
        (json!({ "results": { "contacts": "redact" } }), "/results/contacts"),
        (json!({ "profile": "strict", "results": { "contact": "log" } }), "/results"),
        (json!({ "results": { "contact": "log" }, "restoreFor": "charge" }), "/restoreFor"),
    ] {
        let output = apply(&registry, &inspected("1.0.0", &inspection), &[]);
        assert_eq!(output.code, 1, "{output:?}");
        let pointer = format!("/policies/0/inspection{pointer}");
        assert_eq!(findings(&output), [("document-invalid".to_owned(), pointer)]);
    }
}

#[test]
fn inspection_without_effect_is_a_warning() {
    let registry = Registry::start();
    applied(&registry, &bank());
    let restores = json!({ "results": { "contact": "redact" }, "restoreFor": ["charge"] });
    let output = apply(&registry, &inspected("1.0.0", &restores), &[]);
    assert!(output.success(), "{output:?}");
    let pointer = "/policies/0/inspection/restoreFor".to_owned();
    assert_eq!(findings(&output), [("inspection-ineffective".to_owned(), pointer)]);
}

#[test]
fn impact_reports_a_weaker_inspection() {
    let registry = Registry::start();
    applied(&registry, &inspected("1.0.0", &json!({ "results": { "contact": "block" } })));
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("policy.json");
    let weaker = inspected("1.1.0", &json!({ "results": { "contact": "log" } }));
    fs::write(&path, weaker.to_string()).expect("written");
    let path = path.to_str().expect("UTF-8");
    let view = registry.json(&["impact", "policy/limit@1.0.0", "--change", path]);
    let found = view["findings"].as_array().expect("a list").iter();
    let codes: Vec<_> = found.map(|found| found["code"].clone()).collect();
    assert_eq!(codes, ["policy-relaxed"]);
}

#[test]
fn explain_lists_the_strictest_actions() {
    let registry = Registry::start();
    applied(&registry, &bank());
    applied(&registry, &inspected("1.0.0", &json!({ "results": { "contact": "redact" } })));
    let view = registry.json(&["policy", "explain", "charge", "{}"]);
    let expected = json!([{ "direction": "results", "class": "contact", "action": "redact",
        "policy": "limit@1.0.0", "mode": "enforce" }]);
    assert_eq!(view["inspection"], expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn inspected_values_appear_in_no_log_or_metric() {
    let upstream = McpServer::modern().with_tool_names(&["charge", "balance"]);
    let upstream = upstream
        .start(|received: &Received| match received.rpc_method() {
            "tools/call" if received.body["params"]["name"] == "balance" => {
                received.error(200, &json!({ "code": -32050, "message": MAIL, "data": CARD }))
            }
            "tools/call" => received.result(&json!({
                "resultType": "complete", "content": [{ "type": "text", "text": CARD }],
            })),
            _ => received.unknown_method(),
        })
        .await;
    let mut file = bank();
    let inspection = json!({ "arguments": { "contact": "block" },
        "results": { "contact": "redact", "financial": "redact" } });
    file["policies"] = inspected("1.0.0", &inspection)["policies"].clone();
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("registry.json");
    fs::write(&path, file.to_string()).expect("written");
    let gateway = Gateway::start(&GatewayOptions {
        source: format!("file://{}", path.display()),
        targets: bank_at(&upstream.url()),
        runtime: None,
        more: String::new(),
    });
    gateway.ready().await;
    gateway.upstreams_up(1).await;
    let client = ModernClient::anonymous(&gateway.mcp_url());
    for (tool, arguments) in
        [("charge", json!({})), ("charge", json!({ "to": MAIL })), ("balance", json!({}))]
    {
        let answer = client.call(tool, arguments).await.text;
        assert!(!answer.contains(MAIL) && !answer.contains(CARD), "{answer}");
    }
    let labels =
        ["gateway_inspection_findings_total{", "\"results\"", "\"financial\"", "\"redact\""];
    let is_counted = || async {
        let metrics = gateway.metrics().await;
        metrics.lines().any(|line| labels.iter().all(|label| line.contains(label)))
    };
    eventually("findings are counted", is_counted).await;
    let recorded = || gateway.process.logged(&[" audit: ", "results.financial:redact=1"]).len();
    eventually("findings are audited", || async { recorded() == 2 }).await;
    for value in [MAIL, CARD] {
        assert!(!gateway.metrics().await.contains(value), "{value}");
        assert!(gateway.process.logged(&[value]).is_empty(), "{value}");
    }
}

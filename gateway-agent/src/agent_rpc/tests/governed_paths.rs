//! A call is governed, and its denial has the code and the data of `tools/call`.

use serde_json::json;

use super::harness::{called, executed, start};
use crate::testing::policy;

#[tokio::test]
async fn execute_is_governed() {
    let cedar = "forbid (principal, action, resource);";
    let closed = policy("closed", json!({ "authorization": { "cedar": cedar } }));
    let bench = start([closed]).await;
    let answer = called(&bench, "echo", "{}").await;
    let error = &answer["error"];
    assert_eq!(
        (&error["code"], &error["data"]["reason"]),
        (&json!(-32003), &json!("UNAUTHORIZED")),
        "{answer}"
    );
    assert_eq!(error["data"]["error"]["details"]["policy"], "closed", "{answer}");
    assert!(bench.calls().is_empty());
}

#[tokio::test]
async fn execute_of_orchestrator_is_governed() {
    let cedar = "forbid (principal, action, resource);";
    let closed = policy("closed", json!({ "authorization": { "cedar": cedar } }));
    let bench = start([closed]).await;
    let answer = executed(&bench, r#"{"tool":"helper.echo","params":{}}"#).await;
    assert_eq!(
        (&answer["success"], &answer["code"], &answer["reason"]),
        (&json!(false), &json!("TOOL_EXECUTION_FAILED"), &json!("UNAUTHORIZED")),
        "{answer}"
    );
    assert_eq!(answer["details"]["error"]["details"]["policy"], "closed", "{answer}");
    assert!(bench.calls().is_empty());
}

#[tokio::test]
async fn execute_of_orchestrator_is_inspected() {
    let inspection = json!({ "arguments": { "contact": "block" } });
    let bench = start([policy("inspected", json!({ "inspection": inspection }))]).await;
    let secret = "alice.long@firma.de";
    let call = json!({ "tool": "helper.echo", "params": { "text": secret } });
    let answer = executed(&bench, &call.to_string()).await;
    assert_eq!(
        (&answer["success"], &answer["reason"]),
        (&json!(false), &json!("PII_DETECTED")),
        "{answer}"
    );
    assert!(!answer.to_string().contains(secret), "{answer}");
    assert!(bench.calls().is_empty());
}

#[tokio::test]
async fn input_and_result_are_inspected() {
    for direction in ["arguments", "results"] {
        let rules =
            policy("inspect", json!({ "inspection": { direction: { "contact": "block" } } }));
        let bench = start([rules]).await;
        let answer = called(&bench, "echo", r#"{"n":1,"to":"ann.roe@firma.de"}"#).await;
        let error = &answer["error"];
        assert_eq!(
            (&error["code"], &error["data"]["reason"]),
            (&json!(-32002), &json!("PII_DETECTED")),
            "{answer}"
        );
        assert!(!answer.to_string().contains("ann.roe@firma.de"), "{answer}");
        assert_eq!(bench.calls().is_empty(), direction == "arguments");
    }
}

#[tokio::test]
async fn reasons_tell_budgets_from_timeouts() {
    let budget = json!({ "name": "b", "per": "agent", "limit": "0", "window": "total" });
    let costs = policy("costs", json!({ "price": { "perCall": "1" }, "budgets": [budget] }));
    for (policies, function, reason) in [
        (Vec::new(), "slow", "TIMEOUT"),
        (Vec::new(), "down", "UNREACHABLE"),
        (vec![costs], "echo", "BUDGET_EXCEEDED"),
    ] {
        let bench = start(policies).await;
        let answer = called(&bench, function, "{}").await;
        let error = &answer["error"];
        assert_eq!(
            (&error["code"], &error["data"]["reason"]),
            (&json!(-32001), &json!(reason)),
            "{answer}"
        );
    }
}

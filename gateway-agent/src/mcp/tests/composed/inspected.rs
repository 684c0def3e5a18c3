//! Inspection of compositions and their steps.

use super::*;
use crate::testing::policy;

const MAIL: &str = "jane.doe@acme-bank.org";
const REDACTED: &str = "[redacted:contact]";

fn inspects(tool: &str, inspection: Value) -> Registered {
    policy("inspect", json!({ "appliesTo": { "tools": [tool] }, "inspection": inspection }))
}

fn redacts(tool: &str) -> Registered {
    inspects(tool, json!({ "results": { "contact": "redact" } }))
}

#[tokio::test]
async fn steps_exchange_values_and_result_is_redacted() {
    let steps = [step("first", "echo", json!(null)), step("second", "say", json!(null))];
    let outer = composition("outer", pipeline(&steps));
    let composed = Composed::start(vec![outer, redacts("echo")]).await;
    let input = json!({ "value": { "to": MAIL } });
    assert_eq!(composed.value("outer", input.clone()).await, json!({ "to": REDACTED }));
    assert_eq!(composed.upstream.calls("say"), [input], "the second step gets the value");
}

#[tokio::test]
async fn message_of_a_failed_step_is_redacted() {
    let outer = composition("outer", pipeline(&[step("s", "fail", json!(null))]));
    let composed = Composed::start(vec![outer, redacts("fail")]).await;
    let got = composed.got("outer", json!({ "message": format!("no {MAIL}") })).await;
    assert!(got.text.contains(REDACTED) && !got.text.contains(MAIL), "{got:?}");
}

#[tokio::test]
async fn blocked_argument_of_a_step_fails_the_composition() {
    let outer = composition("outer", pipeline(&[step("s", "echo", json!(null))]));
    let block = inspects("echo", json!({ "arguments": { "contact": "block" } }));
    let composed = Composed::start(vec![outer, block]).await;
    let (step, reason, message) = composed.failure("outer", json!({ "to": MAIL })).await;
    assert_eq!([&*step, &*reason], ["s", "denied"]);
    assert!(!message.contains(MAIL), "{message}");
    assert!(composed.upstream.calls("echo").is_empty());
}

#[tokio::test]
async fn cached_result_is_inspected_for_each_receiver() {
    let spec = json!({ "idempotent": { "inner": { "tool": { "name": "echo" } },
        "keyPaths": ["$.x"], "onDuplicate": "cached" } });
    let composed = Composed::start(vec![composition("outer", spec), redacts("outer")]).await;
    for _ in 0..2 {
        let result = composed.value("outer", json!({ "x": 1, "to": MAIL })).await;
        assert_eq!(result, json!({ "x": 1, "to": REDACTED }));
    }
    assert_eq!(composed.upstream.calls("echo").len(), 1);
}

#[tokio::test]
async fn blocked_result_of_a_composition_is_a_denial() {
    let outer = composition("outer", pipeline(&[step("s", "echo", json!(null))]));
    let block = inspects("echo", json!({ "results": { "contact": "block" } }));
    let composed = Composed::start(vec![outer, block]).await;
    let got = composed.got("outer", json!({ "to": MAIL })).await;
    assert_eq!(got.result()["_meta"]["registry/governance"]["reason"], "PII_DETECTED");
    assert!(!got.text.contains(MAIL), "{got:?}");
}

//! Policies about the steps of compositions.

use super::{saga::*, *};
use crate::testing::policy;

/// A price of 1 and a rate of one call per hour for the composition `outer` itself.
fn own_costs(failures: &str) -> Registered {
    let budget = json!({ "name": "own", "per": "fleet", "limit": "10", "window": "total" });
    let costs = json!({ "appliesTo": { "tools": ["outer"] },
        "price": { "perCall": "1", "failures": failures }, "budgets": [budget],
        "rates": [{ "limit": 1, "window": "PT1H" }] });
    policy("own", costs)
}

/// The spending of the only budget.
fn spent(composed: &Composed) -> Value {
    let view = serde_json::to_value(composed.bench.gateway.spending().view()).unwrap();
    assert_eq!(view["budgets"].as_array().map(Vec::len), Some(1), "{view}");
    view["budgets"][0]["gateway"]["spent"].clone()
}

/// The reason of a denial by a policy, or null.
async fn denial(composed: &Composed, tool: &str) -> Value {
    let result = composed.got(tool, json!({ "x": 1 })).await.result();
    result["_meta"]["registry/governance"]["reason"].clone()
}

fn forbids(tool: &str) -> Registered {
    let members = json!({ "appliesTo": { "tools": [tool] },
        "authorization": { "cedar": "forbid (principal, action, resource);" } });
    policy("forbids", members)
}

#[tokio::test]
async fn policy_denies_step_of_allowed_composition() {
    let outer = || composition("outer", pipeline(&[step("s", "echo", json!(null))]));
    let composed = Composed::start(vec![outer(), forbids("echo")]).await;
    let (step, reason, _) = composed.failure("outer", json!({ "x": 1 })).await;
    assert_eq!([&*step, &*reason], ["s", "denied"]);
    assert!(composed.upstream.calls("echo").is_empty());
    let composed = Composed::start(vec![outer(), forbids("say")]).await;
    assert_eq!(composed.value("outer", json!({ "x": 1 })).await, json!({ "x": 1 }));
}

#[tokio::test]
async fn policy_reads_final_arguments_of_a_step() {
    let cedar = "forbid (principal, action == Action::\"call\", resource) when { \
        context.arguments has x && context.arguments.x > 10 };";
    let members =
        json!({ "appliesTo": { "tools": ["echo"] }, "authorization": { "cedar": cedar } });
    let schema = json!({ "type": "object", "properties": { "x": { "type": "integer" } } });
    let mut echo = tool("echo", "2.0.0", json!({ "inputSchema": schema }));
    echo.document["source"]["serverVersion"] = json!("1.0.0");
    let input = |x: u64| json!({ "constant": { "x": x } });
    let outer = |name: &str, x: u64| {
        let mut outer = composition(name, pipeline(&[step("s", "echo", input(x))]));
        outer.document["depends"][0]["version"] = json!("2.0.0");
        outer
    };
    let composed = Composed::start(vec![
        echo,
        outer("small", 10),
        outer("large", 11),
        policy("limit", members),
    ])
    .await;
    assert_eq!(composed.value("small", json!({})).await, json!({ "x": 10 }));
    assert_eq!(composed.failure("large", json!({})).await.1, "denied");
}

#[tokio::test]
async fn rates_reject_steps_but_no_compensation() {
    let steps =
        [saga_step("a", "echo", undone_by("keep", json!(null))), saga_step("b", "say", json!({}))];
    let rates = json!({ "appliesTo": { "tools": ["keep", "say"] },
        "rates": [{ "limit": 0, "window": "PT1M" }], "limits": { "trace": { "calls": 0 } } });
    let outer = composition("outer", saga(&steps, json!({})));
    let composed = Composed::start(vec![outer, policy("rates", rates)]).await;
    assert_eq!(composed.failure("outer", json!({ "x": 1 })).await.1, "saga-failed");
    assert_eq!(undone(&composed).len(), 1);
    assert!(composed.upstream.calls("say").is_empty());
}

#[tokio::test]
async fn policy_denies_compensation() {
    let steps =
        [saga_step("a", "echo", undone_by("keep", json!(null))), saga_step("b", "fail", json!({}))];
    let outer = composition("outer", saga(&steps, json!({})));
    let composed = Composed::start(vec![outer, forbids("keep")]).await;
    let got = composed.got("outer", json!({ "x": 1 })).await;
    let failure = &got.result()["_meta"]["registry/failure"];
    assert_eq!([&failure["failedStep"], &failure["status"]], ["b", "compensation_failed"]);
    assert!(undone(&composed).is_empty());
}

#[tokio::test]
async fn budget_rejects_steps_but_no_compensation() {
    let steps =
        [saga_step("a", "echo", undone_by("keep", json!(null))), saga_step("b", "say", json!({}))];
    let budget = json!({ "name": "b", "per": "fleet", "limit": "0", "window": "total" });
    let costs = json!({ "appliesTo": { "tools": ["keep", "say"] },
        "price": { "perCall": "1" }, "budgets": [budget] });
    let outer = composition("outer", saga(&steps, json!({})));
    let composed = Composed::start(vec![outer, policy("costs", costs)]).await;
    assert_eq!(composed.failure("outer", json!({ "x": 1 })).await.1, "saga-failed");
    assert_eq!(undone(&composed).len(), 1);
    assert!(composed.upstream.calls("say").is_empty());
    assert_eq!(spent(&composed), "1");
}

#[tokio::test]
async fn compensated_saga_takes_its_price_and_rate() {
    let steps =
        [saga_step("a", "echo", undone_by("keep", json!(null))), saga_step("b", "fail", json!({}))];
    for (failures, charged) in [("charged", "1"), ("free", "0")] {
        let outer = composition("outer", saga(&steps, json!({})));
        let composed = Composed::start(vec![outer, own_costs(failures)]).await;
        assert_eq!(composed.failure("outer", json!({ "x": 1 })).await.1, "saga-failed");
        assert_eq!(undone(&composed).len(), 1);
        assert_eq!(spent(&composed), charged);
        assert_eq!(denial(&composed, "outer").await, "RATE_LIMITED");
    }
}

#[tokio::test]
async fn saga_without_sent_step_is_free() {
    let steps =
        [saga_step("a", "echo", undone_by("keep", json!(null))), saga_step("b", "say", json!({}))];
    let outer = composition("outer", saga(&steps, json!({})));
    let composed = Composed::start(vec![outer, own_costs("charged"), forbids("echo")]).await;
    for _ in 0..2 {
        assert_eq!(composed.failure("outer", json!({ "x": 1 })).await.1, "saga-failed");
    }
    assert_eq!(spent(&composed), "0");
    assert!(undone(&composed).is_empty());
}

#[tokio::test]
async fn composition_that_times_out_takes_its_price() {
    let inner = json!({ "tool": { "name": "wait" } });
    let spec = json!({ "timeout": { "inner": inner, "durationMs": 50 } });
    let composed = Composed::start(vec![composition("outer", spec), own_costs("free")]).await;
    assert_eq!(composed.failure("outer", json!({ "ms": 60_000 })).await.1, "timeout");
    assert_eq!(spent(&composed), "1", "the outcome is unknown");
}

#[tokio::test]
async fn inner_composition_without_sent_step_is_free() {
    let inner = composition("outer", pipeline(&[step("s", "say", json!(null))]));
    let steps = [step("a", "echo", json!(null)), step("b", "outer", json!(null))];
    let around = around("around", "outer", pipeline(&steps));
    let composed = Composed::start(vec![inner, around, own_costs("charged"), forbids("say")]).await;
    assert_eq!(composed.failure("around", json!({ "x": 1 })).await.1, "denied");
    assert_eq!(composed.upstream.calls("echo").len(), 1);
    assert_eq!(spent(&composed), "0");
}

#[tokio::test]
async fn cached_result_of_composition_is_free() {
    let budget = json!({ "name": "b", "per": "fleet", "limit": "2", "window": "total" });
    let costs = json!({ "appliesTo": { "tools": ["outer"] },
        "price": { "perCall": "1" }, "budgets": [budget] });
    let spec = json!({ "idempotent": { "inner": { "tool": { "name": "echo" } },
        "keyPaths": ["$.x"], "onDuplicate": "cached" } });
    let outer = composition("outer", spec);
    let composed = Composed::start(vec![outer, policy("costs", costs)]).await;
    for _ in 0..3 {
        assert_eq!(composed.value("outer", json!({ "x": 1 })).await, json!({ "x": 1 }));
    }
    assert_eq!(spent(&composed), "1");
}

#[tokio::test]
async fn usage_counts_steps_and_their_composition() {
    let outer = composition("outer", pipeline(&[step("s", "echo", json!(null))]));
    let price = policy("price", json!({ "price": { "perCall": "0.015" } }));
    let composed = Composed::start(vec![outer, price]).await;
    composed.value("outer", json!({ "x": 1 })).await;
    let expected = ["(unknown) echo allow 1 0.015", "(unknown) outer allow 1 0.015"];
    assert_eq!(composed.bench.usage(2).await, expected);
}

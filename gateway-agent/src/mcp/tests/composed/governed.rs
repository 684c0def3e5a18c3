//! Policies about the steps of compositions.

use super::{super::audit::Log, saga::*, *};
use crate::testing::{agent, policy};

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

/// A pattern that runs a tool once for each `x`, for all callers.
fn once(tool: &str) -> Value {
    json!({ "idempotent": { "inner": { "tool": { "name": tool } },
        "keyPaths": ["$.x"], "onDuplicate": "cached" } })
}

/// Compositions that store results of `echo`, and two agents that declare them.
fn storing() -> Vec<Registered> {
    let inner = json!({ "tool": { "name": "echo" } });
    let cache = json!({ "cache": { "inner": inner, "keyPaths": ["$.x"], "ttlSeconds": 600 } });
    let deed = saga(&[saga_step("a", "echo", json!({}))], json!({ "sagaIdPath": "$.x" }));
    let names = ["once", "outer", "deed", "cached"];
    let depends = names.map(|name| (name, "1.0.0"));
    vec![
        composition("once", once("echo")),
        around("outer", "once", pipeline(&[step("s", "once", json!(null))])),
        composition("deed", deed),
        composition("cached", cache),
        agent("a", "1.0.0", &depends),
        agent("b", "1.0.0", &depends),
    ]
}

/// Whether a call by an agent succeeds.
async fn succeeds(composed: &Composed, agent: &str, tool: &str, arguments: Value) -> bool {
    let result = composed.bench.call(agent, tool, arguments).await.result();
    let failure = &result["_meta"]["registry/failure"];
    assert_eq!(result["isError"] == true, failure.is_object(), "{result}");
    !failure.is_object()
}

#[tokio::test]
async fn stored_result_is_denied_to_forbidden_caller() {
    let cedar = "forbid (principal == Agent::\"b\", action, resource);";
    let members =
        json!({ "appliesTo": { "tools": ["echo"] }, "authorization": { "cedar": cedar } });
    let entities = storing().into_iter().chain([policy("no-b", members)]).collect();
    let composed = Composed::start(entities).await;
    for (x, tool) in (0..).zip(["once", "outer", "deed"]) {
        let call = async |agent: &str| succeeds(&composed, agent, tool, json!({ "x": x })).await;
        assert!(!call("b").await, "{tool}");
        assert!(call("a").await, "{tool}");
        assert!(!call("b").await, "{tool}: the result of another caller");
        assert!(call("a").await, "{tool}");
    }
    assert_eq!(composed.upstream.calls("echo").len(), 3);
}

#[tokio::test]
async fn stored_result_is_denied_by_new_policy() {
    let composed = Composed::start(storing()).await;
    let tools = ["once", "deed", "cached"];
    for tool in tools {
        assert!(succeeds(&composed, "a", tool, json!({ "x": 1 })).await, "{tool}");
    }
    let stopped = storing().into_iter().chain([forbids("echo")]).collect();
    composed.bench.publish(2, with_tools(stopped));
    for tool in tools {
        assert!(!succeeds(&composed, "a", tool, json!({ "x": 1 })).await, "{tool}");
    }
    composed.bench.publish(3, with_tools(storing()));
    for tool in tools {
        assert!(succeeds(&composed, "a", tool, json!({ "x": 1 })).await, "{tool}");
    }
    assert_eq!(composed.upstream.calls("echo").len(), 3, "each result is kept");
}

#[tokio::test]
async fn stored_result_is_decided_by_its_version() {
    let cedar = "forbid (principal == Agent::\"b\", action, resource);";
    let members =
        json!({ "appliesTo": { "tools": ["echo"] }, "authorization": { "cedar": cedar } });
    let mut newer = composition("once", once("count"));
    newer.document["version"] = json!("2.0.0");
    let composed = Composed::start(vec![
        composition("once", once("echo")),
        newer,
        agent("a", "1.0.0", &[("once", "1.0.0")]),
        agent("b", "1.0.0", &[("once", "2.0.0")]),
        policy("no-b", members),
    ])
    .await;
    assert!(succeeds(&composed, "a", "once", json!({ "x": 1 })).await);
    assert!(!succeeds(&composed, "b", "once", json!({ "x": 1 })).await);
    assert!(succeeds(&composed, "b", "once", json!({ "x": 2 })).await);
}

/// The entities of [`storing`], with a version of `echo` whose arguments have types.
fn storing_typed(policies: impl IntoIterator<Item = Registered>) -> Vec<Registered> {
    let integer = json!({ "type": "integer" });
    let schema = json!({ "type": "object", "properties": { "x": integer, "y": integer } });
    let mut entities = storing();
    for outer in &mut entities {
        let depends = outer.document.get_mut("depends").and_then(Value::as_array_mut);
        for echo in depends.into_iter().flatten().filter(|one| one["name"] == "echo") {
            echo["version"] = json!("2.0.0");
        }
    }
    entities.push(tool("echo", "2.0.0", json!({ "inputSchema": schema })));
    entities.extend(policies);
    entities
}

/// A condition on the arguments of `echo`.
fn limit() -> Registered {
    let cedar = "forbid (principal, action == Action::\"call\", resource) when { \
        context.arguments has y && context.arguments.y > 10 };";
    let members =
        json!({ "appliesTo": { "tools": ["echo"] }, "authorization": { "cedar": cedar } });
    policy("limit", members)
}

#[tokio::test]
async fn undecided_stored_result_is_for_its_caller_only() {
    let composed = Composed::start(storing_typed([limit()])).await;
    let call =
        async |agent: &str| succeeds(&composed, agent, "once", json!({ "x": 1, "y": 10 })).await;
    assert!(call("a").await);
    assert!(call("a").await);
    assert!(!call("b").await);
    assert_eq!(composed.upstream.calls("echo").len(), 1);
}

#[tokio::test]
async fn later_condition_on_arguments_ends_own_results() {
    let composed = Composed::start(storing_typed([])).await;
    let call = async |tool: &str| succeeds(&composed, "a", tool, json!({ "x": 1, "y": 10 })).await;
    for tool in ["once", "deed", "cached"] {
        assert!(call(tool).await, "{tool}");
    }
    composed.bench.publish(2, with_tools(storing_typed([limit().registered_at(2)])));
    for tool in ["once", "deed"] {
        assert!(!call(tool).await, "{tool}: nothing decided about its arguments");
    }
    assert_eq!(composed.upstream.calls("echo").len(), 3);
    for _ in 0..2 {
        assert!(call("cached").await, "the steps run again");
        assert_eq!(composed.upstream.calls("echo").len(), 4);
    }
}

#[tokio::test]
async fn withheld_result_names_its_version() {
    let mut newer = composition("once", once("echo"));
    newer.document["version"] = json!("2.0.0");
    let composed = Composed::start(vec![composition("once", once("echo")), forbids("say")]).await;
    composed.value("once", json!({ "x": 1 })).await;
    // A scope drops retired versions.
    composed.bench.publish(2, with_tools(vec![newer, forbids("say")]));
    let (_, reason, message) = composed.failure("once", json!({ "x": 1 })).await;
    assert_eq!(reason, "denied");
    insta::assert_snapshot!(
        message,
        @"the result of an earlier call of tool/once@1.0.0 with this key is withheld: the gateway cannot check policies, because its catalog lacks tool/once@1.0.0 or a tool that it calls; the earlier call was made and is not repeated; add tool/once@1.0.0 to the scope of the gateway"
    );
    assert_eq!(composed.upstream.calls("echo").len(), 1);
}

#[tokio::test]
async fn event_of_stored_result_has_verdicts() {
    let cedar = "forbid (principal == Agent::\"b\", action, resource);";
    let members =
        json!({ "appliesTo": { "tools": ["echo"] }, "authorization": { "cedar": cedar } });
    let entities = storing().into_iter().chain([policy("no-b", members)]).collect();
    let composed = Composed::start(entities).await;
    let (log, _guard) = Log::start();
    let last = || {
        let event = log.events().pop().unwrap();
        ["tool", "outcome", "stored_policies"].map(|name| event[name].clone())
    };
    for tool in ["once", "deed", "cached"] {
        assert!(succeeds(&composed, "a", tool, json!({ "x": 1 })).await, "{tool}");
        assert_eq!(last(), [json!(tool), json!("ok"), Value::Null]);
        assert!(succeeds(&composed, "a", tool, json!({ "x": 1 })).await, "{tool}");
        assert_eq!(last(), [json!(tool), json!("ok"), json!("no-b@1.0.0:allow")]);
    }
}

#[tokio::test]
async fn compositions_count_as_hops_of_their_steps() {
    let condition = json!({ "authorization": {
        "cedar": "forbid (principal, action, resource) when { context.hops > 1 };" } });
    let limit = json!({ "limits": { "trace": { "hops": 1 } } });
    for members in [condition, limit] {
        let members = extended(members, json!({ "appliesTo": { "tools": ["echo"] } }));
        let inner = composition("outer", pipeline(&[step("s", "echo", json!(null))]));
        let around = around("around", "outer", pipeline(&[step("b", "outer", json!(null))]));
        let composed = Composed::start(vec![inner, around, policy("hops", members)]).await;
        assert_eq!(composed.value("outer", json!({ "x": 1 })).await, json!({ "x": 1 }));
        assert_eq!(composed.failure("around", json!({ "x": 1 })).await.1, "denied");
    }
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
async fn events_of_steps_have_purpose() {
    let steps =
        [saga_step("a", "echo", undone_by("keep", json!(null))), saga_step("b", "fail", json!({}))];
    let composed = Composed::start(vec![composition("outer", saga(&steps, json!({})))]).await;
    let (log, _guard) = Log::start();
    assert_eq!(composed.failure("outer", json!({ "x": 1 })).await.1, "saga-failed");
    let events = log.events();
    let purposes: Vec<_> = events.iter().map(|event| [&event["tool"], &event["purpose"]]).collect();
    let expected =
        json!([["echo", "step"], ["fail", "step"], ["keep", "compensation"], ["outer", null]]);
    assert_eq!(json!(purposes), expected);
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

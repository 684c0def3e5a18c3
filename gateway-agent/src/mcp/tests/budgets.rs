//! Prices and budgets, through the endpoint.

use futures_util::future::join_all;
use gateway_testkit::{McpServer, Received, Reply, empty};
use serde_json::{Value, json};

use super::harness::{Bench, Setup, http};
use crate::{
    pipeline::DenialForm,
    testing::{Registered, agent, policy, server, tool},
};

/// Upstream tools, which are named after their behavior.
const TOOLS: [&str; 6] = ["pay", "fails", "rpc", "slow", "asks", "says"];

fn entities(policies: impl IntoIterator<Item = Registered>) -> Vec<Registered> {
    let mut entities = vec![
        server("up", &TOOLS, &[]),
        agent("a", "1.0.0", &TOOLS.map(|tool| (tool, "1.0.0"))),
        agent("b", "1.0.0", &TOOLS.map(|tool| (tool, "1.0.0"))),
    ];
    entities.extend(TOOLS.map(|name| tool(name, "1.0.0", json!({}))));
    entities.extend(policies);
    entities
}

/// A policy with this price and one budget for each agent.
#[expect(clippy::needless_pass_by_value, reason = "tests write the value in place")]
fn budget(price: Value, limit: &str) -> Registered {
    let budget = json!({ "name": "b", "per": "agent", "limit": limit, "window": "total" });
    policy("costs", json!({ "price": price, "budgets": [budget] }))
}

fn fixed(amount: &str) -> Value {
    json!({ "perCall": amount })
}

async fn bench(policies: impl IntoIterator<Item = Registered>) -> Bench {
    Bench::start(Setup::default(), entities(policies)).await
}

/// The reason of a denial, or null.
async fn denial(bench: &Bench, agent: &str, tool: &str, arguments: Value) -> Value {
    let got = bench.call(agent, tool, arguments).await.json();
    got["result"]["_meta"]["registry/governance"]["reason"].clone()
}

/// The spending of an agent at the gateway.
fn spent(bench: &Bench, agent: &str) -> Value {
    let view = serde_json::to_value(bench.gateway.spending().view()).unwrap();
    let budgets = view["budgets"].as_array().unwrap();
    let own = budgets.iter().find(|budget| budget["subject"] == agent);
    own.map_or(Value::Null, |budget| budget["gateway"]["spent"].clone())
}

const EXCEEDED: &str = "BUDGET_EXCEEDED";

#[tokio::test]
async fn exact_limit_is_spent_and_next_call_denied() {
    let bench = bench([budget(fixed("0.015"), "0.03")]).await;
    for expected in [Value::Null, Value::Null, json!(EXCEEDED)] {
        assert_eq!(denial(&bench, "a", "pay", json!({})).await, expected);
    }
    assert_eq!(bench.calls().len(), 2);
    assert_eq!(spent(&bench, "a"), "0.03");
    assert_eq!(denial(&bench, "b", "pay", json!({})).await, Value::Null, "another agent");
}

#[tokio::test]
async fn zero_limit_allows_no_spending() {
    let bench = bench([budget(fixed("0.000001"), "0")]).await;
    assert_eq!(denial(&bench, "a", "pay", json!({})).await, EXCEEDED);
    assert!(bench.calls().is_empty());
}

#[tokio::test]
async fn free_call_needs_no_budget() {
    let bench = bench([budget(fixed("0"), "0")]).await;
    assert_eq!(denial(&bench, "a", "pay", json!({})).await, Value::Null);
}

#[tokio::test]
async fn concurrent_calls_at_the_limit_admit_one() {
    let bench = bench([budget(fixed("10"), "10")]).await;
    let calls = (0..2).map(|_| denial(&bench, "a", "pay", json!({})));
    let mut reasons = join_all(calls).await;
    reasons.sort_by_key(Value::is_string);
    assert_eq!(reasons, [Value::Null, json!(EXCEEDED)]);
    assert_eq!(bench.calls().len(), 1);
}

#[tokio::test]
async fn chain_of_budgets_is_charged_together() {
    let shared = json!({ "name": "fleet", "per": "fleet", "limit": "0.02", "window": "day" });
    let bench =
        bench([budget(fixed("0.015"), "1"), policy("shared", json!({ "budgets": [shared] }))])
            .await;
    assert_eq!(denial(&bench, "a", "pay", json!({})).await, Value::Null);
    let result = bench.call("b", "pay", json!({})).await.result();
    let found = &result["_meta"]["registry/governance"];
    let details = &found["error"]["details"];
    assert_eq!([&found["reason"], &details["policy"]], [EXCEEDED, "shared"]);
    assert_eq!([&details["scope"], &details["budget"]], ["fleet", "fleet"]);
    assert!(details["resetsAt"].is_string());
    assert_eq!(spent(&bench, "b"), "0", "the other budget is not charged");
}

#[tokio::test]
async fn received_failures_are_free_if_configured() {
    let price = json!({ "perCall": "1", "failures": "free" });
    let bench = bench([budget(price, "1")]).await;
    for _ in 0..3 {
        assert_eq!(denial(&bench, "a", "fails", json!({})).await, Value::Null);
        assert_eq!(denial(&bench, "a", "rpc", json!({ "code": -32000 })).await, Value::Null);
    }
    assert_eq!(spent(&bench, "a"), "0");
    assert_eq!(denial(&bench, "a", "slow", json!({})).await, Value::Null);
    assert_eq!(spent(&bench, "a"), "1", "the outcome of a timeout is unknown");
    assert_eq!(denial(&bench, "a", "pay", json!({})).await, EXCEEDED);
}

#[tokio::test]
async fn received_failures_are_charged_by_default() {
    let bench = bench([budget(fixed("1"), "2")]).await;
    assert_eq!(denial(&bench, "a", "fails", json!({})).await, Value::Null);
    assert_eq!(denial(&bench, "a", "rpc", json!({ "code": -32000 })).await, Value::Null);
    assert_eq!(denial(&bench, "a", "pay", json!({})).await, EXCEEDED);
}

#[tokio::test]
async fn reported_price_replaces_the_maximum() {
    let price = json!({ "reportedBy": "_meta.cost", "maximum": "1" });
    let bench = bench([budget(price, "1.5")]).await;
    let result = json!({ "resultType": "complete", "content": [], "_meta": { "cost": "0.5" } });
    let arguments = json!({ "result": result });
    for expected in [Value::Null, Value::Null, json!(EXCEEDED)] {
        assert_eq!(denial(&bench, "a", "says", arguments.clone()).await, expected);
    }
    assert_eq!(spent(&bench, "a"), "1");
}

#[tokio::test]
async fn question_is_free_and_its_answer_pays() {
    let bench = bench([budget(fixed("1"), "1")]).await;
    for _ in 0..2 {
        let params = json!({ "name": "asks", "arguments": {} });
        let asked = bench.modern("a", "tools/call", params).await.result();
        assert_eq!(asked["resultType"], "input_required");
    }
    assert_eq!(spent(&bench, "a"), "0");
    assert_eq!(denial(&bench, "a", "pay", json!({})).await, Value::Null);
    assert_eq!(denial(&bench, "a", "asks", json!({})).await, EXCEEDED);
}

#[tokio::test]
async fn call_that_was_not_sent_is_free() {
    // HTTP 429: the upstream did not take the request.
    let busy = |received: &Received| match received.rpc_method() {
        "tools/call" => empty(429),
        _ => received.unknown_method(),
    };
    let upstream = McpServer::modern().with_tool_names(&TOOLS).start(busy).await;
    let setup = Setup { transport: Some(http(&upstream)), ..Setup::default() };
    let bench = Bench::start(setup, entities([budget(fixed("1"), "1")])).await;
    for _ in 0..2 {
        assert_eq!(denial(&bench, "a", "pay", json!({})).await, Value::Null);
    }
    assert_eq!(spent(&bench, "a"), "0");
}

#[tokio::test]
async fn lost_call_is_sent_again_only_with_rights() {
    let price = || fixed("1");
    let unlimited = policy("costs", json!({ "price": price() }));
    for (costs, sent) in [(unlimited, 2), (budget(price(), "1"), 1)] {
        let lost = |received: &Received| match received.rpc_method() {
            "tools/call" => Reply::Close(Vec::new()),
            _ => received.unknown_method(),
        };
        let upstream = McpServer::modern().with_tool_names(&TOOLS).start(lost).await;
        let setup = Setup { transport: Some(http(&upstream)), ..Setup::default() };
        let mut entities = entities([costs]);
        entities.retain(|entity| entity.document["name"] != "pay");
        entities.push(tool("pay", "1.0.0", json!({ "annotations": { "idempotentHint": true } })));
        let bench = Bench::start(setup, entities).await;
        assert_eq!(denial(&bench, "a", "pay", json!({})).await, Value::Null);
        assert_eq!(upstream.seen("tools/call").len(), sent);
    }
}

#[tokio::test]
async fn unpriced_call_is_denied_if_configured() {
    let budget = |unpriced: &str| {
        let budget = json!({ "name": "b", "per": "fleet", "limit": "1", "window": "total",
            "unpriced": unpriced });
        policy("costs", json!({ "budgets": [budget] }))
    };
    let denying = bench([budget("deny")]).await;
    let result = denying.call("a", "pay", json!({})).await.result();
    let found = &result["_meta"]["registry/governance"];
    assert_eq!(found["reason"], EXCEEDED);
    assert_eq!(found["error"]["details"]["isUnpriced"], true);
    assert!(denying.calls().is_empty());
    let allowing = bench([budget("allow")]).await;
    assert_eq!(denial(&allowing, "a", "pay", json!({})).await, Value::Null);
}

#[tokio::test]
async fn budget_in_audit_mode_counts_and_rejects_nothing() {
    let mut audited = budget(fixed("1"), "1");
    audited.document["mode"] = json!("audit");
    let bench = bench([audited]).await;
    for _ in 0..3 {
        assert_eq!(denial(&bench, "a", "pay", json!({})).await, Value::Null);
    }
    assert_eq!(spent(&bench, "a"), "3");
}

#[tokio::test]
async fn pre_release_charges_no_budget_of_its_release() {
    let priced = || budget(fixed("1"), "5").document;
    let unpriced = json!({ "budgets": priced()["budgets"] });
    let more = |members: Value| {
        let mut release = priced();
        release.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        release
    };
    for (release, expected) in [
        (more(json!({ "mode": "enforce" })), json!("1")),
        (more(json!({ "mode": "audit" })), json!("1")),
        (more(json!({ "appliesTo": { "tools": ["fails"] } })), Value::Null),
        (unpriced, Value::Null),
    ] {
        let candidate = more(json!({ "version": "1.1.0-rc.1", "price": fixed("3") }));
        let bench = bench([policy("costs", release.clone()), policy("costs", candidate)]).await;
        assert_eq!(denial(&bench, "a", "pay", json!({})).await, Value::Null);
        assert_eq!(spent(&bench, "a"), expected, "{release}");
    }
}

#[tokio::test]
async fn release_starts_with_nothing_of_its_pre_release() {
    let versioned = |version: &str| {
        let mut costs = budget(fixed("1"), "1");
        costs.document["version"] = json!(version);
        costs.document["rates"] = json!([{ "limit": 1, "window": "PT1H" }]);
        costs
    };
    let bench = bench([versioned("1.0.0-rc.1")]).await;
    for _ in 0..2 {
        assert_eq!(denial(&bench, "a", "pay", json!({})).await, Value::Null, "observed");
    }
    bench.publish(2, entities([versioned("1.0.0-rc.1"), versioned("1.0.0")]));
    assert_eq!(denial(&bench, "a", "pay", json!({})).await, Value::Null);
    let view = serde_json::to_value(bench.gateway.spending().view()).unwrap();
    let spent_of = |name: &str| {
        let budgets = view["budgets"].as_array().unwrap();
        let budget = budgets.iter().find(|budget| budget["budget"] == name);
        budget.map(|budget| budget["gateway"]["spent"].clone())
    };
    assert_eq!([spent_of("b@1.0.0-rc.1"), spent_of("b")], [Some(json!("2")), Some(json!("1"))]);
    assert!(denial(&bench, "a", "pay", json!({})).await.is_string(), "the limits are used up");
}

#[tokio::test]
async fn cost_of_a_trace_is_limited() {
    let limits = json!({ "price": { "perCall": "1" }, "limits": { "trace": { "cost": "2" } } });
    let bench = bench([policy("loops", limits)]).await;
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let call = async |tool: &str, meta: Value| {
        let params = json!({ "name": tool, "arguments": {}, "_meta": meta });
        let result = bench.modern("a", "tools/call", params).await.result();
        result["_meta"]["registry/governance"]["error"]["details"]["scope"].clone()
    };
    let traced = || json!({ "traceparent": trace });
    assert_eq!(call("pay", traced()).await, Value::Null);
    assert_eq!(call("asks", traced()).await, Value::Null, "free");
    assert_eq!(call("pay", traced()).await, Value::Null);
    assert_eq!(call("pay", traced()).await, "trace");
    assert_eq!(call("pay", json!({})).await, Value::Null);
}

#[tokio::test]
async fn denial_has_exact_and_rounded_amounts() {
    for (form, limit) in [(DenialForm::Result, "0.025"), (DenialForm::Error, "0.03")] {
        let setup = Setup { denials: form, ..Setup::default() };
        let bench = Bench::start(setup, entities([budget(fixed("0.015"), "0.025")])).await;
        bench.call("a", "pay", json!({})).await.result();
        let session = bench.initialize("a").await;
        let params = json!({ "name": "pay", "arguments": {} });
        let modern = bench.modern("a", "tools/call", params.clone()).await;
        let legacy = bench.legacy(&session, "a", ("tools/call", params)).await;
        for (got, code) in [(modern, 4290), (legacy, -32001)] {
            let body = got.json();
            let data = if form == DenialForm::Error {
                assert_eq!(body["error"]["code"], code);
                assert_eq!(body["error"]["message"], "Budget limit exceeded");
                &body["error"]["data"]
            } else {
                &body["result"]["_meta"]["registry/governance"]
            };
            assert_eq!([&data["code"], &data["reason"]], [&json!(code), &json!(EXCEEDED)]);
            let details = &data["error"]["details"];
            assert_eq!([&details["scope"], &details["limit"]], ["agent", limit]);
            let exact = if form == DenialForm::Error { &details["exact"] } else { details };
            for (name, amount) in
                [("limit", "0.025"), ("spent", "0.015"), ("requested", "0.015"), ("inDoubt", "0")]
            {
                assert_eq!(exact[name], amount, "{name}");
            }
        }
    }
}

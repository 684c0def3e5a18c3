//! Policies, through the endpoint.

use std::sync::Arc;

use registry_core::{scope::Scope, scoped_catalog::ScopedCatalog};
use serde_json::{Value, json};

use super::harness::{Bench, Setup};
use crate::{
    pipeline::DenialForm,
    testing::{Registered, agent, catalog, policy, server, tool},
};

fn entities(policies: impl IntoIterator<Item = Registered>) -> Vec<Registered> {
    let schema = json!({ "type": "object", "properties": { "amount": { "type": "number" } } });
    let mut entities = vec![
        server("up", &["pay", "read", "alias"], &[]),
        tool("pay", "1.0.0", json!({ "inputSchema": schema })),
        tool("alias", "1.0.0", json!({ "inputSchema": schema, "source": { "tool": "pay" } })),
        tool("read", "1.0.0", json!({ "annotations": { "readOnlyHint": true } })),
        agent("team/a", "1.0.0", &[("pay", "1.0.0"), ("read", "1.0.0"), ("alias", "1.0.0")]),
        agent("b", "1.0.0", &[("pay", "1.0.0"), ("read", "1.0.0")]),
    ];
    entities.extend(policies);
    entities
}

async fn bench(policies: impl IntoIterator<Item = Registered>) -> Bench {
    Bench::start(Setup::default(), entities(policies)).await
}

/// The reason of a denial, or null for a result.
async fn denial(bench: &Bench, agent: &str, tool: &str, arguments: Value) -> Value {
    let result = bench.call(agent, tool, arguments).await.result();
    let found = &result["_meta"]["registry/governance"];
    assert_eq!(result["isError"] == true, found.is_object(), "{result}");
    found["reason"].clone()
}

async fn listed(bench: &Bench, agent: &str) -> Vec<String> {
    let list = bench.modern(agent, "tools/list", json!({})).await.result();
    let tools = list["tools"].as_array().unwrap().iter();
    tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

fn conditions(cedar: &str) -> Value {
    json!({ "authorization": { "cedar": cedar } })
}

const LARGE: &str = "forbid (principal, action == Action::\"call\", resource) when { \
    context.arguments has amount && context.arguments.amount.greaterThan(decimal(\"1000.0\")) };";

#[tokio::test]
async fn forbidden_argument_is_denied_and_not_sent() {
    let mut large = conditions(LARGE);
    large["appliesTo"] = json!({ "tools": ["pay"] });
    let bench = bench([policy("large", large)]).await;
    assert_eq!(denial(&bench, "b", "pay", json!({ "amount": 1000 })).await, Value::Null);
    assert_eq!(denial(&bench, "b", "pay", json!({ "amount": 1000.5 })).await, "UNAUTHORIZED");
    assert_eq!(denial(&bench, "b", "pay", json!({})).await, Value::Null);
    assert_eq!(bench.calls().len(), 2);
    assert_eq!(listed(&bench, "b").await, ["pay", "read"]);
}

#[tokio::test]
async fn alias_of_selected_tool_is_denied() {
    let mut large = conditions(LARGE);
    large["appliesTo"] = json!({ "tools": ["pay"] });
    let bench = bench([policy("large", large)]).await;
    assert_eq!(denial(&bench, "team/a", "alias", json!({ "amount": 2000 })).await, "UNAUTHORIZED");
}

#[tokio::test]
async fn mismatched_argument_is_denied_as_policy_error() {
    let mut large = conditions(LARGE);
    large["appliesTo"] = json!({ "tools": ["pay"] });
    let bench = bench([policy("large", large)]).await;
    let tiny = json!({ "amount": 0.000_001 });
    assert_eq!(denial(&bench, "b", "pay", tiny).await, "POLICY_ERROR");
    let violation = bench.call("b", "pay", json!({ "amount": "2000" })).await.result();
    assert_eq!(violation["isError"], true);
    let twice = r#"{"amount":1,"amount":2000}"#;
    let ask = super::harness::Ask::modern("tools/call", json!({ "name": "pay", "arguments": {} }));
    let body =
        ask.body.to_string().replace(r#""arguments":{}"#, &format!(r#""arguments":{twice}"#));
    assert_eq!(bench.got(ask.by("b").build_with(body)).await.error(), (200, -32602));
    assert!(bench.calls().is_empty());
}

#[tokio::test]
async fn mismatched_policy_denies_calls() {
    let cedar = "forbid (principal, action == Action::\"call\", resource) when { \
        context.arguments has amount && context.arguments.amount == \"all\" };";
    let mut other = conditions(cedar);
    other["appliesTo"] = json!({ "tools": ["pay"] });
    let bench = bench([policy("other", other)]).await;
    for arguments in [json!({}), json!({ "amount": 1 })] {
        assert_eq!(denial(&bench, "b", "pay", arguments).await, "POLICY_ERROR");
    }
    assert_eq!(denial(&bench, "b", "read", json!({})).await, Value::Null);
    assert_eq!(listed(&bench, "b").await, ["pay", "read"]);
}

#[tokio::test]
async fn name_based_forbid_hides_tool_from_lists() {
    let forbid = "forbid (principal == Agent::\"b\", action, resource);";
    let mut hidden = conditions(forbid);
    hidden["appliesTo"] = json!({ "tools": ["pay"] });
    let bench = bench([policy("hidden", hidden)]).await;
    assert_eq!(listed(&bench, "b").await, ["read"]);
    assert_eq!(denial(&bench, "b", "pay", json!({})).await, "UNAUTHORIZED");
    assert_eq!(listed(&bench, "team/a").await, ["pay", "read", "alias"]);
    assert_eq!(denial(&bench, "team/a", "pay", json!({})).await, Value::Null);
}

#[tokio::test]
async fn hidden_tool_does_not_exist_for_unregistered_callers() {
    let bench = bench([policy("all", conditions("forbid (principal, action, resource);"))]).await;
    assert_eq!(listed(&bench, "stranger").await, Vec::<String>::new());
    assert_eq!(bench.call("stranger", "pay", json!({})).await.error(), (200, -32602));
}

#[tokio::test]
async fn scope_without_all_versions_serves_no_name() {
    let forbid = conditions("forbid (principal, action, resource in Tag::\"blocked\");");
    let newer = tool("pay", "2.0.0", json!({ "metadata": { "tags": ["blocked"] } }));
    let complete = catalog(2, entities([policy("blocked", forbid), newer]));
    let bench = bench([]).await;
    let scope = Scope::from_roots(&["agent/b@*", "tool/read@*"]).unwrap();
    let scoped = ScopedCatalog::select(Arc::new(scope), &complete);
    bench.publish.send_replace(Arc::new(scoped.catalog().clone()));
    assert_eq!(listed(&bench, "").await, ["read"]);
    assert_eq!(bench.call("", "pay", json!({})).await.error(), (200, -32602));
    assert_eq!(denial(&bench, "", "read", json!({})).await, Value::Null);
    assert_eq!(denial(&bench, "b", "pay", json!({})).await, Value::Null, "its version is exact");
}

#[tokio::test]
async fn default_deny_needs_a_permit() {
    let mut permits = conditions(
        "permit (principal in Team::\"test\", action, resource) when { \
        principal.name == \"b\" };",
    );
    permits["default"] = json!("deny");
    permits["appliesTo"] = json!({ "callers": ["b", "team/*"], "tools": ["pay"] });
    let bench = bench([policy("permits", permits)]).await;
    assert_eq!(denial(&bench, "b", "pay", json!({})).await, Value::Null);
    assert_eq!(denial(&bench, "team/a", "pay", json!({})).await, "UNAUTHORIZED");
    assert_eq!(denial(&bench, "team/a", "read", json!({})).await, Value::Null);
    assert_eq!(denial(&bench, "stranger", "pay", json!({})).await, Value::Null);
}

#[tokio::test]
async fn audit_mode_rejects_nothing() {
    let forbid = json!({ "mode": "audit",
        "authorization": { "cedar": "forbid (principal, action, resource);" },
        "rates": [{ "limit": 0, "window": "PT1M" }], "limits": { "trace": { "calls": 0 } } });
    let bench = bench([policy("audit", forbid)]).await;
    assert_eq!(listed(&bench, "b").await, ["pay", "read"]);
    assert_eq!(denial(&bench, "b", "pay", json!({})).await, Value::Null);
}

#[tokio::test]
async fn rate_is_shared_by_its_keys() {
    let rates = json!({ "rates": [{ "per": ["agent", "tool"], "limit": 1, "window": "PT1H" }] });
    let bench = bench([policy("rates", rates)]).await;
    let limited = "RATE_LIMITED";
    assert_eq!(denial(&bench, "b", "pay", json!({})).await, Value::Null);
    assert_eq!(denial(&bench, "b", "pay", json!({})).await, limited);
    assert_eq!(denial(&bench, "b", "read", json!({})).await, Value::Null);
    assert_eq!(denial(&bench, "team/a", "pay", json!({})).await, Value::Null);
    let result = bench.call("b", "pay", json!({})).await.result();
    let details = &result["_meta"]["registry/governance"]["error"]["details"];
    let wait = details["retryAfterMs"].as_u64().unwrap();
    assert!((3_500_000..=3_600_000).contains(&wait), "{wait}");
}

#[tokio::test]
async fn rate_per_tool_includes_its_aliases() {
    let rates = json!({ "rates": [{ "per": ["tool"], "limit": 1, "window": "PT1H" }] });
    let bench = bench([policy("rates", rates)]).await;
    assert_eq!(denial(&bench, "team/a", "alias", json!({})).await, Value::Null);
    assert_eq!(denial(&bench, "team/a", "pay", json!({})).await, "RATE_LIMITED");
    assert_eq!(denial(&bench, "team/a", "read", json!({})).await, Value::Null);
}

#[tokio::test]
async fn trace_limit_counts_calls_and_hops() {
    let limits = json!({ "limits": { "trace": { "calls": 2, "hops": 3 } } });
    let bench = bench([policy("loops", limits)]).await;
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let call = async |meta: Value| {
        let params = json!({ "name": "pay", "arguments": {}, "_meta": meta });
        let result = bench.modern("b", "tools/call", params).await.result();
        result["_meta"]["registry/governance"]["error"]["details"]["scope"].clone()
    };
    assert_eq!(call(json!({ "traceparent": trace })).await, Value::Null);
    assert_eq!(call(json!({ "traceparent": trace })).await, Value::Null);
    assert_eq!(call(json!({ "traceparent": trace })).await, "trace calls");
    assert_eq!(call(json!({})).await, Value::Null);
    assert_eq!(call(json!({ "registry/hops": 3 })).await, Value::Null);
    assert_eq!(call(json!({ "registry/hops": 4 })).await, "trace hops");
    let hops = |call: usize| bench.calls()[call].body["params"]["_meta"]["registry/hops"].clone();
    assert_eq!([hops(0), hops(3)], [1, 4]);
}

#[tokio::test]
async fn condition_on_hops_counts_all_calls() {
    let cedar = "forbid (principal, action, resource) when { context.hops > 3 };";
    let mut loops = conditions(cedar);
    loops["appliesTo"] = json!({ "tools": ["read"] });
    let bench = bench([policy("loops", loops)]).await;
    assert_eq!(denial(&bench, "b", "pay", json!({})).await, Value::Null);
    assert_eq!(bench.calls()[0].body["params"]["_meta"]["registry/hops"], 1);
}

#[tokio::test]
async fn malformed_hops_are_rejected() {
    let bench = bench([]).await;
    for hops in
        [json!(-1), json!(1.5), json!(4_294_967_296_u64), json!("4"), json!([]), json!(null)]
    {
        let meta = json!({ "registry/hops": hops });
        let params = json!({ "name": "pay", "arguments": {}, "_meta": meta });
        let error = bench.modern("b", "tools/call", params).await.error();
        assert_eq!(error.1, -32602, "{hops}");
    }
    assert!(bench.calls().is_empty());
}

/// The table of responses in `docs/governance.md`.
#[tokio::test]
async fn denials_have_the_codes_of_their_era() {
    let forbid = conditions("forbid (principal, action, resource == Tool::\"pay\");");
    let rates = json!({ "appliesTo": { "tools": ["read"] },
        "rates": [{ "limit": 0, "window": "PT1M" }] });
    for (form, is_error) in [(DenialForm::Result, false), (DenialForm::Error, true)] {
        let setup = Setup { denials: form, ..Setup::default() };
        let policies = [policy("forbid", forbid.clone()), policy("rates", rates.clone())];
        let bench = Bench::start(setup, entities(policies)).await;
        let session = bench.initialize("b").await;
        for (tool, reason, message, codes) in [
            ("pay", "UNAUTHORIZED", "Tool not authorized", [4030, -32003]),
            ("read", "RATE_LIMITED", "Rate limit exceeded", [4291, -32004]),
        ] {
            let params = json!({ "name": tool, "arguments": {} });
            let modern = bench.modern("b", "tools/call", params.clone()).await;
            let legacy = bench.legacy(&session, "b", ("tools/call", params)).await;
            for (got, code) in [modern, legacy].into_iter().zip(codes) {
                assert_eq!(got.status, 200);
                let body = got.json();
                let data = if is_error {
                    assert_eq!(body["error"]["code"], code);
                    assert_eq!(body["error"]["message"], message);
                    &body["error"]["data"]
                } else {
                    assert_eq!(body["result"]["isError"], true);
                    assert!(body["result"].get("structuredContent").is_none());
                    &body["result"]["_meta"]["registry/governance"]
                };
                assert_eq!([&data["code"], &data["reason"]], [&json!(code), &json!(reason)]);
                assert_eq!(data["error"]["code"], reason);
                assert_eq!(data["error"]["message"], message);
                let details = &data["error"]["details"];
                for (id, prefix) in
                    [("agentId", "agent_"), ("toolId", "tool_"), ("invocationId", "inv_")]
                {
                    let id = details[id].as_str().unwrap();
                    let uuid = id.strip_prefix(prefix).unwrap();
                    assert!(uuid::Uuid::parse_str(uuid).is_ok(), "{id}");
                }
            }
        }
    }
}

#[tokio::test]
async fn retired_policy_is_off_and_older_version_stays_off() {
    let forbid = || policy("p", conditions("forbid (principal, action, resource);"));
    let mut newer = forbid();
    newer.document["version"] = json!("2.0.0");
    newer.document["authorization"]["cedar"] =
        json!("forbid (principal, action, resource == Tool::\"read\");");
    let bench = bench([forbid(), newer]).await;
    assert_eq!(listed(&bench, "b").await, ["pay"]);
    let mut newer = forbid();
    newer.document["version"] = json!("2.0.0");
    bench.publish(2, entities([forbid(), newer.retired()]));
    assert_eq!(listed(&bench, "b").await, ["pay", "read"]);
    let mut candidate = forbid();
    candidate.document["version"] = json!("2.0.0-rc.1");
    bench.publish(3, entities([candidate]));
    assert_eq!(listed(&bench, "b").await, ["pay", "read"]);
}

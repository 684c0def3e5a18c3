//! Execution graphs and ids of traces.

use gateway_protocol::trace_context::Parent;
use http::StatusCode;
use registry_core::Kind;
use serde_json::{Value, json};

use super::harness::AioBench;
use crate::{
    mcp::tests::{audit::Log, harness::Setup},
    testing::{Registered, agent, policy, registered},
};

const CALL: &str = "math_agent::tools.call";

fn area(args: &Value) -> Value {
    json!({ "tool": "calculate_area", "args": args })
}

/// Each call costs 0.02.
fn priced() -> Registered {
    policy("priced", json!({ "price": { "perCall": "0.02" } }))
}

#[tokio::test]
async fn graph_has_each_call_with_status_and_digests() {
    let bench = AioBench::start([]).await;
    bench.called("t/1", 1, CALL, area(&json!({ "x": 1 }))).await;
    bench.called("t/1", 2, CALL, json!({ "tool": "fails" })).await;
    bench.called("t/1", 3, "writer::draft", json!({ "text": "tea" })).await;
    let (status, graph) = bench.graph("a", "t/1").await;
    assert_eq!(status, StatusCode::OK, "{graph}");
    let calls = graph["calls"].as_array().unwrap();
    let facts: Vec<_> = calls
        .iter()
        .map(|call| {
            ["id", "agent", "method", "protocol", "type", "status"]
                .map(|name| call[name].to_string())
        })
        .collect();
    let call = |id: &str, agent: &str, method: &str, kind: &str, status: &str| {
        let texts = [agent, method, "aio", kind, status].map(|text| json!(text).to_string());
        let [agent, method, protocol, kind, status] = texts;
        [id.to_owned(), agent, method, protocol, kind, status]
    };
    assert_eq!(
        facts,
        [
            call("1", "math_agent", "tools.call", "mcp", "ok"),
            call("2", "math_agent", "tools.call", "mcp", "error"),
            call("3", "writer", "draft", "http", "ok"),
        ]
    );
    for call in calls {
        for name in ["input", "output"] {
            assert!(call[name]["bytes"].is_u64() && call[name]["digest"].is_string(), "{call}");
        }
        assert!(call["duration_ms"].is_u64() && call["started"].is_string(), "{call}");
    }
}

/// Members of each call of a graph.
fn members(graph: &Value, names: &[&str]) -> Vec<Vec<Value>> {
    let calls = graph["calls"].as_array().unwrap().iter();
    calls.map(|call| names.iter().map(|name| call[name].clone()).collect()).collect()
}

#[tokio::test]
async fn graph_has_the_steps_of_compositions() {
    let bench = AioBench::start([priced()]).await;
    let call = json!({ "tool": "twice", "args": { "x": 1 } });
    let answer = bench.called("t", 7, "gateway::tools.call", call).await;
    assert_eq!(answer["result"]["structuredContent"], json!({ "x": 1 }), "{answer}");
    let (_, graph) = bench.graph("a", "t").await;
    let facts =
        members(&graph, &["id", "parent", "agent", "method", "protocol", "type", "status", "cost"]);
    let step =
        json!([null, 7, "up", "math_agent.calculate_area", "composition", "mcp", "ok", "0.02"]);
    let facts: Vec<_> = facts.into_iter().map(Value::from).collect();
    assert_eq!(
        facts[0].as_array().unwrap()[..4],
        [json!(7), json!(null), json!("gateway"), json!("tools.call")]
    );
    assert_eq!(facts[1..], [step.clone(), step]);
    assert!(graph["calls"][1]["output"]["digest"].is_string(), "{graph}");
}

#[tokio::test]
async fn step_with_a_skill_has_type_of_agents() {
    let skill = json!({ "type": "agent", "name": "writer", "version": "1.0.0", "skill": "draft" });
    let step =
        json!({ "id": "draft", "operation": { "agent": { "name": "writer", "skill": "draft" } } });
    let drafted = json!({ "name": "drafted", "version": "1.0.0", "depends": [skill.clone()],
        "spec": { "pipeline": { "steps": [step] } } });
    let mut caller = agent("c", "1.0.0", &[("drafted", "1.0.0")]);
    let depends = &mut caller.document["capabilities"]["extensions"][0]["params"]["depends"];
    depends.as_array_mut().unwrap().push(skill);
    let bench = AioBench::start([registered(Kind::Tool, drafted), caller]).await;
    let call = json!({ "id": 7, "trace_id": "t", "method": "gateway::tools.call",
        "params": { "tool": "drafted", "args": { "text": "tea" } } });
    bench.sent_by("c", &call.to_string()).await;
    let (_, graph) = bench.graph("c", "t").await;
    let facts = members(&graph, &["agent", "method", "type"]);
    assert_eq!(facts[1], ["writer", "draft", "http"].map(Value::from), "{graph}");
}

#[tokio::test]
async fn executed_function_is_in_graph_of_named_trace() {
    let bench = AioBench::start([]).await;
    let params = |function: &str| {
        json!({ "agent_id": "math_agent", "function": function, "input": {},
        "meta": { "task_id": "task_001" } })
    };
    let execute = |id: u32, function: &str| {
        json!({ "id": id, "trace_id": "t",
        "method": "agent.execute", "params": params(function) })
    };
    let answer = bench.sent(&execute(1, "calculate_area").to_string()).await;
    assert_eq!((&answer["trace_id"], &answer["result"]), (&json!("t"), &json!({})), "{answer}");
    bench.sent(&execute(2, "fails").to_string()).await;
    let again = bench.sent(&execute(2, "calculate_area").to_string()).await;
    assert_eq!(again["error"]["data"]["reason"], "ID_IN_USE", "{again}");
    let unnamed = json!({ "method": "agent.execute", "params": params("calculate_area") });
    let answer = bench.sent(&unnamed.to_string()).await;
    assert!(answer.get("trace_id").is_none(), "{answer}");
    let (_, graph) = bench.graph("a", "t").await;
    let facts = members(&graph, &["id", "agent", "method", "protocol", "type", "status"]);
    let call = |id: u32, function: &str, status: &str| {
        let [agent, protocol, kind] = ["math_agent", "agent.execute", "mcp"].map(Value::from);
        vec![json!(id), agent, json!(function), protocol, kind, json!(status)]
    };
    assert_eq!(facts, [call(1, "calculate_area", "ok"), call(2, "fails", "error")]);
    let sent = bench.mcp.seen("tools/call");
    assert_eq!(sent[0].body["params"]["_meta"]["trace_id"], "t");
}

#[tokio::test]
async fn graph_has_no_types_of_unknown_agents() {
    let bench = AioBench::start([]).await;
    // The caller may use nothing of `stranger`, which is registered.
    for (id, agent) in [(1, "stranger"), (3, "absent")] {
        bench.called("t", id, &format!("{agent}::tools.list"), json!({})).await;
        let params = json!({ "agent_id": agent, "function": "f", "input": {},
            "meta": { "task_id": "task_001" } });
        let execute = json!({ "id": id + 1, "trace_id": "t",
            "method": "agent.execute", "params": params });
        bench.sent(&execute.to_string()).await;
    }
    let (_, graph) = bench.graph("a", "t").await;
    assert_eq!(members(&graph, &["type"]), vec![[Value::Null]; 4], "{graph}");
}

#[tokio::test]
async fn graph_belongs_to_its_principal() {
    let bench = AioBench::start([]).await;
    bench.called("t", 1, CALL, area(&json!({}))).await;
    for caller in ["b", ""] {
        let (status, answer) = bench.graph(caller, "t").await;
        assert_eq!(status, StatusCode::NOT_FOUND, "{caller}");
        assert_eq!(answer["error"]["data"]["reason"], "TRACE_NOT_FOUND");
    }
    let (status, _) = bench.graph("a", "u").await;
    assert_eq!(status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn calls_have_their_cost() {
    let bench = AioBench::start([priced()]).await;
    bench.called("t", 1, CALL, area(&json!({}))).await;
    bench.called("t", 2, "math_agent::tools.list", json!({})).await;
    let (_, graph) = bench.graph("a", "t").await;
    assert_eq!(graph["calls"][0]["cost"], "0.02", "{graph}");
    assert!(graph["calls"][1].get("cost").is_none(), "{graph}");
}

#[tokio::test]
async fn values_need_the_operators_consent() {
    let setup = Setup { trace_values: true, ..Setup::default() };
    let bench = AioBench::start_with(setup, []).await;
    bench.called("t", 1, CALL, area(&json!({ "x": 1 }))).await;
    let (_, graph) = bench.graph("a", "t").await;
    assert_eq!(graph["calls"][0]["input"], area(&json!({ "x": 1 })));
    assert_eq!(graph["calls"][0]["output"]["structuredContent"], json!({ "x": 1 }));
}

#[tokio::test]
async fn inspected_gateway_stores_digests_only() {
    let setup = Setup { trace_values: true, ..Setup::default() };
    let inspected =
        policy("inspected", json!({ "inspection": { "arguments": { "contact": "block" } } }));
    let bench = AioBench::start_with(setup, [inspected]).await;
    bench.called("t", 1, CALL, area(&json!({ "x": 1 }))).await;
    let (_, graph) = bench.graph("a", "t").await;
    assert!(graph["calls"][0]["input"]["digest"].is_string(), "{graph}");
}

#[tokio::test]
async fn absent_trace_id_is_generated() {
    let bench = AioBench::start([]).await;
    let body = json!({ "id": 1, "method": CALL, "params": area(&json!({})) }).to_string();
    let [first, second] = [bench.sent(&body).await, bench.sent(&body).await];
    assert_ne!(first["trace_id"], second["trace_id"]);
    let (status, graph) = bench.graph("a", first["trace_id"].as_str().unwrap()).await;
    assert_eq!((status, graph["calls"].as_array().unwrap().len()), (StatusCode::OK, 1));
}

#[tokio::test]
async fn named_trace_has_one_w3c_trace_per_principal() {
    let bench = AioBench::start([]).await;
    for id in [1, 2] {
        bench.called("t", id, CALL, area(&json!({}))).await;
    }
    let body = json!({ "id": 1, "trace_id": "t", "method": CALL, "params": area(&json!({})) });
    bench.sent_by("b", &body.to_string()).await;
    let sent = bench.mcp.seen("tools/call");
    let traces: Vec<_> = sent
        .iter()
        .map(|seen| {
            let meta = &seen.body["params"]["_meta"];
            assert_eq!(meta["trace_id"], "t", "{meta}");
            Parent::parse(meta["traceparent"].as_str().unwrap()).unwrap().trace
        })
        .collect();
    assert_eq!(traces[0], traces[1]);
    assert_ne!(traces[0], traces[2]);
}

#[tokio::test]
async fn message_has_the_callers_trace_id() {
    let bench = AioBench::start([]).await;
    bench.called("t", 1, "writer::draft", json!({ "text": "tea" })).await;
    bench.result("writer::draft", json!({ "text": "tea" })).await;
    let sent = bench.writer.seen("SendMessage");
    assert_eq!(sent[0].body["params"]["metadata"]["trace_id"], "t");
    assert!(sent[1].body["params"]["metadata"].get("trace_id").is_none());
}

#[tokio::test]
async fn audit_event_has_method_and_trace() {
    let bench = AioBench::start([]).await;
    let (log, _guard) = Log::start();
    bench.called("t", 1, CALL, area(&json!({}))).await;
    bench.called("t", 2, CALL, json!({ "tool": "absent" })).await;
    bench.called("t", 3, "writer::draft", json!({ "text": "tea" })).await;
    let events: Vec<_> = log
        .events()
        .into_iter()
        .map(|event| ["event", "tool", "client_trace", "outcome"].map(|name| event[name].clone()))
        .collect();
    assert_eq!(
        events,
        [
            ["tools.call", "math_agent.calculate_area", "t", "ok"].map(Value::from),
            ["tools.call", "absent", "t", "denied"].map(Value::from),
            ["call", "writer/draft", "t", "ok"].map(Value::from),
        ]
    );
}

//! Every message that the specification prints, through the surface. Those with `{...}` or
//! alternatives are no JSON; their placeholders are filled.

use serde_json::{Value, json};

use super::harness::{AioBench, reason};

macro_rules! seed {
    ($name:literal) => {
        include_str!(concat!("../../../../../crates/agent-rpc/tests/seeds/", $name, ".json"))
    };
}

#[tokio::test]
async fn base_call_is_answered_with_its_ids() {
    let bench = AioBench::start([]).await;
    let unfilled = bench.sent(seed!("call")).await;
    assert_eq!(reason(&unfilled), (-32700, "PARSE_ERROR".to_owned()));
    let body = seed!("call").replace("{...}", "{}");
    let unnamed = bench.sent(&body).await;
    assert_eq!(reason(&unnamed), (-32600, "INVALID_ADDRESS".to_owned()));
    let answer = bench.sent(&body.replace("<namespace>::<method>", "math_agent::help")).await;
    assert_eq!(
        (&answer["jsonrpc"], &answer["id"], &answer["trace_id"]),
        (&json!("2.0"), &json!(1), &json!("AIO-TR-20250326-0001"))
    );
    assert_eq!(answer["result"]["type"], "mcp");
}

#[tokio::test]
async fn help_has_the_members_of_the_specification() {
    let filled =
        seed!("help").replace(r#""stdio" | "http" | "mcp""#, r#""mcp""#).replace("[...]", "[]");
    let expected: Value = serde_json::from_str(&filled).unwrap();
    let bench = AioBench::start([]).await;
    let help = bench.result("agent::help", json!({})).await;
    assert_eq!(help["type"], expected["type"]);
    for name in ["methods", "modalities"] {
        assert!(!help[name].as_array().unwrap().is_empty(), "{help}");
    }
    let mut modules = expected["mcp"].clone();
    modules["sampling"] = json!(false);
    assert_eq!(help["mcp"], modules);
    let help = bench.result("llm_agent::help", json!({})).await;
    assert_eq!(help["mcp"]["sampling"], expected["mcp"]["sampling"]);
}

#[tokio::test]
async fn resources_list_is_that_of_the_specification() {
    let bench = AioBench::start([]).await;
    let answer = bench.sent(seed!("resources_list_request")).await;
    let expected: Value = serde_json::from_str(seed!("resources_list_response")).unwrap();
    assert_eq!(answer["result"], expected["result"], "{answer}");
    assert_eq!((&answer["id"], &answer["trace_id"]), (&json!(1), &json!("...")));
}

#[tokio::test]
async fn tools_call_is_sent_to_the_tool() {
    let bench = AioBench::start([]).await;
    let answer = bench.sent(seed!("tools_call_request")).await;
    assert_eq!(answer["result"]["structuredContent"], json!({ "x": 3, "y": 4 }), "{answer}");
    assert_eq!(answer["id"], Value::Null);
    assert_eq!(bench.mcp.seen("tools/call").len(), 1);
}

#[tokio::test]
async fn sampling_start_opens_a_session() {
    let bench = AioBench::start([]).await;
    let answer = bench.sent(seed!("sampling_start_request")).await;
    let result = &answer["result"];
    let said = json!([{ "type": "text", "value": "1: Please summarize this document..." }]);
    assert_eq!((&result["output"], &result["done"]), (&said, &json!(false)), "{answer}");
    assert!(result["session"].is_string(), "{answer}");
}

#[tokio::test]
async fn graph_has_the_members_of_the_specification() {
    let filled = seed!("graph").replace("{...}", "{}");
    let expected: Value = serde_json::from_str(&filled).unwrap();
    let trace = expected["trace_id"].as_str().unwrap();
    let bench = AioBench::start([]).await;
    for (call, agent) in expected["calls"].as_array().unwrap().iter().zip(["agent", "llm_agent"]) {
        let id = u32::try_from(call["id"].as_u64().unwrap()).unwrap();
        let method = call["method"].as_str().unwrap();
        let params = match method {
            "sampling.start" => json!({ "input": { "type": "text", "value": "hi" } }),
            _ => call["input"].clone(),
        };
        bench.called(trace, id, &format!("{agent}::{method}"), params).await;
    }
    let (_, graph) = bench.graph("a", trace).await;
    assert_eq!(graph["trace_id"], expected["trace_id"]);
    let calls = graph["calls"].as_array().unwrap();
    assert_eq!(calls.len(), 2, "{graph}");
    for (call, expected) in calls.iter().zip(expected["calls"].as_array().unwrap()) {
        assert_eq!((&call["id"], &call["method"]), (&expected["id"], &expected["method"]));
        assert_eq!(call["status"], "ok", "{graph}");
        for name in expected.as_object().unwrap().keys() {
            assert!(call.get(name).is_some(), "{name}: {graph}");
        }
    }
}

//! Sessions of sampling.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use super::harness::{AioBench, reason};

fn text(value: &str) -> Value {
    json!({ "type": "text", "value": value })
}

async fn step(bench: &AioBench, agent: &str, session: &Value, input: Option<&str>) -> Value {
    let mut params = json!({ "session": session });
    if let Some(input) = input {
        params["input"] = text(input);
    }
    let method = format!("{agent}::sampling.step");
    bench.sent(&json!({ "method": method, "params": params }).to_string()).await
}

#[tokio::test]
async fn marked_tool_continues_its_own_session() {
    let bench = AioBench::start([]).await;
    let started = bench.result("llm_agent::sampling.start", json!({ "input": text("one") })).await;
    assert_eq!(started["done"], false, "{started}");
    let next = step(&bench, "llm_agent", &started["session"], Some("two")).await;
    assert_eq!(next["result"]["output"], json!([text("2: two")]), "{next}");
    assert_eq!(
        (&next["result"]["done"], &next["result"]["session"]),
        (&json!(true), &started["session"])
    );
    let sent = bench.mcp.seen("tools/call");
    assert_eq!(sent[1].body["params"]["arguments"]["session"], "own");
}

#[tokio::test]
async fn skill_continues_its_task_and_context() {
    let bench = AioBench::start([]).await;
    let started = bench.result("writer::sampling.start", json!({ "input": text("ask") })).await;
    assert_eq!(started["done"], false, "{started}");
    let session = &started["session"];
    let next = step(&bench, "writer", session, Some("tea")).await;
    assert_eq!(next["result"]["done"], true, "{next}");
    let again = step(&bench, "writer", session, Some("more")).await;
    assert_eq!(again["result"]["output"], json!([text("more")]), "{again}");
    let sent = bench.writer.seen("SendMessage");
    let ids = |at: usize, name: &str| sent[at].body["params"]["message"][name].clone();
    assert_eq!((ids(0, "contextId"), ids(0, "taskId")), (Value::Null, Value::Null));
    assert_eq!(ids(1, "contextId"), "context-of-the-writer");
    assert_eq!(ids(1, "taskId"), "task-of-the-writer");
    assert_eq!((ids(2, "contextId"), ids(2, "taskId")), (ids(1, "contextId"), Value::Null));
}

#[tokio::test]
async fn step_without_input_continues_after_the_time_limit() {
    let bench = AioBench::start([]).await;
    let started = bench.result("writer::sampling.start", json!({ "input": text("long") })).await;
    assert_eq!(started["done"], false, "{started}");
    bench.has_ended.store(true, Ordering::Relaxed);
    let next = step(&bench, "writer", &started["session"], None).await;
    assert_eq!(next["result"]["done"], true, "{next}");
    let idle = step(&bench, "writer", &started["session"], None).await;
    assert_eq!(reason(&idle), (-32602, "INVALID_PARAMS".to_owned()));
}

#[tokio::test]
async fn session_belongs_to_its_principal_and_agent() {
    let bench = AioBench::start([]).await;
    let started = bench.result("llm_agent::sampling.start", json!({ "input": text("one") })).await;
    let params = json!({ "session": started["session"], "input": text("two") });
    let unknown = (-32602, "INVALID_PARAMS".to_owned());
    let body = json!({ "method": "llm_agent::sampling.step", "params": params }).to_string();
    assert_eq!(reason(&bench.sent_by("b", &body).await), unknown);
    assert_eq!(bench.refused("writer::sampling.step", params.clone()).await, unknown);
    assert!(bench.sent(&body).await.get("result").is_some());
}

#[tokio::test]
async fn failed_task_ends_without_its_session() {
    let bench = AioBench::start([]).await;
    let failed = json!({ "input": text("fail") });
    let found = bench.refused("writer::sampling.start", failed).await;
    assert_eq!(found, (-32000, "TOOL_ERROR".to_owned()));
    let started = bench.result("writer::sampling.start", json!({ "input": text("ask") })).await;
    let next = step(&bench, "writer", &started["session"], Some("fail")).await;
    assert_eq!(reason(&next), (-32000, "TOOL_ERROR".to_owned()));
    let again = step(&bench, "writer", &started["session"], Some("tea")).await;
    assert_eq!(again["result"]["done"], true, "{again}");
    let sent = bench.writer.seen("SendMessage");
    let last = &sent.last().unwrap().body["params"]["message"];
    assert!(last.get("taskId").is_none(), "{last}");
}

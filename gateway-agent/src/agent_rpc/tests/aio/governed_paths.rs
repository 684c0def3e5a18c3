//! Each path from AIO to a target is governed: the same policy denies all of them.

use serde_json::{Value, json};

use super::harness::{AioBench, reason};
use crate::testing::policy;

/// The calls that reach a target.
fn calls() -> [(&'static str, Value); 8] {
    let text = json!({ "type": "text", "value": "tea" });
    [
        ("math_agent::tools.call", json!({ "tool": "calculate_area", "args": {} })),
        ("agent::resources.get", json!({ "id": "doc-001" })),
        ("agent::prompts.get", json!({ "name": "greet" })),
        ("writer::draft", json!({ "text": "tea" })),
        ("writer::input", json!({ "input": text })),
        ("writer::sampling.start", json!({ "input": text })),
        ("math_agent::tools.call", json!({ "tool": "fails" })),
        ("agent::tools.call", json!({ "tool": "ping" })),
    ]
}

#[tokio::test]
async fn policy_denies_each_call() {
    let bench = AioBench::start([]).await;
    let text = json!({ "type": "text", "value": "ask" });
    let start = json!({ "input": text });
    let session = bench.result("writer::sampling.start", start).await["session"].clone();
    let cedar = "forbid (principal, action, resource);";
    bench.publish([policy("closed", json!({ "authorization": { "cedar": cedar } }))]);
    let (tools, messages) = (bench.mcp.all_seen().len(), bench.writer.all_seen().len());
    for (method, params) in calls() {
        let body = json!({ "method": method, "params": params }).to_string();
        let answer = bench.sent(&body).await;
        assert_eq!(reason(&answer), (-32003, "UNAUTHORIZED".to_owned()), "{method}: {answer}");
        let details = &answer["error"]["data"]["error"]["details"];
        assert_eq!(details["policy"], "closed", "{method}: {answer}");
    }
    let step = json!({ "session": session, "input": text });
    let body = json!({ "method": "writer::sampling.step", "params": step }).to_string();
    let answer = bench.sent(&body).await;
    assert!(answer.get("error").is_some(), "{answer}");
    assert_eq!(bench.mcp.all_seen().len(), tools, "nothing was sent");
    assert_eq!(bench.writer.all_seen().len(), messages, "nothing was sent");
}

#[tokio::test]
async fn denied_entries_are_not_listed() {
    let cedar = "forbid (principal, action, resource);";
    let closed = policy("closed", json!({ "authorization": { "cedar": cedar } }));
    let bench = AioBench::start([closed]).await;
    for (method, member) in
        [("agent::resources.list", "resources"), ("agent::prompts.list", "prompts")]
    {
        let result = bench.result(method, json!({})).await;
        assert_eq!(result[member], json!([]), "{method}");
    }
    for method in ["math_agent::tools.list", "math_agent::help", "writer::help"] {
        let found = bench.refused(method, json!({})).await;
        assert_eq!(found, (-32000, "AGENT_NOT_FOUND".to_owned()), "{method}");
    }
}

#[tokio::test]
async fn arguments_and_messages_are_inspected() {
    let inspection = json!({ "arguments": { "contact": "block" } });
    let bench = AioBench::start([policy("inspected", json!({ "inspection": inspection }))]).await;
    let secret = "jane.roe@firma.de";
    let text = json!({ "type": "text", "value": secret });
    for (method, params) in [
        ("agent::tools.call", json!({ "tool": "ping", "args": { "text": secret } })),
        ("writer::draft", json!({ "text": secret })),
        ("writer::sampling.start", json!({ "input": text })),
        ("llm_agent::sampling.start", json!({ "input": text })),
    ] {
        let body = json!({ "method": method, "params": params }).to_string();
        let answer = bench.sent(&body).await;
        assert_eq!(reason(&answer), (-32002, "PII_DETECTED".to_owned()), "{method}: {answer}");
        assert!(!answer.to_string().contains(secret), "{method}: {answer}");
    }
    assert!(bench.mcp.seen("tools/call").is_empty() && bench.writer.seen("SendMessage").is_empty());
}

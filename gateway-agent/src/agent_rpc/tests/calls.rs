//! Calls of functions, and their errors.

use http::StatusCode;
use serde_json::{Value, json};

use super::harness::{called, execute, executed, sent, start};
use crate::{mcp::tests::audit::Log, testing::tool};

#[tokio::test]
async fn function_is_called_through_pipeline() {
    let bench = start([]).await;
    let (status, text) = sent(&bench, execute("helper", "echo", r#"{"n":1.10}"#)).await;
    assert_eq!(status, StatusCode::OK, "{text}");
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&answer["jsonrpc"], &answer["id"]), (&json!("2.0"), &Value::Null));
    assert_eq!(answer["result"], json!({ "n": 1.1 }));
    assert_eq!(
        (&answer["meta"]["status"], &answer["meta"]["task_id"]),
        (&json!("success"), &json!("t-1"))
    );
    assert!(answer["meta"]["execution_time_ms"].is_u64(), "{text}");
    let calls = bench.calls();
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0].body["params"]["_meta"]["task_id"], "t-1");
}

#[tokio::test]
async fn failures_have_codes_and_reasons() {
    let bench = start([]).await;
    for (function, input, code, reason) in [
        ("fails", "{}", -32000, "TOOL_ERROR"),
        ("slow", "{}", -32001, "TIMEOUT"),
        ("closes", "{}", -32001, "UNREACHABLE"),
        ("down", "{}", -32001, "UNREACHABLE"),
        ("echo", r#"{"n":"x"}"#, -32602, "INVALID_PARAMS"),
        ("hidden", "{}", -32601, "FUNCTION_NOT_FOUND"),
        ("absent", "{}", -32601, "FUNCTION_NOT_FOUND"),
    ] {
        let answer = called(&bench, function, input).await;
        let error = &answer["error"];
        assert_eq!(
            (&error["code"], &error["data"]["reason"]),
            (&json!(code), &json!(reason)),
            "{answer}"
        );
        assert_eq!(answer["meta"]["status"], "error", "{answer}");
    }
    let invalid = called(&bench, "echo", r#"{"n":"x"}"#).await;
    assert_eq!(invalid["error"]["data"]["pointer"], "/input/n");
    let (_, text) = sent(&bench, execute("other", "echo", "{}")).await;
    let answer: Value = serde_json::from_str(&text).unwrap();
    let expected = json!({ "agent_id": "other", "reason": "AGENT_NOT_FOUND" });
    assert_eq!((&answer["error"]["code"], &answer["error"]["data"]), (&json!(-32000), &expected));
}

#[tokio::test]
async fn task_is_audited_in_each_spelling() {
    let bench = start([]).await;
    let (log, _guard) = Log::start();
    called(&bench, "echo", "{}").await;
    let task = json!({ "task_id": "t-2" });
    let arguments = json!({ "agent_id": "helper", "function": "echo", "input": {}, "meta": task });
    bench.call("a", "agent.execute", arguments).await.result();
    let params = json!({ "name": "helper.echo", "arguments": {}, "_meta": { "task_id": "t-3" } });
    bench.modern("a", "tools/call", params).await.result();
    bench.call("a", "helper.echo", json!({})).await.result();
    let tasks: Vec<_> = log.events().iter().map(|event| event["task_id"].clone()).collect();
    assert_eq!(tasks, [json!("t-1"), json!("t-2"), json!("t-3"), Value::Null]);
}

#[tokio::test]
async fn retired_tool_does_not_precede_execute() {
    let bench = start([tool("agent.execute", "1.0.0", json!({})).retired()]).await;
    let task = json!({ "task_id": "t" });
    let arguments = json!({ "agent_id": "helper", "function": "echo", "input": {}, "meta": task });
    bench.call("a", "agent.execute", arguments).await.result();
    assert_eq!(bench.calls().len(), 1);
}

#[tokio::test]
async fn lost_call_may_have_run() {
    let bench = start([]).await;
    for (function, reason) in
        [("slow", "TIMEOUT"), ("closes", "UNREACHABLE"), ("down", "UNREACHABLE")]
    {
        let answer = called(&bench, function, "{}").await;
        let expected = json!({ "agent_id": "helper", "may_have_run": true, "reason": reason });
        assert_eq!(answer["error"]["data"], expected, "{answer}");
    }
    let body = json!({ "tool": "helper.closes", "params": {} });
    let answer = executed(&bench, &body.to_string()).await;
    assert_eq!(
        (&answer["code"], &answer["reason"], &answer["details"]),
        (&json!("TOOL_EXECUTION_FAILED"), &json!("UNREACHABLE"), &json!({ "may_have_run": true })),
        "{answer}"
    );
}

#[tokio::test]
async fn invalid_bodies_are_answered() {
    let bench = start([]).await;
    for (body, id, reason) in [
        ("{", json!(null), "PARSE_ERROR"),
        ("[]", json!(null), "BATCH"),
        (r#"{"id":7,"method":"agent.delete"}"#, json!(7), "METHOD_NOT_FOUND"),
        (r#"{"id":7,"method":"agent.execute","params":{}}"#, json!(7), "INVALID_PARAMS"),
    ] {
        let (status, text) = sent(&bench, body.to_owned()).await;
        let answer: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((status, &answer["id"]), (StatusCode::OK, &id), "{text}");
        assert_eq!(answer["error"]["data"]["reason"], reason, "{text}");
    }
    assert!(bench.calls().is_empty());
}

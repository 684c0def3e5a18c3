//! Requests that are rejected before a call.

use serde_json::{Value, json};

use super::harness::{AioBench, reason};
use crate::mcp::tests::harness::Setup;

#[tokio::test]
async fn invalid_requests_have_codes_and_reasons() {
    let bench = AioBench::start([]).await;
    for (body, code, expected) in [
        (json!({ "method": "a::b::c" }), -32600, "INVALID_ADDRESS"),
        (json!({ "method": "::help" }), -32600, "INVALID_ADDRESS"),
        (json!({ "jsonrpc": "1.0", "method": "agent::help" }), -32600, "INVALID_REQUEST"),
        (json!({ "id": 1, "params": {} }), -32600, "INVALID_REQUEST"),
        (json!({ "method": "agent::help", "trace_id": "a\u{0}b" }), -32600, "INVALID_REQUEST"),
        (json!({ "method": "agent::help", "trace_id": "a\nb" }), -32600, "INVALID_REQUEST"),
        (json!({ "method": "agent::help", "trace_id": "" }), -32600, "INVALID_REQUEST"),
        (json!({ "method": "agent::help", "trace_id": 7 }), -32600, "INVALID_REQUEST"),
        (json!([{ "method": "agent::help" }]), -32600, "BATCH"),
    ] {
        assert_eq!(
            reason(&bench.sent(&body.to_string()).await),
            (code, expected.to_owned()),
            "{body}"
        );
    }
    assert!(bench.mcp.seen("tools/call").is_empty());
}

#[tokio::test]
async fn long_trace_id_is_rejected() {
    let setup = Setup { request_bytes: 4 * 1024 * 1024, ..Setup::default() };
    let bench = AioBench::start_with(setup, []).await;
    for trace in ["x".repeat(129), "x".repeat(1024 * 1024)] {
        let body = json!({ "method": "agent::help", "trace_id": trace }).to_string();
        let answer = bench.sent(&body).await;
        assert_eq!(reason(&answer), (-32600, "INVALID_REQUEST".to_owned()));
        assert!(answer.to_string().len() < 1_024, "{answer}");
    }
}

#[tokio::test]
async fn invalid_values_have_a_pointer() {
    let bench = AioBench::start([]).await;
    for value in ["not base64!", "data:image/png;base64,%", "data:text/html,x", "http://\u{7}"] {
        let input = json!({ "type": "image", "value": value });
        for method in ["writer::input", "writer::sampling.start"] {
            let body = json!({ "method": method, "params": { "input": input } });
            let answer = bench.sent(&body.to_string()).await;
            let error = &answer["error"];
            assert_eq!(error["code"], -32602, "{answer}");
            assert_eq!(error["data"]["pointer"], "/input/value", "{answer}");
        }
    }
    assert!(bench.writer.all_seen().iter().all(|seen| seen.rpc_method() != "SendMessage"));
}

#[tokio::test]
async fn id_is_unique_within_its_trace() {
    let bench = AioBench::start([]).await;
    let call = json!({ "tool": "calculate_area", "args": {} });
    for (trace, id, expected) in [
        ("t", 1, Value::Null),
        ("t", 2, Value::Null),
        ("u", 1, Value::Null),
        ("t", 1, json!("ID_IN_USE")),
    ] {
        let answer = bench.called(trace, id, "math_agent::tools.call", call.clone()).await;
        assert_eq!(answer["error"]["data"]["reason"], expected, "{trace} {id}: {answer}");
        if !expected.is_null() {
            assert_eq!(answer["error"]["code"], -32600);
        }
    }
    let body = json!({ "id": 1, "trace_id": "t", "method": "agent::help" }).to_string();
    let other = bench.sent_by("b", &body).await;
    assert!(other.get("result").is_some(), "{other}");
    assert_eq!(bench.mcp.seen("tools/call").len(), 3);
}

//! Malformed and mismatched requests at the gateway's MCP endpoint.

use acceptance::mcp::MODERN;
use serde_json::{Value, json};

use crate::deployment::Deployment;

struct Raw<'a> {
    headers: &'a [(&'a str, &'a str)],
    body: String,
}

async fn send(deployment: &Deployment, raw: Raw<'_>) -> (u16, Value) {
    let mut request = reqwest::Client::new()
        .post(deployment.gateway.mcp_url())
        .header("accept", "application/json, text/event-stream")
        .header("content-type", "application/json");
    for (name, value) in raw.headers {
        request = request.header(*name, *value);
    }
    let response = request.body(raw.body).send().await.expect("the gateway answers");
    let status = response.status().as_u16();
    let text = response.text().await.expect("a body");
    (status, serde_json::from_str(&text).unwrap_or(Value::Null))
}

fn modern(method: &str, params: Value) -> String {
    let mut params = params;
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params }).to_string()
}

/// The defect, headers, body, expected HTTP status and error code.
type Case<'a> = (&'a str, Vec<(&'a str, &'a str)>, String, u16, i64);

#[tokio::test]
async fn malformed_requests_get_specified_errors() {
    let deployment = Deployment::start().await;
    let version = ("mcp-protocol-version", MODERN);
    let list = || modern("tools/list", json!({}));
    let call = || modern("tools/call", json!({ "name": "fetch", "arguments": {} }));
    let cases: [Case<'_>; 10] = [
        ("not JSON", vec![version, ("mcp-method", "tools/list")], "{".into(), 400, -32700),
        (
            "a batch",
            vec![version, ("mcp-method", "tools/list")],
            format!("[{}]", list()),
            400,
            -32600,
        ),
        ("version header missing", vec![("mcp-method", "tools/list")], list(), 400, -32020),
        (
            "version differs",
            vec![("mcp-protocol-version", "2025-11-25"), ("mcp-method", "tools/list")],
            list(),
            400,
            -32020,
        ),
        ("method header missing", vec![version], list(), 400, -32020),
        ("method header differs", vec![version, ("mcp-method", "tools/call")], list(), 400, -32020),
        ("name header missing", vec![version, ("mcp-method", "tools/call")], call(), 400, -32020),
        (
            "name header differs",
            vec![version, ("mcp-method", "tools/call"), ("mcp-name", "x")],
            call(),
            400,
            -32020,
        ),
        (
            "unknown method",
            vec![version, ("mcp-method", "tools/lost")],
            modern("tools/lost", json!({})),
            404,
            -32601,
        ),
        (
            "bad cursor",
            vec![version, ("mcp-method", "tools/list")],
            modern("tools/list", json!({ "cursor": "?" })),
            200,
            -32602,
        ),
    ];
    for (what, headers, body, status, code) in cases {
        let (got, message) = send(&deployment, Raw { headers: &headers, body }).await;
        assert_eq!(message["error"]["code"], code, "{what}: {got} {message}");
        assert_eq!(got, status, "{what}: {message}");
    }
}

#[tokio::test]
async fn unsupported_version_lists_supported_versions() {
    let deployment = Deployment::start().await;
    let body = modern("tools/list", json!({})).replace(MODERN, "2099-01-01");
    let headers = [("mcp-protocol-version", "2099-01-01"), ("mcp-method", "tools/list")];
    let (status, message) = send(&deployment, Raw { headers: &headers, body }).await;
    assert_eq!((status, message["error"]["code"].as_i64()), (400, Some(-32022)), "{message}");
    let supported = message["error"]["data"]["supported"].as_array().expect("the versions");
    assert!(supported.contains(&json!(MODERN)), "{message}");
}

#[tokio::test]
async fn foreign_origin_is_rejected() {
    let deployment = Deployment::start().await;
    let headers = [
        ("origin", "https://evil.example"),
        ("mcp-protocol-version", MODERN),
        ("mcp-method", "tools/list"),
    ];
    let (status, _) =
        send(&deployment, Raw { headers: &headers, body: modern("tools/list", json!({})) }).await;
    assert_eq!(status, 403);
}

#[tokio::test]
async fn body_over_limit_is_rejected() {
    let deployment = Deployment::start().await;
    let body = modern("tools/list", json!({ "cursor": "x".repeat(5 << 20) }));
    let headers = [("mcp-protocol-version", MODERN), ("mcp-method", "tools/list")];
    let (status, message) = send(&deployment, Raw { headers: &headers, body }).await;
    assert_eq!(status, 413, "{message}");
}

#[tokio::test]
async fn deep_nesting_is_rejected() {
    let deployment = Deployment::start().await;
    let body = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{}1{}}}",
        "[".repeat(100_000),
        "]".repeat(100_000)
    );
    let headers = [("mcp-protocol-version", MODERN), ("mcp-method", "tools/list")];
    let (status, _) = send(&deployment, Raw { headers: &headers, body }).await;
    assert_eq!(status, 400);
    assert!(!deployment.anonymous().tool_names().await.is_empty(), "the gateway lives on");
}

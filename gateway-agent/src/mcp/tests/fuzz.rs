//! Arbitrary requests never cause a panic or a malformed response.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::harness::{Ask, Bench};
use crate::testing::tool;

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("tools/call".to_owned()),
        Just("tools/list".to_owned()),
        Just("initialize".to_owned()),
        Just("server/discover".to_owned()),
        Just("2026-07-28".to_owned()),
        Just("2025-11-25".to_owned()),
        Just("t".to_owned()),
        ".{0,12}",
    ]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    let key = prop_oneof![
        Just("_meta".to_owned()),
        Just("name".to_owned()),
        Just("arguments".to_owned()),
        Just("cursor".to_owned()),
        Just("notifications".to_owned()),
        Just("protocolVersion".to_owned()),
        Just("clientInfo".to_owned()),
        Just("io.modelcontextprotocol/protocolVersion".to_owned()),
        Just("io.modelcontextprotocol/clientCapabilities".to_owned()),
        ".{0,8}",
    ];
    leaf.prop_recursive(5, 40, 6, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(key.clone(), inner, 0..6).prop_map(|map| json!(map)),
        ]
    })
}

/// Almost valid messages, which reach more code than noise.
fn message() -> impl Strategy<Value = Vec<u8>> {
    let near = (value(), text(), value()).prop_map(|(id, method, params)| {
        json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
            .to_string()
            .into_bytes()
    });
    prop_oneof![
        3 => near,
        1 => value().prop_map(|value| value.to_string().into_bytes()),
        1 => proptest::collection::vec(any::<u8>(), 0..200),
    ]
}

fn headers() -> impl Strategy<Value = Vec<(&'static str, Vec<u8>)>> {
    let name = proptest::sample::select(vec![
        "mcp-protocol-version",
        "mcp-method",
        "mcp-name",
        "mcp-session-id",
        "mcp-param-x",
        "x-agent-name",
        "x-agent-version",
        "accept",
        "origin",
        "host",
    ]);
    let header = prop_oneof![
        text().prop_map(String::into_bytes),
        "=\\?base64\\?[a-zA-Z0-9+/=]{0,8}\\?=".prop_map(String::into_bytes),
        proptest::collection::vec(any::<u8>(), 0..12),
    ];
    let header = header.prop_map(|bytes| {
        let allowed = |byte: &u8| *byte >= 32 && *byte != 127;
        bytes.into_iter().filter(allowed).collect()
    });
    proptest::collection::vec((name, header), 0..5)
}

fn well_formed(got: &super::harness::Got) -> Result<(), String> {
    let status = got.status.as_u16();
    if status == 202 || got.headers.get("content-type").is_some_and(|t| t == "text/event-stream") {
        return Ok(());
    }
    let answer: Value = serde_json::from_str(&got.text).map_err(|e| e.to_string())?;
    let error = &answer["error"];
    let is_error = error["code"].is_i64() && error["message"].is_string();
    let is_result = status == 200 && answer["result"].is_object() && !answer["id"].is_null();
    if answer["jsonrpc"] == "2.0" && (is_error != is_result) {
        Ok(())
    } else {
        Err(got.text.clone())
    }
}

#[test]
fn arbitrary_request_gets_wellformed_response() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let schema = json!({ "type": "object", "properties": {
        "x": { "type": "string", "x-mcp-header": "X" } } });
    let bench =
        runtime.block_on(Bench::strict(vec![tool("t", "1.0.0", json!({ "inputSchema": schema }))]));
    let config = ProptestConfig { cases: 3_000, ..ProptestConfig::default() };
    let strategy = (message(), headers(), any::<bool>());
    proptest::test_runner::TestRunner::new(config)
        .run(&strategy, |(body, headers, is_complete)| {
            // Half of them have headers that pass the first checks.
            let mut ask = Ask::modern("tools/call", json!({ "name": "t" }));
            if !is_complete {
                ask.headers.retain(|(name, _)| {
                    matches!(name.as_str(), "accept" | "content-type" | "host")
                });
            }
            ask.headers.extend(headers.into_iter().map(|(name, value)| (name.to_owned(), value)));
            let got = runtime.block_on(async {
                let response = bench.send(ask.build_with(body)).await;
                let (parts, body) = response.into_parts();
                let is_stream =
                    parts.headers.get("content-type").is_some_and(|t| t == "text/event-stream");
                // An open stream has no end to wait for.
                let bytes = if is_stream {
                    bytes::Bytes::new()
                } else {
                    axum::body::to_bytes(body, usize::MAX).await.unwrap()
                };
                let text = String::from_utf8(bytes.to_vec()).unwrap();
                super::harness::Got { status: parts.status, headers: parts.headers, text }
            });
            well_formed(&got).map_err(TestCaseError::fail)
        })
        .unwrap();
}

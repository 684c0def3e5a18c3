//! Streamable HTTP without faults, in both eras.

use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::*;

fn text(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}

#[tokio::test]
async fn modern_call_has_headers_and_unchanged_result() {
    let schema = json!({"type": "object", "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"}}});
    let fake = Server::start(move |seen| match seen.rpc_method() {
        "tools/list" => seen.result(&json!({"tools": [{"name": "t", "inputSchema": schema}]})),
        "tools/call" => {
            let body = format!(
                "{{\"id\":{},\n\"jsonrpc\":\"2.0\",\"result\":{{ \"x\":1.50, \"isError\":true }}}}",
                seen.body["id"]
            );
            raw_reply(200, "application/json; charset=utf-8", body.as_bytes())
        }
        _ => modern().reply(seen).unwrap(),
    })
    .await;
    let upstreams = start(transport(&fake), limits(), TIMING);
    upstreams.until_up().await;
    assert!(matches!(upstreams.state(), TargetState::Up { speaks: "modern" }));

    let result = upstreams.try_call(r#"{"region":"Zürich", "n":1.0}"#).await.unwrap();
    assert_eq!(result.result.get(), "{ \"x\":1.50, \"isError\":true }");
    assert!(result.is_error);

    let seen = fake.seen("tools/call").remove(0);
    for (name, value) in [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "t"),
        ("mcp-param-region", "=?base64?WsO8cmljaA==?="),
        ("accept", "application/json, text/event-stream"),
        ("content-type", "application/json"),
        ("authorization", "Bearer ours"),
    ] {
        assert_eq!(seen.header(name), Some(value), "{name}");
    }
    let params = &seen.body["params"];
    assert_eq!(params["arguments"], json!({"region": "Zürich", "n": 1.0}));
    assert_eq!(params["_meta"]["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
    assert_eq!(params["_meta"]["io.modelcontextprotocol/clientCapabilities"], json!({}));
    assert!(fake.seen("initialize").is_empty());
    upstreams.shutdown().await;
}

#[tokio::test]
async fn legacy_server_gets_handshake_and_session() {
    let fake = legacy_server(|seen| seen.result(&text("hello"))).await;
    let upstreams = start(transport(&fake), limits(), TIMING);
    assert_eq!(upstreams.must_call("{}").await, text("hello").to_string());
    upstreams.until_up().await;
    assert!(matches!(upstreams.state(), TargetState::Up { speaks: "legacy" }));

    let hello = fake.seen("initialize").remove(0);
    assert_eq!(hello.body["params"]["protocolVersion"], "2025-11-25");
    assert_eq!(hello.header("mcp-session-id"), None);
    assert_eq!(fake.seen("notifications/initialized").len(), 1);
    let call = fake.seen("tools/call").remove(0);
    assert_eq!(call.header("mcp-session-id"), Some("s-1"));
    assert_eq!(call.header("mcp-protocol-version"), Some("2025-11-25"));
    assert_eq!(call.header("mcp-method"), None);
    assert_eq!(call.body["params"], json!({"name": "t", "arguments": {}}));

    upstreams.shutdown().await;
    let bye = fake.all_seen().pop().unwrap();
    assert_eq!((bye.http_method.as_str(), bye.header("mcp-session-id")), ("DELETE", Some("s-1")));
    let error = upstreams.try_call("{}").await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
}

#[tokio::test]
async fn concurrent_first_calls_share_one_handshake() {
    let fake = legacy_server(|seen| seen.result(&text("hello"))).await;
    let upstreams = start(transport(&fake), limits(), TIMING);
    let calls = (0..20).map(|_| upstreams.must_call("{}"));
    assert_eq!(futures_util::future::join_all(calls).await.len(), 20);
    assert_eq!(fake.seen("initialize").len(), 1);

    let before = fake.connections();
    for _ in 0..20 {
        upstreams.must_call("{}").await;
    }
    assert_eq!(fake.connections(), before);
}

#[tokio::test]
async fn event_stream_may_be_split_anywhere() {
    let stream = |id: &Value| {
        let progress = json!({"jsonrpc": "2.0", "method": "notifications/progress"});
        let answer = json!({"jsonrpc": "2.0", "id": id, "result": text("é")});
        format!(
            ": hi\r\n\r\nid: 1\ndata:\n\ndata: {progress}\n\nevent: message\ndata: {answer}\r\n\r\n"
        )
    };
    let length = stream(&json!(10)).len() + 8;
    let fake = modern_server(move |seen| {
        let cut =
            usize::try_from(seen.body["params"]["arguments"]["cut"].as_u64().unwrap()).unwrap();
        let stream = stream(&seen.body["id"]);
        let (start, end) = stream.as_bytes().split_at(cut.min(stream.len()));
        sse_reply([start, end])
    })
    .await;
    let upstreams = start(transport(&fake), limits(), TIMING);
    for cut in 0..length {
        let result = upstreams.must_call(&format!(r#"{{"cut":{cut}}}"#)).await;
        assert_eq!(text("é").to_string(), result, "cut at {cut}");
    }
    assert!(fake.connections() < 5, "connections are reused, not {}", fake.connections());
}

#[tokio::test]
async fn questions_of_legacy_server_are_answered() {
    let fake = legacy_server(|seen| {
        let ask = |id: &str, method: &str| {
            json!({"jsonrpc": "2.0", "id": id, "method": method, "params": {}}).to_string()
        };
        let stream = format!(
            "data: {}\n\ndata: {}\n\ndata: {}\n\n",
            ask("p", "ping"),
            ask("s", "sampling/createMessage"),
            json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": {}}),
        );
        sse_reply([stream.as_bytes()])
    })
    .await;
    let upstreams = start(transport(&fake), limits(), TIMING);
    assert_eq!(upstreams.must_call("{}").await, "{}");
    let answers = || fake.all_seen().into_iter().filter(|seen| seen.body["method"].is_null());
    eventually(|| async { answers().count() == 2 }).await;
    for answer in answers() {
        assert_eq!(answer.header("mcp-session-id"), Some("s-1"));
        match answer.body["id"].as_str() {
            Some("p") => assert_eq!(answer.body["result"], json!({})),
            _ => assert_eq!(answer.body["error"]["code"], -32601),
        }
    }
}

#[tokio::test]
async fn lists_are_paged_and_refreshed() {
    let fake = Server::start(|seen| match seen.rpc_method() {
        "tools/list" => match seen.body["params"]["cursor"].as_str() {
            None => seen.result(&json!({"tools": [{"name": "b"}], "nextCursor": "p\"2"})),
            Some("p\"2") => seen.result(&json!({"tools": [
                {"name": "a", "title": "A"},
                {"name": "bad", "inputSchema": {"items": {"x-mcp-header": "X", "type": "string"}}},
            ]})),
            Some(other) => panic!("cursor {other}"),
        },
        _ => modern().reply(seen).unwrap(),
    })
    .await;
    let timing = Timing { relist: Duration::from_millis(20), ..TIMING };
    let upstreams = start(transport(&fake), limits(), timing);
    let mut definitions = upstreams.definitions();
    definitions.changed().await.unwrap();
    assert_eq!(upstreams.listed(), ["a", "b"]);
    let all = definitions.borrow_and_update().clone();
    assert_eq!(all.find_tool(&key(), "a").unwrap().get(), r#"{"name":"a","title":"A"}"#);

    eventually(|| async { fake.seen("tools/list").len() >= 8 }).await;
    assert!(!definitions.has_changed().unwrap(), "an equal list is not a change");
}

#[tokio::test]
async fn header_mismatch_refreshes_definition_and_retries() {
    let fake = Server::start(|seen| match seen.rpc_method() {
        "tools/list" if seen.header("mcp-method").is_some() => {
            // The first list is outdated.
            static LISTS: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
            let is_old = LISTS.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 0;
            let schema = if is_old {
                json!({})
            } else {
                json!({"properties": {"r": {"type": "integer", "x-mcp-header": "R"}}})
            };
            seen.result(&json!({"tools": [{"name": "t", "inputSchema": schema}]}))
        }
        "tools/call" if seen.body["params"]["arguments"]["r"] == 7 => {
            match seen.header("mcp-param-r") {
                Some("7") => seen.result(&text("mirrored")),
                _ => seen.error(400, &json!({"code": -32020, "message": "mismatch"})),
            }
        }
        "tools/call" => seen.error(400, &json!({"code": -32020, "message": "never"})),
        _ => modern().reply(seen).unwrap(),
    })
    .await;
    let upstreams = start(transport(&fake), limits(), TIMING);
    upstreams.until_up().await;
    assert_eq!(upstreams.must_call(r#"{"r":7}"#).await, text("mirrored").to_string());
    assert_eq!(fake.seen("tools/call").len(), 2);

    let error = upstreams.try_call(r#"{"r":8}"#).await.unwrap_err();
    assert!(
        matches!(error, Error::Protocol { what: ProtocolViolation::HeadersRefused }),
        "{error}"
    );
    assert_eq!(fake.seen("tools/call").len(), 4);
}

#[tokio::test]
async fn restarted_server_is_reconnected() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let upstreams = start(http_at(&format!("http://{address}/mcp")), limits(), TIMING);
    eventually(|| async { matches!(upstreams.state(), TargetState::Down { .. }) }).await;
    let error = upstreams.try_call("{}").await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    assert!(error.to_string().contains("refused"), "{error}");

    let listener = TcpListener::bind(address).await.unwrap();
    let _fake = Server::start_on(listener, |seen| modern().reply(seen).unwrap());
    upstreams.until_up().await;
    assert_eq!(upstreams.listed(), ["t"]);
}

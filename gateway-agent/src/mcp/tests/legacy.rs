//! Clients before 2026-07-28.

use serde_json::{Value, json};

use super::harness::{Ask, Bench};
use crate::testing::{agent, tool};

async fn bench() -> Bench {
    Bench::strict(vec![
        tool("t", "1.0.0", json!({})),
        tool("slow", "1.0.0", json!({})),
        agent("a", "1.0.0", &[("t", "1.0.0"), ("slow", "1.0.0")]),
    ])
    .await
}

#[tokio::test]
async fn version_is_negotiated() {
    let bench = bench().await;
    for (asked, given) in [
        ("2025-11-25", "2025-11-25"),
        ("2025-06-18", "2025-06-18"),
        ("2025-03-26", "2025-03-26"),
        ("2024-11-05", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
        ("1.0", "2025-11-25"),
    ] {
        let got = bench.got(Ask::initialize(asked).build()).await;
        let result = got.result();
        assert_eq!(result["protocolVersion"], given);
        assert_eq!(result["capabilities"], json!({ "tools": { "listChanged": true } }));
        assert_eq!(result["serverInfo"]["name"], "gateway-agent");
        assert!(result.get("resultType").is_none());
        assert!(got.headers["mcp-session-id"].len() >= 32);
    }
    let mut nameless = Ask::initialize("x");
    nameless.body["params"] = json!({});
    assert_eq!(bench.got(nameless.build()).await.error(), (400, -32602));
    let lying = Ask::initialize("2025-11-25").with("mcp-method", "tools/list");
    assert_eq!(bench.got(lying.build()).await.error(), (400, -32020));
}

#[tokio::test]
async fn session_serves_its_methods() {
    let bench = bench().await;
    let id = bench.initialize("a").await;
    let ask = async |method: &str, params: Value| bench.legacy(&id, "a", (method, params)).await;
    assert_eq!(
        ask("ping", json!({})).await.json(),
        json!({ "jsonrpc": "2.0", "id": 8, "result": {} })
    );
    let called = ask("tools/call", json!({ "name": "t", "arguments": { "x": 1 } })).await.result();
    assert_eq!(called["structuredContent"], json!({ "x": 1 }));
    assert!(called.get("resultType").is_none() && called.get("_meta").is_none());
    assert_eq!(ask("resources/list", json!({})).await.error(), (200, -32601));
    assert_eq!(ask("tools/call", json!({ "name": "nope" })).await.error(), (200, -32602));
    assert_eq!(ask("tools/list", json!({ "cursor": "x" })).await.error(), (200, -32602));
    let bare = Ask::legacy(&id, "tools/list", json!({})).without("mcp-protocol-version").by("a");
    bench.got(bare.build()).await.result();
    let mut initialized = Ask::legacy(&id, "x", json!({})).by("a");
    initialized.body = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    let got = bench.got(initialized.build()).await;
    assert_eq!((got.status.as_u16(), got.text.as_str()), (202, ""));
}

#[tokio::test]
async fn session_is_required_owned_and_closable() {
    let bench = bench().await;
    let id = bench.initialize("a").await;
    let list = |id: &str, agent: &str| Ask::legacy(id, "tools/list", json!({})).by(agent);
    let none = list(&id, "a").without("mcp-session-id");
    assert_eq!(bench.got(none.build()).await.error(), (400, -32600));
    assert_eq!(bench.got(list("ffff", "a").build()).await.error(), (404, -32600));
    assert_eq!(bench.got(list(&id, "").build()).await.error(), (404, -32600), "somebody else's");
    let other = list(&id, "a").set("mcp-protocol-version", "2031-01-01");
    assert_eq!(bench.got(other.build()).await.error(), (400, -32022));

    let delete = |agent: &str| {
        let mut ask = list(&id, agent);
        ask.method = http::Method::DELETE;
        ask.body = Value::Null;
        ask.build()
    };
    assert_eq!(bench.got(delete("")).await.status, 404);
    bench.got(list(&id, "a").build()).await.result();
    assert_eq!(bench.got(delete("a")).await.status, 204);
    assert_eq!(bench.got(list(&id, "a").build()).await.error(), (404, -32600));
    assert_eq!(bench.got(delete("a")).await.status, 404);
}

#[tokio::test]
async fn cancelled_call_has_no_response() {
    let bench = bench().await;
    let id = bench.initialize("a").await;
    let call = bench.legacy(&id, "a", ("tools/call", json!({ "name": "slow" })));
    let cancel = async {
        bench.until_called(1).await;
        let mut ask = Ask::legacy(&id, "x", json!({})).by("a");
        let params = json!({ "requestId": 8 });
        ask.body =
            json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params });
        bench.got(ask.build()).await
    };
    let (called, cancelled) = tokio::join!(call, cancel);
    assert_eq!(cancelled.status, 202);
    assert_eq!((called.status.as_u16(), called.text.as_str()), (200, ""));
    assert_eq!(called.headers["content-type"], "text/event-stream");
}

#[tokio::test]
async fn request_ids_are_unique_while_running() {
    let bench = bench().await;
    let (id, other) = (bench.initialize("a").await, bench.initialize("a").await);
    let first = bench.legacy(&id, "a", ("tools/call", json!({ "name": "slow" })));
    let meanwhile = async {
        bench.until_called(1).await;
        for (method, params) in [("tools/call", json!({ "name": "t" })), ("ping", json!({}))] {
            let second = bench.legacy(&id, "a", (method, params.clone())).await;
            assert_eq!(second.error(), (400, -32600), "{method}");
            assert!(second.text.contains("running"), "{second:?}");
            bench.legacy(&other, "a", (method, params.clone())).await.result();
            let mut again = Ask::legacy(&id, method, params).by("a");
            again.body["id"] = json!("8");
            bench.got(again.build()).await.result();
        }
    };
    let (first, ()) = tokio::join!(first, meanwhile);
    first.result();
    bench.legacy(&id, "a", ("ping", json!({}))).await.result();
}

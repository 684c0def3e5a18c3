//! Malformed requests of the stateless era, and some of both eras.

use serde_json::{Value, json};

use super::harness::{Ask, Bench, Setup};
use crate::testing::tool;

async fn bench() -> Bench {
    let schema = json!({ "type": "object", "properties": {
        "region": { "type": "string", "x-mcp-header": "Region" } } });
    Bench::strict(vec![tool("t", "1.0.0", json!({ "inputSchema": schema }))]).await
}

fn list() -> Ask {
    Ask::modern("tools/list", json!({}))
}

fn call() -> Ask {
    Ask::modern("tools/call", json!({ "name": "t", "arguments": {} }))
}

fn with_meta(ask: Ask, name: &str, value: Value) -> Ask {
    let mut ask = ask;
    let meta = ask.body["params"]["_meta"].as_object_mut().unwrap();
    match value {
        Value::Null => _ = meta.remove(name),
        value => _ = meta.insert(name.to_owned(), value),
    }
    ask
}

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

#[tokio::test]
async fn complete_requests_are_accepted() {
    let bench = bench().await;
    for ask in [
        list(),
        call(),
        Ask::modern("server/discover", json!({})),
        call().set("mcp-name", "=?base64?dA==?="),
        // Headers of other eras and unknown headers are ignored.
        list().with("mcp-session-id", "x").with("last-event-id", "1").with("mcp-param-other", "x"),
        with_meta(list(), "io.modelcontextprotocol/clientInfo", Value::Null),
        with_meta(list(), "io.modelcontextprotocol/clientInfo", json!(5)),
        list().with("origin", "http://localhost:3000"),
        list().set("content-type", "application/json; charset=utf-8"),
    ] {
        let got = bench.got(ask.build()).await;
        assert_eq!(got.status, 200, "{got:?}");
        assert_eq!(got.headers["content-type"], "application/json");
        assert!(!got.headers.contains_key("mcp-session-id"));
        let answer = got.json();
        assert_eq!((&answer["jsonrpc"], &answer["id"]), (&json!("2.0"), &json!(7)));
        assert_eq!(answer["result"]["resultType"], "complete");
        let meta = &answer["result"]["_meta"]["io.modelcontextprotocol/serverInfo"];
        assert_eq!(meta["name"], "gateway-agent");
    }
}

type Row = (&'static str, Ask, (u16, i64));

fn version_rows() -> Vec<Row> {
    let versions = |body: Value, header: &str| {
        with_meta(list(), VERSION, body).set("mcp-protocol-version", header)
    };
    vec![
        ("no version header", list().without("mcp-protocol-version"), (400, -32020)),
        ("two of them", list().with("mcp-protocol-version", "2026-07-28"), (400, -32020)),
        ("another than in _meta", versions(json!("2026-07-29"), "2026-07-28"), (400, -32020)),
        ("a legacy header", list().set("mcp-protocol-version", "2025-11-25"), (400, -32020)),
        ("an unknown version", versions(json!("1900-01-01"), "1900-01-01"), (400, -32022)),
        ("an unknown version in the header", versions(Value::Null, "1900-01-01"), (400, -32022)),
        ("a session's version", versions(json!("2025-11-25"), "2025-11-25"), (400, -32600)),
        ("no version in _meta", with_meta(list(), VERSION, Value::Null), (400, -32602)),
        ("a version that is no string", with_meta(list(), VERSION, json!(5)), (400, -32602)),
        ("no capabilities", with_meta(list(), CAPABILITIES, Value::Null), (400, -32602)),
        ("no object", with_meta(list(), CAPABILITIES, json!([])), (400, -32602)),
    ]
}

/// Headers that mirror the body, and general headers.
fn header_rows() -> Vec<Row> {
    let encoded = "=?base64?dG9vbHMvbGlzdA==?=";
    let region = json!({ "name": "t", "arguments": { "region": "eu" } });
    vec![
        ("no method header", list().without("mcp-method"), (400, -32020)),
        ("another method", list().set("mcp-method", "tools/call"), (400, -32020)),
        ("another case", list().set("mcp-method", "Tools/List"), (400, -32020)),
        ("an encoded method", list().set("mcp-method", encoded), (400, -32020)),
        ("two methods", list().with("mcp-method", "tools/list"), (400, -32020)),
        ("no name header", call().without("mcp-name"), (400, -32020)),
        ("another name", call().set("mcp-name", "u"), (400, -32020)),
        ("a name in another case", call().set("mcp-name", "T"), (400, -32020)),
        ("a name in bad Base64", call().set("mcp-name", "=?base64?dA?="), (400, -32020)),
        ("two names", call().with("mcp-name", "t"), (400, -32020)),
        ("an argument without its header", Ask::modern("tools/call", region), (400, -32020)),
        ("a header without its argument", call().with("mcp-param-region", "eu"), (400, -32020)),
        ("no media types", list().without("accept"), (406, -32600)),
        ("one media type", list().set("accept", "application/json"), (406, -32600)),
        ("no content type", list().without("content-type"), (415, -32600)),
        ("a form", list().set("content-type", "application/x-www-form-urlencoded"), (415, -32600)),
        ("a foreign page", list().with("origin", "https://evil.example"), (403, -32600)),
        ("a foreign host", list().set("host", "evil.example"), (403, -32600)),
    ]
}

fn param_rows() -> Vec<Row> {
    let list = |cursor: Value| Ask::modern("tools/list", json!({ "cursor": cursor }));
    let call = |params: Value| Ask::modern("tools/call", params);
    vec![
        ("an unknown method", Ask::modern("tools/frobnicate", json!({})), (404, -32601)),
        ("a removed method", Ask::modern("ping", json!({})), (404, -32601)),
        ("the other era's handshake", Ask::modern("initialize", json!({})), (404, -32601)),
        ("one that is not advertised", Ask::modern("prompts/list", json!({})), (404, -32601)),
        ("an unknown tool", call(json!({ "name": "nope" })), (200, -32602)),
        ("a call without a name", call(json!({ "arguments": {} })), (400, -32602)),
        ("no object", call(json!({ "name": "t", "arguments": 5 })), (200, -32602)),
        ("a cursor of somewhere else", list(json!("x")), (200, -32602)),
        ("an empty cursor", list(json!("")), (200, -32602)),
        ("a cursor that is no string", list(json!(5)), (200, -32602)),
    ]
}

#[tokio::test]
async fn invalid_requests_name_the_problem() {
    let bench = bench().await;
    for (what, ask, expected) in [version_rows(), header_rows(), param_rows()].concat() {
        let got = bench.got(ask.build()).await;
        assert_eq!(got.error(), expected, "{what}: {got:?}");
        assert_eq!(got.headers["content-type"], "application/json", "{what}");
    }
    assert!(bench.calls().is_empty(), "nothing of it went on");
}

#[tokio::test]
async fn unsupported_version_lists_supported_ones() {
    let bench = bench().await;
    let ask =
        with_meta(list(), VERSION, json!("2031-01-01")).set("mcp-protocol-version", "2031-01-01");
    let error = bench.got(ask.build()).await.json()["error"].clone();
    let supported = json!(["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"]);
    assert_eq!(error["data"], json!({ "supported": supported, "requested": "2031-01-01" }));
    let discovered = bench.modern("", "server/discover", json!({})).await.result();
    assert_eq!(discovered["supportedVersions"], supported);
    assert_eq!(discovered["capabilities"], json!({ "tools": { "listChanged": true } }));
    assert!(discovered["ttlMs"].is_u64() && discovered["cacheScope"] == "private");
}

#[tokio::test]
async fn invalid_bodies_are_rejected() {
    let bench = bench().await;
    let big = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"x","params":{{"a":"{}"}}}}"#,
        "x".repeat(70_000)
    );
    let deep = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"x","params":{{"a":{}{}}}}}"#,
        "[".repeat(5000),
        "]".repeat(5000)
    );
    let rows: Vec<(&str, &str, (u16, i64))> = vec![
        ("nothing", "", (400, -32700)),
        ("no JSON", "{\"jsonrpc\":", (400, -32700)),
        ("a batch", r#"[{"jsonrpc":"2.0","id":1,"method":"tools/list"}]"#, (400, -32600)),
        ("an empty batch", "[]", (400, -32600)),
        ("a number", "5", (400, -32600)),
        ("another version", r#"{"jsonrpc":"1.0","id":1,"method":"x"}"#, (400, -32600)),
        ("no method", r#"{"jsonrpc":"2.0","id":1}"#, (400, -32600)),
        ("a null id", r#"{"jsonrpc":"2.0","id":null,"method":"x"}"#, (400, -32600)),
        ("a fractional id", r#"{"jsonrpc":"2.0","id":1.5,"method":"x"}"#, (400, -32600)),
        (
            "params by position",
            r#"{"jsonrpc":"2.0","id":1,"method":"x","params":[]}"#,
            (400, -32602),
        ),
        ("a response", r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, (400, -32600)),
        ("two methods", r#"{"jsonrpc":"2.0","id":1,"method":"a","method":"b"}"#, (400, -32600)),
        (
            "two names",
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","name":"b"}}"#,
            (400, -32602),
        ),
        (
            "meta that is no object",
            r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{"_meta":5}}"#,
            (400, -32602),
        ),
        ("too much", &big, (413, -32600)),
        ("too deep", &deep, (400, -32600)),
    ];
    for (what, body, expected) in rows {
        let got = bench.got(list().build_with(body.to_owned())).await;
        assert_eq!(got.error(), expected, "{what}: {got:?}");
    }
    let by_position = r#"{"jsonrpc":"2.0","id":"x","method":"x","params":[]}"#;
    let got = bench.got(list().build_with(by_position)).await;
    assert_eq!(got.json()["id"], "x", "the error has the id of its request");
    let latin1 = bench.got(list().build_with(&b"{\"jsonrpc\":\"2.0\",\"id\":\"\xe4\"}"[..])).await;
    assert_eq!(latin1.error(), (400, -32700));
}

#[tokio::test]
async fn body_without_length_is_limited() {
    let bench = bench().await;
    let spaces = || Ok::<_, std::io::Error>(bytes::Bytes::from_static(&[b' '; 4096]));
    let endless = futures_util::stream::repeat_with(spaces);
    let got = bench.got(list().build_with(axum::body::Body::from_stream(endless))).await;
    assert_eq!(got.error(), (413, -32600));
    let pieces = [Ok("{"), Err(std::io::Error::other("gone"))];
    let broken = axum::body::Body::from_stream(futures_util::stream::iter(pieces));
    assert_eq!(bench.got(list().build_with(broken)).await.error(), (400, -32600));
}

#[tokio::test]
async fn notifications_are_accepted() {
    let bench = bench().await;
    let mut ask = list();
    ask.body = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": {} });
    let got = bench.got(ask.clone().build()).await;
    assert_eq!((got.status.as_u16(), got.text.as_str()), (202, ""));
    let unknown = bench.got(ask.clone().set("mcp-protocol-version", "2031-01-01").build()).await;
    assert_eq!(unknown.error(), (400, -32022));
    let homeless = bench.got(ask.without("mcp-protocol-version").build()).await;
    assert_eq!(homeless.error(), (400, -32600));
}

#[tokio::test]
async fn other_http_methods_are_rejected() {
    let bench = bench().await;
    for method in ["PUT", "PATCH"] {
        let mut ask = list();
        ask.method = method.parse().unwrap();
        assert_eq!(bench.got(ask.build()).await.status, 405, "{method}");
    }
}

#[tokio::test]
async fn non_ascii_names_are_encoded() {
    let bench = Bench::start(Setup::default(), vec![]).await;
    let ask = Ask::modern("tools/call", json!({ "name": "größe" }));
    let got = bench.got(ask.set("mcp-name", "=?base64?Z3LDtsOfZQ==?=").build()).await;
    assert_eq!(got.error(), (200, -32602), "the header fits, the tool does not exist");
}

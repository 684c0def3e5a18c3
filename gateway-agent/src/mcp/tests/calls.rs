//! `tools/call` through the endpoint: requests to the upstream, and responses.

use std::collections::BTreeMap;

use gateway_policy::{RuntimeValidation, ToolValidation, ValidationMode};
use gateway_protocol::trace_context::Parent;
use serde_json::{Value, json};

use super::{
    harness::{Ask, Bench, Setup},
    relayed::acceptable,
};
use crate::testing::tool;

fn schema() -> Value {
    json!({ "type": "object", "required": ["q"], "additionalProperties": false,
        "properties": { "q": { "type": "string" }, "n": { "type": "integer" } } })
}

fn policy(input: ValidationMode, output: ValidationMode) -> Setup {
    let strict = Setup::default();
    let policy =
        RuntimeValidation { input_validation: input, output_validation: output, ..strict.policy };
    Setup { policy, ..strict }
}

#[tokio::test]
async fn valid_call_is_forwarded_unchanged() {
    let bench = Bench::strict(vec![tool(
        "alias",
        "1.0.0",
        json!({
        "inputSchema": schema(), "source": { "tool": "real" } }),
    )])
    .await;
    let got = bench.call("", "alias", json!({ "q": "ä\u{1F600}", "n": 1 })).await;
    let result = got.result();
    assert_eq!(result["structuredContent"], json!({ "q": "ä\u{1F600}", "n": 1 }));
    assert_eq!(result["resultType"], "complete");
    let seen = bench.calls().remove(0);
    assert_eq!(seen.body["params"]["name"], "real");
    assert_eq!(seen.headers["mcp-name"], "real", "the upstream's name, not the alias");
    assert!(!seen.headers.contains_key("x-agent-name"), "identity stops here");
}

#[tokio::test]
async fn arguments_are_forwarded_byte_for_byte() {
    let bench = Bench::start(
        policy(ValidationMode::Warn, ValidationMode::Ignore),
        vec![tool("t", "1.0.0", json!({}))],
    )
    .await;
    let ask = Ask::modern("tools/call", json!({ "name": "t" }));
    let body = ask.body.to_string().replace(
        r#""name":"t""#,
        r#""name":"t","arguments":{"b":1.0,"a":1e2,"big":12345678901234567890}"#,
    );
    bench.got(ask.build_with(body)).await.result();
    let text = bench.arguments()[0].to_string();
    assert_eq!(text, r#"{"b":1.0,"a":100.0,"big":12345678901234567890}"#);
}

#[tokio::test]
async fn tool_setting_overrides_general_setting() {
    let entities = || {
        let more = json!({ "inputSchema": schema(), "outputSchema": schema() });
        ["t", "u"].map(|name| tool(name, "1.0.0", more.clone())).into()
    };
    let only = |input, output| {
        let tool = "t".parse().unwrap();
        vec![ToolValidation { tool, input: Some(input), output: Some(output), contract: None }]
    };
    let bad = || json!({ "n": "x" });
    let strict = policy(ValidationMode::Error, ValidationMode::Error);
    let bench = Bench::start(
        Setup { tools: only(ValidationMode::Ignore, ValidationMode::Warn), ..strict },
        entities(),
    )
    .await;
    assert_eq!(bench.call("", "t", bad()).await.result()["structuredContent"], bad());
    assert!(bench.call("", "u", bad()).await.failure().contains("/n"));
    let lenient = policy(ValidationMode::Ignore, ValidationMode::Ignore);
    let bench = Bench::start(
        Setup { tools: only(ValidationMode::Ignore, ValidationMode::Error), ..lenient },
        entities(),
    )
    .await;
    assert!(bench.call("", "t", bad()).await.failure().contains("schema"));
    assert_eq!(bench.call("", "u", bad()).await.result()["structuredContent"], bad());
}

#[tokio::test]
async fn input_validation_follows_mode() {
    let entities = || vec![tool("t", "1.0.0", json!({ "inputSchema": schema() }))];
    let bad = json!({ "n": "x" });

    let strict =
        Bench::start(policy(ValidationMode::Error, ValidationMode::Ignore), entities()).await;
    let told = strict.call("", "t", bad.clone()).await.failure();
    assert!(told.contains("- /n: ") && told.contains("\"q\""), "{told}");
    assert!(strict.calls().is_empty(), "the upstream was not called");
    let none = strict.modern("", "tools/call", json!({ "name": "t" })).await.failure();
    assert!(none.contains("\"q\""), "no arguments are an empty object: {none}");
    let twice = Ask::modern("tools/call", json!({ "name": "t" }));
    let body = twice
        .body
        .to_string()
        .replace(r#""name":"t""#, r#""name":"t","arguments":{"q":"a","q":5}"#);
    let rejected = strict.got(twice.build_with(body)).await;
    assert_eq!(rejected.error(), (200, -32602));
    let message = rejected.json()["error"]["message"].clone();
    let names_both = |message: &str| message.contains(" t: ") && message.contains("\"/q\"");
    assert!(message.as_str().is_some_and(names_both), "{message}");

    for mode in [ValidationMode::Warn, ValidationMode::Ignore] {
        let lenient = Bench::start(policy(mode, ValidationMode::Ignore), entities()).await;
        lenient.call("", "t", bad.clone()).await.result();
        assert_eq!(lenient.arguments(), std::slice::from_ref(&bad));
    }
}

#[tokio::test]
async fn hidden_arguments_are_rejected_and_filled() {
    let document = json!({
        "inputSchema": { "type": "object", "required": ["q", "key"], "properties": {
            "q": {}, "key": { "type": "string" },
            "f": { "type": "object", "properties": { "tag": {}, "who": {} } } } },
        "source": { "hideFields": ["key", "f.who"],
            "defaults": { "key": "k-${TOKEN}", "f": { "who": "me" }, "limit": 5 } },
    });
    let variables = BTreeMap::from([("TOKEN".to_owned(), "s3cret".to_owned())]);
    let entities = || vec![tool("t", "1.0.0", document.clone())];
    let bench = Bench::start(Setup { variables, ..Setup::default() }, entities()).await;

    bench.call("", "t", json!({ "q": 1 })).await.result();
    bench.call("", "t", json!({ "q": 1, "limit": 9, "f": { "tag": 2 } })).await.result();
    assert_eq!(
        bench.arguments(),
        [
            json!({ "q": 1, "key": "k-s3cret", "f": { "who": "me" }, "limit": 5 }),
            json!({ "q": 1, "key": "k-s3cret", "f": { "who": "me", "tag": 2 }, "limit": 9 }),
        ]
    );
    for (arguments, pointer) in [
        (json!({ "q": 1, "key": "x" }), "/key"),
        (json!({ "q": 1, "f": { "who": null } }), "/f/who"),
    ] {
        assert!(bench.call("", "t", arguments).await.failure().contains(pointer));
    }
    assert_eq!(bench.calls().len(), 2);

    for mode in [ValidationMode::Error, ValidationMode::Warn, ValidationMode::Ignore] {
        let setup = Setup {
            variables: bench.gateway.settings().variables.clone(),
            ..policy(mode, ValidationMode::Ignore)
        };
        let bench = Bench::start(setup, entities()).await;
        for other in [json!(null), json!(r#"{"requester":"x"}"#), json!([{ "who": "x" }])] {
            let arguments = json!({ "q": 1, "f": other });
            let failure = bench.call("", "t", arguments).await.failure();
            assert!(failure.contains("/f"), "{mode:?} {other}: {failure}");
        }
        assert!(bench.calls().is_empty(), "{mode:?}");
    }

    let unset = Bench::strict(entities()).await;
    let got = unset.call("", "t", json!({ "q": 1 })).await;
    assert_eq!(got.error(), (200, -32603));
    assert!(got.text.contains("TOKEN"), "{got:?}");
    assert!(unset.calls().is_empty());
}

#[tokio::test]
async fn annotated_arguments_are_checked_and_mirrored() {
    let live = json!({ "name": "real", "inputSchema": { "type": "object", "properties": {
        "region": { "type": "string", "x-mcp-header": "Area" } } } });
    let entities = vec![tool("t", "1.0.0", json!({ "source": { "tool": "real" } }))];
    let bench =
        Bench::start(Setup { lists: json!([live]).to_string(), ..Setup::default() }, entities)
            .await;
    let ask = Ask::modern("tools/call", json!({ "name": "t", "arguments": { "region": "eu" } }));
    bench.got(ask.clone().with("mcp-param-area", "=?base64?ZXU=?=").build()).await.result();
    assert_eq!(bench.calls()[0].headers["mcp-param-area"], "eu");
    assert_eq!(
        bench.got(ask.clone().with("mcp-param-area", "us").build()).await.error(),
        (400, -32020)
    );
    assert_eq!(bench.got(ask.build()).await.error(), (400, -32020));
    let session = bench.initialize("").await;
    let params = json!({ "name": "t", "arguments": { "region": "eu" } });
    bench.legacy(&session, "", ("tools/call", params)).await.result();
}

#[tokio::test]
async fn results_match_era_without_reserved_metadata() {
    let bench = Bench::strict(vec![tool("says", "1.0.0", json!({}))]).await;
    let session = bench.initialize("").await;
    let ours = &json!({ "name": "gateway-agent", "title": "Registry gateway", "version": env!("CARGO_PKG_VERSION") });
    let ours = json!({ "io.modelcontextprotocol/serverInfo": ours });
    let meta = json!({ "io.modelcontextprotocol/serverInfo": { "name": "gateway", "version": "6" },
        "com.mcp.tools/x": 1, "com.example.mcp/x": 2, "traceparent": "t" });
    let mut kept = json!({ "com.example.mcp/x": 2, "traceparent": "t" });
    let legacy_kept = kept.clone();
    kept.as_object_mut().unwrap().extend(ours.as_object().unwrap().clone());
    let rows = [
        (
            json!({ "content": [] }),
            json!({ "content": [], "resultType": "complete", "_meta": ours }),
            json!({ "content": [] }),
        ),
        (json!({}), json!({ "resultType": "complete", "_meta": ours }), json!({})),
        (
            json!({ "content": [], "resultType": "complete" }),
            json!({ "content": [], "resultType": "complete", "_meta": ours }),
            json!({ "content": [] }),
        ),
        (
            json!({ "resultType": "complete", "structuredContent": [1], "_meta": meta, "x": 1.0 }),
            json!({ "resultType": "complete", "structuredContent": [1], "_meta": kept, "x": 1.0 }),
            json!({ "_meta": legacy_kept, "x": 1.0 }),
        ),
        (
            json!({ "structuredContent": { "a": 1 }, "_meta": {} }),
            json!({ "resultType": "complete", "structuredContent": { "a": 1 }, "_meta": ours }),
            json!({ "structuredContent": { "a": 1 } }),
        ),
    ];
    for (upstream, modern, legacy) in rows {
        let arguments = json!({ "result": upstream });
        assert_eq!(bench.call("", "says", arguments.clone()).await.result(), modern);
        let params = json!({ "name": "says", "arguments": arguments });
        assert_eq!(bench.legacy(&session, "", ("tools/call", params)).await.result(), legacy);
    }
}

#[tokio::test]
async fn failures_are_results_or_errors() {
    let names = ["fails", "rpc", "slow", "says"];
    let mut entities: Vec<_> = names.iter().map(|name| tool(name, "1.0.0", json!({}))).collect();
    entities.push(tool("nowhere", "1.0.0", json!({ "source": { "server": "elsewhere" } })));
    let bench = Bench::strict(entities).await;
    let call = async |tool: &str, arguments: Value| bench.call("", tool, arguments).await;

    let result = call("fails", json!({})).await.result();
    assert_eq!((&result["isError"], &result["content"]), (&json!(true), &json!([])));
    assert!(call("slow", json!({})).await.failure().contains("500 ms"));
    assert!(call("says", json!({ "result": 5 })).await.failure().contains("protocol"));
    assert_eq!(call("nowhere", json!({})).await.error(), (200, -32602));
    for (upstream, relayed) in
        [(-32602, -32602), (-32603, -32603), (7, 7), (-32002, -32603), (-32042, -32603)]
    {
        let got = call("rpc", json!({ "code": upstream })).await;
        assert_eq!(got.error(), (200, relayed));
        assert_eq!(got.json()["error"]["data"], json!([1]));
    }
}

#[tokio::test]
async fn output_validation_follows_mode() {
    let entities = || {
        let output = json!({ "type": "object", "properties": { "secret": { "type": "string" } }, "required": ["secret"] });
        vec![
            tool("says", "1.0.0", json!({ "outputSchema": output })),
            tool("fails", "1.0.0", json!({ "outputSchema": output })),
        ]
    };
    let good = json!({ "result": { "content": [], "structuredContent": { "secret": "s" } } });
    let bad = json!({ "result": { "content": [], "structuredContent": { "secret": 4711 } } });
    let none = json!({ "result": { "content": [] } });

    let strict =
        Bench::start(policy(ValidationMode::Ignore, ValidationMode::Error), entities()).await;
    strict.call("", "says", good).await.result();
    let told = strict.call("", "says", bad.clone()).await.failure();
    assert!(told.contains("/secret") && !told.contains("4711"), "{told}");
    strict.call("", "says", none).await.failure();
    assert_eq!(strict.call("", "fails", json!({})).await.result()["isError"], true);

    for mode in [ValidationMode::Warn, ValidationMode::Ignore] {
        let lenient = Bench::start(policy(ValidationMode::Ignore, mode), entities()).await;
        let result = lenient.call("", "says", bad.clone()).await.result();
        assert_eq!(result["structuredContent"], json!({ "secret": 4711 }));
    }
}

#[tokio::test]
async fn unusable_schema_rejects_only_required_validation() {
    let entities =
        || vec![tool("t", "1.0.0", json!({ "inputSchema": { "$ref": "#Missing:1.0.0" } }))];
    let strict = Bench::strict(entities()).await;
    assert_eq!(strict.call("", "t", json!({})).await.error(), (200, -32603));
    let listed = strict.modern("", "tools/list", json!({})).await.result();
    assert_eq!(listed["tools"][0]["inputSchema"], json!({ "type": "object" }));
    let lenient =
        Bench::start(policy(ValidationMode::Warn, ValidationMode::Ignore), entities()).await;
    lenient.call("", "t", json!({})).await.result();
}

#[tokio::test]
async fn trace_context_is_forwarded() {
    let bench = Bench::strict(vec![tool("t", "1.0.0", json!({}))]).await;
    let trace = "0123456789abcdef0123456789abcdef";
    let parent = format!("00-{trace}-0123456789abcdef-01");
    let ask = Ask::modern("tools/call", json!({ "name": "t", "_meta": { "traceparent": parent } }));
    let ask = ask.with("traceparent", "00-header").with("tracestate", "s=1");
    bench.got(ask.build()).await.result();
    let seen = &bench.calls()[0];
    let meta = &seen.body["params"]["_meta"];
    let told = meta["traceparent"].as_str().unwrap();
    assert!(told.starts_with(&format!("00-{trace}-")) && told.ends_with("-01"), "{told}");
    assert_ne!(told, parent, "the gateway's own span is the parent");
    assert_eq!(meta["tracestate"], "s=1");
    assert_eq!(seen.headers["traceparent"], told);
    assert_eq!(seen.headers["tracestate"], "s=1");
}

#[tokio::test]
async fn invalid_trace_context_starts_new_trace() {
    let bench = Bench::strict(vec![tool("t", "1.0.0", json!({}))]).await;
    let meta = json!({ "traceparent": "00-meta", "tracestate": "s=1", "baggage": "k=v" });
    let ask = Ask::modern("tools/call", json!({ "name": "t", "_meta": meta }));
    bench.got(ask.build()).await.result();
    let meta = &bench.calls()[0].body["params"]["_meta"];
    assert!(Parent::parse(meta["traceparent"].as_str().unwrap()).is_some());
    assert!(meta.get("tracestate").is_none(), "it belongs to the parent that it came with");
    assert_eq!(meta["baggage"], "k=v");
}

#[tokio::test]
async fn disconnected_client_cancels_upstream_call() {
    let bench = Bench::strict(vec![tool("slow", "1.0.0", json!({}))]).await;
    let ask = Ask::modern("tools/call", json!({ "name": "slow" }));
    tokio::select! {
        response = bench.send(ask.build()) => panic!("the upstream never answers: {response:?}"),
        () = bench.until_called(1) => {}
    }
    acceptable(|| bench.upstream.cut_off() == 1).await;
    assert_eq!(bench.calls().len(), 1);
}

#[tokio::test]
async fn call_keeps_its_catalog() {
    let bench = Bench::strict(vec![tool("slow", "1.0.0", json!({}))]).await;
    let call = bench.call("", "slow", json!({}));
    let swap = async {
        bench.until_called(1).await;
        bench.publish(2, vec![]);
        bench.call("", "slow", json!({})).await
    };
    let (old, new) = tokio::join!(call, swap);
    assert!(old.failure().contains("500 ms"));
    assert_eq!(new.error(), (200, -32602));
}

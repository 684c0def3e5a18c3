//! Tools with a projected result: only the projection reaches the caller.

use std::collections::BTreeMap;

use gateway_policy::{RuntimeValidation, ValidationMode};
use gateway_protocol::mcp::Era;
use gateway_upstream::UpstreamLimits;
use serde_json::{Value, json};

use super::{
    far_side::FarSide,
    harness::{Ask, Bench, Setup},
};
use crate::testing::{Registered, agent, server, tool};

/// The secret that must never reach the caller.
const SECRET: &str = "s3cret";

fn mapped(name: &str, more: &Value) -> Registered {
    let mut document = json!({ "outputTransform": { "mappings": {
        "id": { "path": "$.id" }, "many": { "path": "$.list[*]" } } } });
    document.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    tool(name, "1.0.0", document)
}

async fn says(more: Value, output: ValidationMode) -> Bench {
    let strict = Setup::default();
    let policy = RuntimeValidation { output_validation: output, ..strict.policy };
    Bench::start(Setup { policy, ..strict }, vec![mapped("says", &more)]).await
}

fn text(value: &Value) -> Value {
    json!([{ "type": "text", "text": value.to_string() }])
}

#[tokio::test]
async fn only_projected_object_is_returned() {
    let bench = says(json!({}), ValidationMode::Ignore).await;
    let session = bench.initialize("").await;
    let meta =
        json!({ "x/leak": SECRET, "io.modelcontextprotocol/serverInfo": { "name": SECRET } });
    let full = json!({ "id": 1, "list": [SECRET.len(), 2], "more": SECRET });
    let projected = json!({ "id": 1, "many": [6, 2] });
    let rows = [
        (
            json!({ "structuredContent": full, "content": text(&json!(SECRET)), "_meta": meta, "x": SECRET }),
            &projected,
        ),
        (json!({ "resultType": "complete", "structuredContent": full, "content": [] }), &projected),
        (
            json!({ "content": [{ "type": "image", "data": SECRET }, { "type": "text", "text": full.to_string(), "_meta": meta }] }),
            &projected,
        ),
        (json!({ "structuredContent": null, "content": text(&full) }), &projected),
        (json!({ "structuredContent": [SECRET] }), &json!({ "id": null, "many": null })),
    ];
    for (upstream, projected) in rows {
        let arguments = json!({ "result": upstream });
        let got = bench.call("", "says", arguments.clone()).await;
        assert!(!got.text.contains(SECRET), "{got:?}");
        let mut expected = json!({ "content": text(projected), "structuredContent": projected, "resultType": "complete" });
        let mut result = got.result();
        let ours = result.as_object_mut().unwrap().remove("_meta").unwrap();
        assert_eq!(ours["io.modelcontextprotocol/serverInfo"]["name"], "gateway-agent");
        assert_eq!(result, expected, "{upstream}");

        let params = json!({ "name": "says", "arguments": arguments });
        let got = bench.legacy(&session, "", ("tools/call", params)).await;
        expected.as_object_mut().unwrap().remove("resultType");
        assert_eq!(got.result(), expected, "{upstream}");
    }
}

#[tokio::test]
async fn unprojectable_result_is_rejected() {
    let bench = says(json!({}), ValidationMode::Ignore).await;
    let session = bench.initialize("").await;
    let rows = [
        (json!({ "content": [] }), "no structuredContent, and no text"),
        (json!({}), "no structuredContent, and no text"),
        (json!({ "content": [{ "type": "image", "data": SECRET }] }), "and no text"),
        (json!({ "content": SECRET }), "and no text"),
        (json!({ "content": [{ "type": "text", "text": SECRET }] }), "the first text is not JSON"),
        (
            json!({ "content": [{ "type": "text", "text": SECRET }, { "type": "text", "text": "{}" }] }),
            "is not JSON",
        ),
        (json!({ "taskId": SECRET, "resultType": "task" }), "violated the protocol"),
    ];
    for (upstream, why) in rows {
        let arguments = json!({ "result": upstream });
        let modern = bench.call("", "says", arguments.clone()).await;
        let params = json!({ "name": "says", "arguments": arguments });
        let legacy = bench.legacy(&session, "", ("tools/call", params)).await;
        for got in [modern, legacy] {
            assert!(got.failure().contains(why), "{upstream}: {got:?}");
            assert!(!got.text.contains(SECRET), "{got:?}");
            assert_eq!(got.json()["result"].get("structuredContent"), None);
        }
    }
}

#[tokio::test]
async fn tool_error_keeps_only_texts() {
    let bench = says(
        json!({ "outputSchema": { "type": "object", "required": ["never"] } }),
        ValidationMode::Error,
    )
    .await;
    let upstream = json!({ "isError": true, "structuredContent": { "id": SECRET }, "_meta": { "x": SECRET },
        "content": [
            { "type": "text", "text": "no such id", "_meta": { "x": SECRET } },
            { "type": "resource", "resource": { "uri": "a:b", "text": SECRET } },
            { "type": "text", "text": "try 7" },
        ] });
    let got = bench.call("", "says", json!({ "result": upstream })).await;
    assert!(!got.text.contains(SECRET), "{got:?}");
    let result = got.result();
    let words =
        json!([{ "type": "text", "text": "no such id" }, { "type": "text", "text": "try 7" }]);
    assert_eq!((&result["content"], &result["isError"]), (&words, &json!(true)));
    assert_eq!(result["resultType"], "complete");

    let bench = Bench::strict(vec![mapped("rpc", &json!({}))]).await;
    let got = bench.call("", "rpc", json!({ "code": 7 })).await;
    assert_eq!(got.json()["error"], json!({ "code": 7, "message": "m" }), "its data does not pass");
}

#[tokio::test]
async fn output_schema_applies_to_projection() {
    let schema = |kind: &str| {
        json!({ "type": "object", "required": ["id"], "additionalProperties": false,
            "properties": { "id": { "type": kind }, "many": {} } })
    };
    let arguments = json!({ "result": { "structuredContent": { "id": 5, "other": SECRET } } });
    for (kind, mode, is_refused) in [
        ("integer", ValidationMode::Error, false),
        ("string", ValidationMode::Error, true),
        ("string", ValidationMode::Warn, false),
        ("string", ValidationMode::Ignore, false),
    ] {
        let bench = says(json!({ "outputSchema": schema(kind) }), mode).await;
        let got = bench.call("", "says", arguments.clone()).await;
        assert_eq!(got.result()["isError"] == true, is_refused, "{kind} {mode:?} {got:?}");
        assert!(!got.text.contains(SECRET));
    }
}

#[tokio::test]
async fn listed_output_schema_is_registered_one() {
    let live = json!([{ "name": "real", "title": "Live", "icons": [{ "src": "https://x/i.png" }],
        "annotations": { "readOnlyHint": true }, "inputSchema": { "type": "object" },
        "outputSchema": { "type": "object", "properties": { "secret": {} } } }]);
    let source = json!({ "server": "up", "serverVersion": "1.0.0", "tool": "real" });
    let own = json!({ "type": "object", "properties": { "id": {} } });
    let entities = vec![
        tool("alias", "1.0.0", json!({ "source": source })),
        mapped("bare", &json!({ "source": source })),
        mapped("typed", &json!({ "source": source, "outputSchema": own })),
    ];
    let bench = Bench::start(Setup { lists: live.to_string(), ..Setup::default() }, entities).await;
    let listed = bench.modern("", "tools/list", json!({})).await.result();
    let tools: BTreeMap<_, _> = listed["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| (tool["name"].as_str().unwrap(), tool))
        .collect();
    assert_eq!(tools["alias"]["outputSchema"], live[0]["outputSchema"]);
    assert_eq!(tools["bare"].get("outputSchema"), None);
    assert_eq!(tools["typed"]["outputSchema"], own);
    for tool in tools.values() {
        for inherited in ["title", "icons", "annotations"] {
            assert_eq!(tool[inherited], live[0][inherited], "{tool}");
        }
    }
}

const TOOLS: [&str; 3] = ["asks", "tells", "works"];

async fn talkative(era: Era) -> (Bench, FarSide) {
    let (far_side, transport) = FarSide::start(era).await;
    let mappings = json!({ "outputTransform": { "mappings": { "said": { "path": "$" } } } });
    let mut entities: Vec<_> =
        TOOLS.map(|name| tool(name, "1.0.0", mappings.clone())).into_iter().collect();
    entities.push(server("up", &TOOLS, &[]));
    entities.push(agent("a", "1.0.0", &TOOLS.map(|tool| (tool, "1.0.0"))));
    let limits = UpstreamLimits { call_timeout_ms: 3_000, ..UpstreamLimits::default() };
    (
        Bench::start(Setup { transport: Some(transport), limits, ..Setup::default() }, entities)
            .await,
        far_side,
    )
}

fn asking(tool: &str, more: &Value) -> Ask {
    let mut ask = Ask::modern("tools/call", json!({ "name": tool })).by("a");
    let params = ask.body["params"].as_object_mut().unwrap();
    params.extend(more.as_object().unwrap().clone());
    let meta = &mut ask.body["params"]["_meta"];
    meta["progressToken"] = json!("p");
    meta["io.modelcontextprotocol/logLevel"] = json!("debug");
    meta["io.modelcontextprotocol/clientCapabilities"] = json!({ "elicitation": {}, "extensions": { "io.modelcontextprotocol/tasks": {}, "x/y": {} } });
    ask
}

#[tokio::test]
async fn only_progress_numbers_are_forwarded() {
    for era in [Era::Modern, Era::Legacy] {
        let (bench, _) = talkative(era).await;
        let got = bench.got(asking("tells", &json!({})).build()).await;
        let data = got.text.lines().filter_map(|line| line.strip_prefix("data: "));
        let messages: Vec<Value> = data.map(|data| serde_json::from_str(data).unwrap()).collect();
        let told: Vec<_> = messages.iter().filter(|message| !message["method"].is_null()).collect();
        let progress: Vec<_> = told.iter().map(|message| &message["params"]).collect();
        let numbers = [1, 5, 9].map(|n| json!({ "progressToken": "p", "progress": n }));
        assert_eq!(progress, numbers.iter().collect::<Vec<_>>(), "{era:?}: no words, no logs");
        // The text of this tool is not JSON.
        let last = messages.last().unwrap();
        assert_eq!(last["result"]["isError"], true, "{last}");
        assert!(!got.text.contains("done"), "{got:?}");
    }
}

#[tokio::test]
async fn questions_are_forwarded_and_results_projected() {
    let (bench, _) = talkative(Era::Modern).await;
    let asked = bench.got(asking("asks", &json!({})).build()).await.result();
    assert_eq!(asked["resultType"], "input_required");
    assert_eq!(asked["requestState"], "s-1");
    assert_eq!(asked["inputRequests"]["who"]["params"]["message"], "?");
    let mut names: Vec<_> = asked.as_object().unwrap().keys().collect();
    names.sort();
    assert_eq!(names, ["_meta", "inputRequests", "requestState", "resultType"]);
    let answer =
        json!({ "requestState": "s-1", "inputResponses": { "who": { "action": "accept" } } });
    let result = bench.got(asking("asks", &answer).build()).await.result();
    assert_eq!(result["structuredContent"], json!({ "said": { "action": "accept" } }));
}

#[tokio::test]
async fn projected_tool_has_no_tasks() {
    for era in [Era::Modern, Era::Legacy] {
        let (bench, far_side) = talkative(era).await;
        let ask = asking("works", &json!({ "task": { "ttl": 1 } }));
        let got = bench.got(ask.build()).await;
        assert!(got.failure().contains("protocol"), "{got:?}");
        assert!(!got.text.contains("7+7"), "{got:?}");
        let seen = far_side.seen("tools/call").remove(0).1;
        assert!(seen["params"].get("task").is_none(), "{seen}");
        if era == Era::Modern {
            let told = &seen["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"];
            assert_eq!(*told, json!({ "elicitation": {}, "extensions": { "x/y": {} } }));
        }
    }
}

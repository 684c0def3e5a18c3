//! Messages and features other than plain calls, in each pair of protocol eras: questions, progress,
//! logs, prompts and resources.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use futures_util::StreamExt as _;
use gateway_protocol::{mcp::Era, naming::Prefix};
use gateway_upstream::{TransportConfig, UpstreamLimits};
use http::Method;
use serde_json::{Value, json};

use super::{
    far_side::FarSide,
    harness::{Ask, Bench, Setup},
};
use crate::testing::{Registered, agent, server, tool};

pub(super) const ERAS: [Era; 2] = [Era::Modern, Era::Legacy];
const TOOLS: [&str; 4] = ["asks", "tells", "aside", "works"];

pub(super) async fn bench(era: Era, prefix: &str) -> (Bench, FarSide) {
    let (far_side, transport) = FarSide::start(era).await;
    let setup = Setup {
        transport: Some(transport),
        prefix: Prefix::parse(prefix).unwrap(),
        limits: UpstreamLimits { call_timeout_ms: 3_000, ..UpstreamLimits::default() },
        ..Setup::default()
    };
    let entities = vec![
        server("up", &TOOLS, &["prompts", "resources"]),
        tool("asks", "1.0.0", json!({})),
        tool("tells", "1.0.0", json!({})),
        tool("aside", "1.0.0", json!({})),
        tool("works", "1.0.0", json!({})),
        agent("a", "1.0.0", &TOOLS.map(|tool| (tool, "1.0.0"))),
        agent("b", "1.0.0", &[]),
    ];
    (Bench::start(setup, entities).await, far_side)
}

/// A gateway whose upstream has the tool `asks`, which asks the client.
pub(super) async fn asking(transport: TransportConfig, policies: Vec<Registered>) -> Bench {
    let limits = UpstreamLimits { call_timeout_ms: 3_000, ..UpstreamLimits::default() };
    let setup = Setup { transport: Some(transport), limits, ..Setup::default() };
    let mut entities = vec![
        server("up", &["asks"], &[]),
        tool("asks", "1.0.0", json!({})),
        agent("a", "1.0.0", &[("asks", "1.0.0")]),
    ];
    entities.extend(policies);
    Bench::start(setup, entities).await
}

/// A stateless request of a client with elicitation.
pub(crate) fn able(method: &str, params: Value) -> Ask {
    let mut ask = Ask::modern(method, params).by("a");
    ask.body["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
        json!({ "elicitation": {} });
    ask
}

/// A session of a client with elicitation.
pub(crate) async fn able_session(bench: &Bench) -> String {
    let mut ask = Ask::initialize("2025-11-25").by("a");
    ask.body["params"]["capabilities"] = json!({ "elicitation": {} });
    let got = bench.got(ask.build()).await;
    got.headers["mcp-session-id"].to_str().unwrap().to_owned()
}

pub(super) fn messages(text: &str) -> Vec<Value> {
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    // The first event of a session's stream has only an id.
    data.filter(|data| !data.is_empty()).map(|data| serde_json::from_str(data).unwrap()).collect()
}

/// Calls in a session, answers questions with `answer`, and returns the result.
pub(super) async fn asked(bench: &Bench, session: &str, (tool, answer): (&str, Value)) -> Value {
    answered(bench, session, (json!({ "name": tool }), answer)).await
}

/// Like [`asked`], with the parameters of the call.
pub(crate) async fn answered(
    bench: &Bench,
    session: &str,
    (call, answer): (Value, Value),
) -> Value {
    static NEXT: AtomicU64 = AtomicU64::new(100);
    let mut ask = Ask::legacy(session, "tools/call", call).by("a");
    ask.body["id"] = json!(NEXT.fetch_add(1, Ordering::Relaxed));
    let response = bench.send(ask.build()).await;
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let mut body = response.into_body().into_data_stream();
    let mut text = String::new();
    loop {
        let chunk = body.next().await.expect("more events").unwrap();
        text.push_str(std::str::from_utf8(&chunk).unwrap());
        let Some(last) = messages(&text).pop() else { continue };
        if last["method"] == "elicitation/create" {
            let mut reply = Ask::legacy(session, "", json!({})).by("a");
            reply.body = json!({ "jsonrpc": "2.0", "id": last["id"] });
            reply.body.as_object_mut().unwrap().extend(answer.as_object().unwrap().clone());
            assert_eq!(bench.got(reply.build()).await.status, 202);
            text.clear();
        } else {
            return last["result"].clone();
        }
    }
}

#[tokio::test]
async fn session_client_is_asked_in_any_era() {
    for era in ERAS {
        let (bench, _) = bench(era, "").await;
        let session = able_session(&bench).await;
        let accepted = json!({ "result": { "action": "accept", "content": { "n": 1 } } });
        let result = asked(&bench, &session, ("asks", accepted)).await;
        let said: Value =
            serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!(said, json!({ "action": "accept", "content": { "n": 1 } }), "{era:?}");
        assert!(result.get("resultType").is_none(), "{era:?}: {result}");
        // Two concurrent calls do not mix.
        let answer = |n: u64| json!({ "result": { "n": n } });
        let (one, two) = tokio::join!(
            asked(&bench, &session, ("asks", answer(1))),
            asked(&bench, &session, ("asks", answer(2)))
        );
        assert_eq!(one["content"][0]["text"], r#"{"n":1}"#);
        assert_eq!(two["content"][0]["text"], r#"{"n":2}"#);
    }
}

#[tokio::test]
async fn call_can_be_cancelled_during_question() {
    let (bench, far_side) = bench(Era::Legacy, "").await;
    let session = able_session(&bench).await;
    let ask = Ask::legacy(&session, "tools/call", json!({ "name": "asks" })).by("a");
    let mut body = bench.send(ask.build()).await.into_body().into_data_stream();
    let first = body.next().await.unwrap().unwrap();
    assert!(first.ends_with(b"\ndata: \n\n"), "an id alone: {first:?}");
    let chunk = body.next().await.unwrap().unwrap();
    assert!(String::from_utf8_lossy(&chunk).contains("elicitation/create"), "{chunk:?}");
    assert!(far_side.seen("notifications/cancelled").is_empty());
    let mut cancel = Ask::legacy(&session, "", json!({})).by("a");
    cancel.body = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled",
        "params": { "requestId": 8 } });
    assert_eq!(bench.got(cancel.build()).await.status, 202);
    // The client keeps reading the body.
    let rest = tokio::time::timeout(Duration::from_secs(5), body.next()).await;
    assert!(rest.is_ok(), "the stream ends");
    acceptable(|| far_side.seen("notifications/cancelled").len() == 1).await;
    let called = &far_side.seen("tools/call")[0].1;
    let cancelled = &far_side.seen("notifications/cancelled")[0].1;
    assert_eq!(cancelled["params"]["requestId"], called["id"]);
}

#[tokio::test]
async fn unaddressed_question_reaches_session_client() {
    let (bench, far_side) = bench(Era::Legacy, "").await;
    let session = able_session(&bench).await;
    // The first call opens the upstream session and its event stream.
    bench.legacy(&session, "a", ("tools/call", json!({ "name": "tells" }))).await;
    acceptable(|| far_side.listeners() == 2).await;
    let accepted = json!({ "result": { "action": "accept" } });
    let result = asked(&bench, &session, ("aside", accepted)).await;
    assert_eq!(result["content"][0]["text"], r#"{"action":"accept"}"#);
}

#[tokio::test]
async fn stateless_client_sends_input_in_any_era() {
    for era in ERAS {
        let (bench, _) = bench(era, "").await;
        let first = bench.got(able("tools/call", json!({ "name": "asks" })).build()).await.result();
        assert_eq!(first["resultType"], "input_required", "{era:?}: {first}");
        let (key, asked) = first["inputRequests"].as_object().unwrap().iter().next().unwrap();
        assert_eq!(asked["method"], "elicitation/create");
        let again = |name: &str| {
            json!({ "name": name, "requestState": first["requestState"],
                "inputResponses": { key: { "action": "accept" } } })
        };
        let second = bench.got(able("tools/call", again("asks")).build()).await.result();
        assert_eq!(second["content"][0]["text"], r#"{"action":"accept"}"#, "{era:?}");
        assert_eq!(second["resultType"], "complete");
    }
}

#[tokio::test]
async fn held_request_belongs_to_caller_once() {
    let (bench, far_side) = bench(Era::Legacy, "").await;
    let ask = async |params: Value| bench.got(able("tools/call", params).build()).await;
    let first = ask(json!({ "name": "asks" })).await.result();
    let state = first["requestState"].clone();
    let bring = |name: &str, responses: Value| json!({ "name": name, "requestState": state, "inputResponses": responses });
    let answer = json!({ "input": { "action": "accept" } });
    let mut foreign = able("tools/call", bring("asks", answer.clone()));
    foreign.headers.retain(|(name, _)| name != "x-agent-name");
    assert_eq!(bench.got(foreign.build()).await.error(), (200, -32602));
    assert_eq!(ask(bring("tells", answer.clone())).await.error(), (200, -32602));
    // Without an answer, the question is repeated.
    let again = ask(bring("asks", json!({ "x": 1 }))).await.result();
    assert_eq!(again["resultType"], "input_required");
    assert_ne!(again["requestState"], state);
    assert_eq!(ask(bring("asks", answer.clone())).await.error(), (200, -32602), "used up");
    let state = again["requestState"].clone();
    let last = json!({ "name": "asks", "requestState": state, "inputResponses": answer });
    assert!(ask(last).await.text.contains("accept"));
    assert_eq!(far_side.seen("tools/call").len(), 1, "the upstream was called once");
}

#[tokio::test]
async fn undeclared_capability_is_never_asked() {
    for era in ERAS {
        let (bench, _) = bench(era, "").await;
        let got = bench.call("a", "asks", json!({})).await;
        let session = bench.initialize("a").await;
        let in_session =
            bench.legacy(&session, "a", ("tools/call", json!({ "name": "asks" }))).await;
        match era {
            Era::Modern => {
                assert_eq!(got.error(), (400, -32021));
                let data = &got.json()["error"]["data"];
                assert_eq!(data, &json!({ "requiredCapabilities": { "elicitation": {} } }));
                assert_eq!(in_session.error(), (400, -32021));
            }
            // The upstream receives the error and returns a result.
            Era::Legacy => {
                assert_eq!(got.result()["content"][0]["text"], "-32601");
                assert_eq!(in_session.result()["content"][0]["text"], "-32601");
            }
        }
    }
}

#[tokio::test]
async fn progress_increases_and_logs_respect_level() {
    for era in ERAS {
        let (bench, far_side) = bench(era, "").await;
        let meta =
            json!({ "progressToken": "mine", "io.modelcontextprotocol/logLevel": "warning" });
        let call = json!({ "name": "tells", "_meta": meta });
        let told = messages(&bench.got(able("tools/call", call).build()).await.text);
        let progress = |m: &&Value| m["method"] == "notifications/progress";
        let steps: Vec<_> = told.iter().filter(progress).map(|m| &m["params"]).collect();
        assert!(steps.iter().all(|step| step["progressToken"] == "mine"), "{told:?}");
        assert_eq!(
            steps.iter().map(|s| s["progress"].as_u64().unwrap()).collect::<Vec<_>>(),
            [1, 5, 9]
        );
        let logs = |m: &&Value| m["method"] == "notifications/message";
        let logs: Vec<_> = told.iter().filter(logs).map(|m| &m["params"]["level"]).collect();
        assert_eq!(logs, ["warning"], "{era:?}");
        assert_eq!(told.last().unwrap()["result"]["content"][0]["text"], "done");
        if era == Era::Legacy {
            assert_eq!(far_side.seen("logging/setLevel")[0].1["params"]["level"], "warning");
        }
        // Without progress and logs, the response is JSON.
        let plain = bench.call("a", "tells", json!({})).await;
        assert_eq!(plain.headers["content-type"], "application/json", "{era:?}");
        assert_eq!(plain.result()["content"][0]["text"], "done");
    }
}

#[tokio::test]
async fn prompts_and_resources_have_server_prefix() {
    for era in ERAS {
        let (bench, far_side) = bench(era, "up").await;
        let ask = async |method: &str, params: Value| bench.modern("a", method, params).await;
        bench.until_features().await;
        let prompts = ask("prompts/list", json!({})).await.result();
        assert_eq!(prompts["prompts"], json!([{ "name": "up/p", "title": "P" }]));
        let resources = ask("resources/list", json!({})).await.result();
        assert_eq!(resources["resources"][0]["uri"], "up+test://r");
        let templates = ask("resources/templates/list", json!({})).await.result();
        assert_eq!(templates["resourceTemplates"][0]["uriTemplate"], "up+test://{id}");
        let prompt = ask("prompts/get", json!({ "name": "up/p" })).await.result();
        assert_eq!(prompt["messages"][0]["content"]["resource"]["uri"], "up+test://r");
        assert_eq!(far_side.seen("prompts/get")[0].1["params"]["name"], "p");
        let read = |uri: &str| {
            Ask::modern("resources/read", json!({ "uri": uri })).with("mcp-name", uri).by("a")
        };
        let got = bench.got(read("up+test://r").build()).await.result();
        assert_eq!(got["contents"][0]["uri"], "up+test://r");
        assert_eq!((&got["cacheScope"], &got["ttlMs"]), (&json!("private"), &json!(0)));
        for unknown in ["up+test://none", "test://r", "other+test://r"] {
            let got = bench.got(read(unknown).build()).await;
            assert_eq!(got.error(), (200, -32602), "{unknown}");
            assert_eq!(got.json()["error"]["data"]["uri"], unknown);
        }
        let reference = json!({ "type": "ref/resource", "uri": "up+test://{id}" });
        let argument = json!({ "name": "id", "value": "" });
        let completed =
            ask("completion/complete", json!({ "ref": reference, "argument": argument }));
        let completed = completed.await.result();
        let seen = completed["completion"]["values"][0].as_str().unwrap();
        assert!(seen.contains(r#""uri":"test://{id}""#), "{seen}");
        assert_eq!(ask("prompts/get", json!({ "name": "p" })).await.error(), (200, -32602));
    }
}

#[tokio::test]
async fn caller_without_tools_sees_no_features() {
    let (bench, far_side) = bench(Era::Modern, "").await;
    bench.until_features().await;
    let discovered = bench.modern("b", "server/discover", json!({})).await.result();
    assert_eq!(discovered["capabilities"], json!({ "tools": { "listChanged": true } }));
    assert!(discovered.get("instructions").is_none());
    assert_eq!(bench.modern("b", "prompts/list", json!({})).await.error(), (404, -32601));
    assert_eq!(
        bench.modern("b", "prompts/get", json!({ "name": "p" })).await.error(),
        (404, -32601)
    );
    assert!(far_side.seen("prompts/get").is_empty());
    let discovered = bench.modern("a", "server/discover", json!({})).await.result();
    assert_eq!(
        discovered["capabilities"]["resources"],
        json!({ "listChanged": true, "subscribe": true })
    );
    assert_eq!(discovered["instructions"], "# up\n\n> Be kind.");
}

#[tokio::test]
async fn task_ids_are_sealed_per_caller() {
    for prefix in ["up", ""] {
        let (bench, far_side) = bench(Era::Modern, prefix).await;
        bench.until_features().await;
        let task =
            bench.got(knowing("tools/call", json!({ "name": "works" })).build()).await.result();
        let known = task["taskId"].as_str().unwrap();
        assert!(task["resultType"] == "task" && !known.contains("7+7"), "{task}");
        let get = knowing("tasks/get", json!({ "taskId": known })).with("mcp-name", known);
        let got = bench.got(get.build()).await.result();
        assert_eq!((&got["resultType"], &got["taskId"]), (&json!("complete"), &json!(known)));
        let link = if prefix.is_empty() { "test://r" } else { "up+test://r" };
        assert_eq!(got["result"]["content"][0]["uri"], link);
        assert_eq!(far_side.seen("tasks/get")[0].1["params"]["taskId"], "7+7");
        let other =
            knowing("tasks/cancel", json!({ "taskId": "other+1" })).with("mcp-name", "other+1");
        assert_eq!(bench.got(other.build()).await.error(), (200, -32602));
        assert!(bench.call("a", "works", json!({})).await.failure().contains("protocol"));
        let get = Ask::modern("tasks/get", json!({ "taskId": known })).with("mcp-name", known);
        let undeclared = bench.got(get.by("a").build()).await;
        assert_eq!(undeclared.error(), (400, -32021));
        let needed = json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } });
        assert_eq!(undeclared.json()["error"]["data"], json!({ "requiredCapabilities": needed }));
    }
}

/// A stateless request of a client with tasks.
pub(crate) fn knowing(method: &str, params: Value) -> Ask {
    let mut ask = Ask::modern(method, params).by("a");
    ask.body["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
        json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } });
    ask
}

#[tokio::test]
async fn each_session_has_own_upstream_session() {
    let (bench, far_side) = bench(Era::Legacy, "").await;
    let (one, two) = (bench.initialize("a").await, able_session(&bench).await);
    for session in [&one, &two, &one] {
        let got = bench.legacy(session, "a", ("tools/call", json!({ "name": "tells" }))).await;
        assert!(got.text.contains("done"), "{got:?}");
    }
    let used: Vec<_> = far_side.seen("tools/call").into_iter().map(|(id, _)| id.unwrap()).collect();
    assert!(used[0] == used[2] && used[0] != used[1], "{used:?}");
    let declared: Vec<_> = far_side
        .seen("initialize")
        .iter()
        .map(|(_, body)| body["params"]["capabilities"].clone())
        .collect();
    assert!(declared.contains(&json!({ "elicitation": {} })), "{declared:?}");
    let mut end = Ask::legacy(&two, "", json!({})).by("a");
    (end.method, end.body) = (Method::DELETE, Value::Null);
    assert_eq!(bench.got(end.build()).await.status, 204);
    acceptable(|| far_side.seen("DELETE").iter().any(|(id, _)| *id == Some(used[1].clone()))).await;
    let gone = bench.legacy(&two, "a", ("ping", json!({}))).await;
    assert_eq!(gone.status, 404);
}

/// Waits until a condition holds.
pub(crate) async fn acceptable(condition: impl Fn() -> bool) {
    for _ in 0..500 {
        if condition() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it did not come to be so");
}

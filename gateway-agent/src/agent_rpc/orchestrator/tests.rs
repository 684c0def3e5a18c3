//! `/manifest` and `/execute` with their real routes and a scripted upstream.

use axum::body::{Body, to_bytes};
use http::{Request, StatusCode};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::super::AgentRpc;
use crate::{
    mcp::tests::{
        audit::Log,
        harness::{Bench, Setup},
    },
    testing::{Registered, agent, policy, server, tool},
};

/// The tools of the server `up`, by the behavior of the upstream.
const TOOLS: [&str; 5] = ["echo", "fails", "slow", "asks", "hidden"];

/// The tools of `up`, and the agent `a` that declares all but the last, and a function of the data
/// agent `helper`.
async fn start(more: impl IntoIterator<Item = Registered>) -> Bench {
    let schema = json!({ "type": "object", "properties": { "n": { "type": "number" } } });
    let mut entities: Vec<_> = TOOLS
        .into_iter()
        .map(|name| {
            let metadata = json!({ "category": "demo", "examples": ["say it"] });
            let members =
                json!({ "inputSchema": schema, "description": "Says.", "metadata": metadata });
            tool(name, "1.0.0", members)
        })
        .collect();
    let function = json!({ "source": { "tool": "echo" }, "inputSchema": schema });
    entities.push(tool("helper.echo", "1.0.0", function));
    entities.push(server("up", &TOOLS, &["prompts"]));
    let mut declared: Vec<_> = TOOLS[..4].iter().map(|name| (*name, "1.0.0")).collect();
    declared.push(("helper.echo", "1.0.0"));
    entities.push(agent("a", "1.0.0", &declared));
    entities.extend(more);
    let tools: Vec<_> = TOOLS.iter().map(|name| json!({ "name": name })).collect();
    let setup = Setup { lists: Value::from(tools).to_string(), ..Setup::default() };
    Bench::start(setup, entities).await
}

async fn sent(bench: &Bench, request: Request<Body>) -> (StatusCode, Value) {
    let response = AgentRpc::new(bench.handle.clone()).router().oneshot(request).await.unwrap();
    let status = response.status();
    let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    (status, serde_json::from_slice(&body).unwrap())
}

async fn got(bench: &Bench, path: &str) -> (StatusCode, Value) {
    let request = Request::get(path).header("host", "localhost:7080").header("x-agent-name", "a");
    sent(bench, request.body(Body::empty()).unwrap()).await
}

async fn posted(bench: &Bench, body: &str) -> (StatusCode, Value) {
    let request = Request::post("/execute")
        .header("host", "localhost:7080")
        .header("content-type", "application/json")
        .header("x-agent-name", "a");
    sent(bench, request.body(Body::from(body.to_owned())).unwrap()).await
}

/// The answer to a call.
async fn executed(bench: &Bench, tool: &str, params: Value) -> Value {
    let (status, answer) =
        posted(bench, &json!({ "tool": tool, "params": params }).to_string()).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    answer
}

#[tokio::test]
async fn manifest_is_scoped_to_the_caller() {
    let bench = start([]).await;
    let (status, manifest) = got(&bench, "/manifest?format=anthropic").await;
    assert_eq!(status, StatusCode::OK, "{manifest}");
    let names: Vec<_> =
        manifest["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names, ["echo", "fails", "slow", "asks", "helper_dot_echo"]);
    assert_eq!(manifest["names"], json!({ "helper_dot_echo": "helper.echo" }));
    let echo = &manifest["tools"][0];
    assert_eq!(echo["description"], "Says.\nCategory: demo\nExample: say it");
    assert_eq!(echo["input_schema"]["properties"]["n"]["type"], "number");
}

#[tokio::test]
async fn manifest_has_all_forms() {
    let bench = start([]).await;
    let (_, mcp) = got(&bench, "/manifest").await;
    let echo = &mcp["tools"][0];
    assert_eq!(
        (&echo["name"], &echo["category"], &echo["examples"], &echo["_meta"]["registry/version"]),
        (&json!("echo"), &json!("demo"), &json!(["say it"]), &json!("1.0.0"))
    );
    let (_, openai) = got(&bench, "/manifest?format=openai").await;
    assert_eq!(openai["tools"][0]["function"]["name"], "echo");
    let (_, gemini) = got(&bench, "/manifest?format=gemini").await;
    assert_eq!(gemini["tools"][0]["functionDeclarations"][0]["name"], "echo");
    let (status, unknown) = got(&bench, "/manifest?format=other").await;
    assert_eq!((status, &unknown["success"]), (StatusCode::BAD_REQUEST, &json!(false)));
}

#[tokio::test]
async fn unreadable_paths_and_queries_have_json_errors() {
    let bench = start([]).await;
    for (path, status, code) in [
        ("/manifest?format=mcp&format=mcp", StatusCode::BAD_REQUEST, "TOOL_EXECUTION_FAILED"),
        ("/agents/%ff/manifest", StatusCode::NOT_FOUND, "AGENT_NOT_FOUND"),
        ("/agents/up", StatusCode::NOT_FOUND, "AGENT_NOT_FOUND"),
    ] {
        let (got, answer) = got(&bench, path).await;
        assert_eq!((got, &answer["code"]), (status, &json!(code)), "{path}: {answer}");
    }
    let (status, answer) = got(&bench, "/traces/%ff").await;
    assert_eq!(
        (status, &answer["error"]["data"]["reason"]),
        (StatusCode::NOT_FOUND, &json!("TRACE_NOT_FOUND")),
        "{answer}"
    );
}

#[tokio::test]
async fn calls_accept_both_names() {
    let bench = start([]).await;
    for name in ["helper.echo", "helper_dot_echo", "echo"] {
        let answer = executed(&bench, name, json!({ "n": 1.5 })).await;
        assert_eq!(answer, json!({ "success": true, "data": { "n": 1.5 } }), "{name}");
    }
    assert_eq!(bench.calls().len(), 3);
}

#[tokio::test]
async fn failures_have_codes_of_the_specification() {
    let bench = start([]).await;
    for (tool, params, code, reason) in [
        ("fails", json!({}), "TOOL_EXECUTION_FAILED", "TOOL_ERROR"),
        ("asks", json!({}), "TOOL_EXECUTION_FAILED", "TOOL_ERROR"),
        ("slow", json!({}), "TOOL_EXECUTION_TIMEOUT", "TIMEOUT"),
        ("echo", json!({ "n": "x" }), "TOOL_EXECUTION_FAILED", "INVALID_PARAMS"),
        ("hidden", json!({}), "TOOL_NOT_FOUND", "FUNCTION_NOT_FOUND"),
        ("absent", json!({}), "TOOL_NOT_FOUND", "FUNCTION_NOT_FOUND"),
        ("absent_dot_tool", json!({}), "TOOL_NOT_FOUND", "FUNCTION_NOT_FOUND"),
    ] {
        let answer = executed(&bench, tool, params).await;
        assert_eq!(
            (&answer["success"], &answer["code"], &answer["reason"]),
            (&json!(false), &json!(code), &json!(reason)),
            "{answer}"
        );
        assert!(answer["error"].is_string(), "{answer}");
    }
    let invalid = executed(&bench, "echo", json!({ "n": "x" })).await;
    assert_eq!(invalid["details"]["pointer"], "/params/n");
}

#[tokio::test]
async fn invalid_bodies_are_rejected() {
    let bench = start([]).await;
    for (body, reason) in [
        ("{", "PARSE_ERROR"),
        ("[]", "BATCH"),
        ("{}", "INVALID_PARAMS"),
        (r#"{"tool":"echo","params":[]}"#, "INVALID_PARAMS"),
    ] {
        let (status, answer) = posted(&bench, body).await;
        assert_eq!(
            (status, &answer["reason"]),
            (StatusCode::BAD_REQUEST, &json!(reason)),
            "{body}"
        );
    }
    assert!(bench.calls().is_empty());
}

#[tokio::test]
async fn name_of_two_tools_is_ambiguous() {
    let twin = tool("helper_dot_echo", "1.0.0", json!({ "source": { "tool": "echo" } }));
    let bench = start([twin]).await;
    let (log, _guard) = Log::start();
    let (_, anonymous) = {
        let request = Request::post("/execute")
            .header("host", "localhost:7080")
            .header("content-type", "application/json");
        let body = json!({ "tool": "helper_dot_echo" }).to_string();
        sent(&bench, request.body(Body::from(body)).unwrap()).await
    };
    assert_eq!(anonymous["reason"], "INVALID_PARAMS", "{anonymous}");
    let events: Vec<_> = log
        .events()
        .iter()
        .map(|event| ["event", "tool", "outcome"].map(|name| event[name].clone()))
        .collect();
    assert_eq!(events, [["execute", "helper_dot_echo", "invalid-input"].map(Value::from)]);
    let answer = executed(&bench, "helper_dot_echo", json!({})).await;
    assert_eq!(answer["success"], true, "the agent declares only one of them: {answer}");
}

#[tokio::test]
async fn agent_manifest_has_tools_and_capabilities() {
    let bench = start([]).await;
    let (status, manifest) = got(&bench, "/agents/up/manifest").await;
    assert_eq!(status, StatusCode::OK, "{manifest}");
    assert_eq!(
        (&manifest["id"], &manifest["tools"], &manifest["capabilities"]),
        (
            &json!("up"),
            &json!(["asks", "echo", "fails", "helper.echo", "slow"]),
            &json!(["tools", "prompts"])
        )
    );
    assert_eq!(manifest["requiresApproval"], false);
    let (_, function) = got(&bench, "/agents/helper/manifest").await;
    assert_eq!(
        function,
        json!({ "id": "helper", "name": "helper", "tools": ["helper.echo"],
            "capabilities": ["tools"], "requiresApproval": false })
    );
    let (status, unknown) = got(&bench, "/agents/other/manifest").await;
    assert_eq!(
        (status, &unknown["code"]),
        (StatusCode::NOT_FOUND, &json!("AGENT_NOT_FOUND")),
        "{unknown}"
    );
    assert_eq!(got(&bench, "/agents/up").await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn fr_011_manifest_names_required_approvals() {
    let demanding = policy("careful", json!({ "approval": {} }));
    let bench = start([demanding]).await;
    let (_, manifest) = got(&bench, "/agents/up/manifest").await;
    assert_eq!(manifest["requiresApproval"], true, "{manifest}");
    let answer = executed(&bench, "echo", json!({})).await;
    assert_eq!(
        (&answer["success"], &answer["reason"]),
        (&json!(false), &json!("APPROVAL_REQUIRED")),
        "{answer}"
    );
    assert!(bench.calls().is_empty());
}

//! Requests of scripts: the commands in `docs/mcp.md`, and a `POST` of one message without MCP
//! headers.

use std::process::Command;

use acceptance::root;
use serde_json::{Value, json};

use crate::deployment::Deployment;

/// The shell blocks with `curl` in `docs/mcp.md`.
fn documented_scripts() -> Vec<String> {
    let page = std::fs::read_to_string(root().join("docs/mcp.md")).expect("the page");
    let blocks = page.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.filter(|block| block.contains("curl")).map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn documented_curl_commands_list_and_call() {
    let deployment = Deployment::start().await;
    let scripts = documented_scripts();
    assert_eq!(scripts.len(), 3, "a plain request, a session, a stateless request");
    for script in scripts {
        let script = script.replace("127.0.0.1:7080", &deployment.gateway.address);
        let mut shell = Command::new("sh");
        shell.args(["-euc", &script]).env("NO_PROXY", "127.0.0.1");
        let output = shell.output().expect("the shell runs");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{script}\n{output:?}");
        assert!(said.contains(r#""name":"get_current_time""#), "{script}\n{said}");
        assert!(said.contains(r#""structuredContent":{"#), "{script}\n{said}");
    }
}

/// The status and message of a response to one message with these headers.
async fn post(deployment: &Deployment, headers: &[(&str, &str)], message: &Value) -> (u16, Value) {
    let mut request = reqwest::Client::new()
        .post(deployment.gateway.mcp_url())
        .header("content-type", "application/json")
        .body(message.to_string());
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let answer = request.send().await.expect("the gateway answers");
    assert_eq!(answer.headers()["content-type"], "application/json");
    assert!(!answer.headers().contains_key("mcp-session-id"), "no session is opened");
    let status = answer.status().as_u16();
    (status, answer.json().await.expect("JSON"))
}

#[tokio::test]
async fn plain_request_is_served_without_session() {
    let deployment = Deployment::start().await;
    let message = |method: &str, params: Value| json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let list = message("tools/list", json!({}));
    for accept in [&[][..], &[("accept", "application/json")], &[("accept", "*/*")]] {
        let (status, listed) = post(&deployment, accept, &list).await;
        let tools = listed["result"]["tools"].as_array().expect("tools");
        assert!(status == 200 && tools.iter().any(|tool| tool["name"] == "fetch"), "{listed}");
        assert!(listed["result"].get("resultType").is_none(), "as before 2026-07-28");
    }
    let agent = [("x-agent-name", "research-agent"), ("x-agent-version", "2.1.0")];
    let (_, scoped) = post(&deployment, &agent, &list).await;
    let (_, all) = post(&deployment, &[], &list).await;
    let count = |listed: &Value| listed["result"]["tools"].as_array().expect("tools").len();
    assert!(count(&scoped) < count(&all), "an agent sees its own tools: {scoped}");
    let arguments = json!({ "timezone": "Europe/Berlin" });
    // A progress token alone does not select an event stream.
    let call = json!({ "name": "get_current_time", "arguments": arguments,
        "_meta": { "progressToken": 7 } });
    let (status, called) = post(&deployment, &[], &message("tools/call", call)).await;
    assert_eq!(status, 200);
    assert!(called["result"]["structuredContent"].is_object(), "{called}");
}

#[tokio::test]
async fn other_requests_without_session_are_rejected() {
    let deployment = Deployment::start().await;
    let message = |method: &str| json!({ "jsonrpc": "2.0", "id": 1, "method": method });
    let session = ("mcp-session-id", "unknown");
    let both = ("accept", "application/json, text/event-stream");
    for (headers, method, expected) in [
        (&[][..], "ping", 400),
        (&[], "prompts/list", 400),
        (&[both, ("mcp-protocol-version", "2025-11-25")], "tools/list", 400),
        (&[both, ("mcp-method", "tools/list")], "tools/list", 400),
        (&[both, session], "tools/list", 404),
    ] {
        let (status, answer) = post(&deployment, headers, &message(method)).await;
        assert_eq!(status, expected, "{headers:?} {method}: {answer}");
        assert!(answer["error"]["message"].is_string(), "{answer}");
    }
}

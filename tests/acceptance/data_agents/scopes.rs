//! Credentials and scopes of data agents, AIO and the orchestrator.

use registry_core::Digest;
use reqwest::{Method, StatusCode};

use super::*;

/// API keys with their scopes.
const KEYS: [(&str, &str); 3] =
    [("key-of-all", "[list, call, register]"), ("key-of-lists", "[list]"), ("key-of-none", "[]")];

/// A request, and the scope that it needs.
struct Case {
    method: Method,
    path: &'static str,
    body: Value,
    scope: Option<&'static str>,
}

fn cases() -> Vec<Case> {
    let rpc = |method: &str, params: Value, scope| Case {
        method: Method::POST,
        path: "/rpc",
        body: json!({ "method": method, "params": params }),
        scope,
    };
    let get = |path, scope| Case { method: Method::GET, path, body: Value::Null, scope };
    let execute = json!({ "agent_id": "extractor", "function": "extract", "input": {},
        "meta": { "task_id": "task_001" } });
    let mut register = registration("extractor")["params"].clone();
    register["endpoint"] = "http://127.0.0.1:1/mcp".into();
    let heartbeat = json!({ "agent_id": "extractor", "status": "active" });
    let time = json!({ "timezone": "UTC" });
    let called = json!({ "tool": "get_current_time", "args": time });
    vec![
        rpc("agent.execute", execute, Some("call")),
        rpc("server.register", register, Some("register")),
        rpc("agent.heartbeat", heartbeat, None),
        rpc("time::help", json!({}), Some("list")),
        rpc("time::tools.list", json!({}), Some("list")),
        rpc("time::tools.call", called, Some("call")),
        rpc("time::tools.call", json!({ "tool": "absent" }), Some("call")),
        Case {
            method: Method::POST,
            path: "/execute",
            body: json!({ "tool": "get_current_time", "params": time }),
            scope: Some("call"),
        },
        get("/manifest", Some("list")),
        get("/agents/time/manifest", Some("list")),
        get("/traces/absent", None),
    ]
}

/// A gateway whose callers need API keys.
fn start() -> Agents {
    let key = |(key, scopes): (&str, &str)| {
        let digest = Digest::compute(key.as_bytes()).to_string();
        let digest = digest.trim_start_matches("sha256:");
        format!("    - {{ agent: {key}, sha256: '{digest}', scopes: {scopes} }}\n")
    };
    let keys: String = KEYS.into_iter().map(key).collect();
    let config = format!(
        "identity:\n  required: true\n  apiKeys:\n{keys}  scopes:\n    tools/list: [list]\n    \
         tools/call: [call]\n    server.register: [register]\n"
    );
    Agents::start_with(&config, &servers())
}

/// The status and the reason of the answer to a caller with this key.
async fn sent(agents: &Agents, case: &Case, key: Option<&str>) -> (StatusCode, String) {
    let url = format!("http://{}{}", agents.gateway.address(), case.path);
    let request = reqwest::Client::new().request(case.method.clone(), url);
    let mut request = request.header("content-type", "application/json");
    if !case.body.is_null() {
        request = request.body(case.body.to_string());
    }
    if let Some(key) = key {
        request = request.header("x-api-key", key);
    }
    let answer = request.send().await.expect("an answer");
    let status = answer.status();
    let text = answer.text().await.expect("a body");
    let body: Value = serde_json::from_str(&text).expect("JSON");
    let reason = body["reason"].as_str().unwrap_or_else(|| super::error(&body).1);
    (status, reason.to_owned())
}

#[tokio::test]
async fn requests_without_valid_credentials_are_rejected() {
    let agents = start();
    for case in cases() {
        let what = format!("{} {}", case.path, case.body);
        for (key, reason) in [(None, "UNAUTHENTICATED"), (Some("another key"), "INVALID_TOKEN")] {
            let got = sent(&agents, &case, key).await;
            assert_eq!(got, (StatusCode::UNAUTHORIZED, reason.to_owned()), "{what}");
        }
    }
    let address = agents.gateway.address();
    for headers in [&[][..], &[("x-api-key", "another key")], &[("x-agent-name", "key-of-all")]] {
        let opened = WebSocket::open(&address, headers).await;
        assert_eq!(opened.err(), Some(401), "{headers:?}");
    }
}

#[tokio::test]
async fn requests_need_the_scopes_of_their_operations() {
    let agents = start();
    let manifest =
        Case { method: Method::GET, path: "/agents/time/manifest", body: Value::Null, scope: None };
    eventually("the server is listed", || async {
        sent(&agents, &manifest, Some(KEYS[0].0)).await.0 == StatusCode::OK
    })
    .await;
    for case in cases() {
        for (key, scopes) in KEYS {
            let what = format!("{key}: {} {}", case.path, case.body);
            let (status, reason) = sent(&agents, &case, Some(key)).await;
            if case.scope.is_none_or(|scope| scopes.contains(scope)) {
                let is_traces = case.path.starts_with("/traces/");
                let expected = if is_traces { StatusCode::NOT_FOUND } else { StatusCode::OK };
                assert_eq!(status, expected, "{what}: {reason}");
            } else {
                let expected = (StatusCode::FORBIDDEN, "INSUFFICIENT_SCOPE");
                assert_eq!((status, &*reason), expected, "{what}");
            }
        }
    }
}

#[tokio::test]
async fn registration_over_websocket_needs_its_scope() {
    let agents = start();
    let address = agents.gateway.address();
    for (key, is_allowed) in [(KEYS[1].0, false), (KEYS[0].0, true)] {
        let opened = WebSocket::open(&address, &[("x-api-key", key)]).await;
        let answer = opened.expect("a WebSocket").asked(&registration("extractor")).await;
        if is_allowed {
            assert_eq!(answer["result"]["status"], "registered", "{answer}");
        } else {
            assert_eq!(super::error(&answer), (-32600, "INSUFFICIENT_SCOPE"), "{answer}");
        }
    }
}

#[tokio::test]
async fn unknown_method_names_no_tools_without_scopes() {
    let agents = start();
    let address = agents.gateway.address();
    for (key, has_methods) in [(KEYS[0].0, true), (KEYS[2].0, false)] {
        let methods = async || {
            let body = json!({ "method": "time::prompts.delete" }).to_string();
            let request = reqwest::Client::new()
                .post(format!("http://{address}/rpc"))
                .header("content-type", "application/json")
                .header("x-api-key", key)
                .body(body);
            let text = request.send().await.expect("an answer").text().await.expect("a body");
            let answer: Value = serde_json::from_str(&text).expect("JSON");
            answer["error"]["data"]["available_methods"].as_array().map(Vec::len)
        };
        eventually("the server is known", || async { methods().await.is_some() }).await;
        assert_eq!(methods().await.is_some_and(|methods| methods > 0), has_methods);
    }
}

//! A gateway with functions of the data agent `helper`, and requests to it.

use axum::body::{Body, to_bytes};
use http::{Request, StatusCode};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::super::AgentRpc;
use crate::{
    mcp::tests::harness::{Bench, Setup},
    testing::{Registered, agent, tool},
};

/// The functions by the behavior of the upstream.
const FUNCTIONS: [&str; 6] = ["echo", "fails", "slow", "closes", "down", "hidden"];

/// The functions, and the agent `a` that declares all but the last.
pub(super) async fn start(policies: impl IntoIterator<Item = Registered>) -> Bench {
    let schema = json!({ "type": "object", "properties": { "n": { "type": "number" } } });
    let mut entities: Vec<_> = FUNCTIONS
        .into_iter()
        .map(|name| {
            let more = json!({ "source": { "tool": name }, "inputSchema": schema });
            tool(&format!("helper.{name}"), "1.0.0", more)
        })
        .collect();
    let declared = ["helper.echo", "helper.fails", "helper.slow", "helper.closes", "helper.down"];
    entities.push(agent("a", "1.0.0", &declared.map(|name| (name, "1.0.0"))));
    entities.extend(policies);
    let tools: Vec<_> = FUNCTIONS.iter().map(|name| json!({ "name": name })).collect();
    let setup = Setup { lists: Value::from(tools).to_string(), ..Setup::default() };
    Bench::start(setup, entities).await
}

/// The body of a call without an id.
pub(crate) fn execute(agent_id: &str, function: &str, input: &str) -> String {
    format!(
        r#"{{"method":"agent.execute","params":{{"agent_id":"{agent_id}","function":"{function}","input":{input},"meta":{{"task_id":"t-1"}}}}}}"#
    )
}

/// Sends a body to `/rpc` as the agent `a`.
pub(super) async fn sent(bench: &Bench, body: String) -> (StatusCode, String) {
    posted(bench, Some("a"), body).await
}

/// The answer to a call over `/execute`.
pub(super) async fn executed(bench: &Bench, body: &str) -> Value {
    let (status, text) = sent_to(bench, "/execute", (Some("a"), body.to_owned())).await;
    assert_eq!(status, StatusCode::OK, "{text}");
    serde_json::from_str(&text).unwrap()
}

/// Sends a body as an agent, or as an unknown caller.
pub(crate) async fn posted(
    bench: &Bench,
    agent: Option<&str>,
    body: String,
) -> (StatusCode, String) {
    sent_to(bench, "/rpc", (agent, body)).await
}

async fn sent_to(
    bench: &Bench,
    path: &str,
    (agent, body): (Option<&str>, String),
) -> (StatusCode, String) {
    let mut request = Request::post(path)
        .header("host", "localhost:7080")
        .header("content-type", "application/json");
    if let Some(agent) = agent {
        request = request.header("x-agent-name", agent);
    }
    let request = request.body(Body::from(body)).unwrap();
    let router = AgentRpc::new(bench.handle.clone()).router();
    let response = router.oneshot(request).await.unwrap();
    let status = response.status();
    let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

/// The answer to a call of a function of `helper`.
pub(super) async fn called(bench: &Bench, function: &str, input: &str) -> Value {
    let (status, text) = sent(bench, execute("helper", function, input)).await;
    assert_eq!(status, StatusCode::OK, "{text}");
    serde_json::from_str(&text).unwrap()
}

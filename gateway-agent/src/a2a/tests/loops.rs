//! Agents that call each other through the gateway without an end.

use std::sync::{Arc, OnceLock};

use a2a::Version;
use axum::Router;
use gateway_testkit::{Received, Reply, Server};
use gateway_upstream::UpstreamLimits;
use http::Method;
use registry_core::Key;
use serde_json::json;
use tower::ServiceExt as _;

use super::{
    super::{A2a, PushConfigs, TaskIndex},
    harness::{helper, message, request, task},
};
use crate::{
    mcp::tests::harness::{Bench, Setup, http},
    testing::Registered,
};

const TRACE_PARENT: &str = "traceparent";
const TRACE_STATE: &str = "tracestate";

/// An agent that declares the skill of another one.
fn declaring(name: &str, next: &str) -> Registered {
    let mut agent = helper();
    agent.document["name"] = json!(name);
    let declared = json!([{ "type": "agent", "name": next, "version": "1.0.0", "skill": "work" }]);
    agent.document["capabilities"]["extensions"][0]["params"]["depends"] = declared;
    agent
}

/// A server of the agent `name`, which sends each message on to the agent `next`.
async fn forwarding(
    (name, next): (&'static str, &'static str),
    propagated: &'static [&'static str],
    gateway: &Arc<OnceLock<Router>>,
) -> Server {
    let gateway = Arc::clone(gateway);
    Server::serve(move |received| {
        let gateway = Arc::clone(&gateway);
        async move { forward(&received, (name, next), propagated, &gateway).await }
    })
    .await
}

async fn forward(
    received: &Arc<Received>,
    (name, next): (&str, &str),
    propagated: &[&'static str],
    gateway: &OnceLock<Router>,
) -> Reply {
    if received.rpc_method() != "SendMessage" {
        return received.error(200, &json!({ "code": -32001, "message": "no such task" }));
    }
    let router = gateway.get().unwrap().clone();
    let mut forwarded = sent(name, next);
    for header in propagated {
        if let Some(value) = received.header(header) {
            forwarded.headers_mut().insert(*header, value.parse().unwrap());
        }
    }
    let answer = router.oneshot(forwarded).await.unwrap();
    axum::body::to_bytes(answer.into_body(), usize::MAX).await.unwrap();
    received.result(&json!({ "task": task("TASK_STATE_COMPLETED") }))
}

/// A message of an agent to another one.
fn sent(name: &str, next: &str) -> http::Request<axum::body::Body> {
    let body =
        json!({ "jsonrpc": "2.0", "id": 7, "method": "SendMessage", "params": message("go") });
    request(Version::V1, (Method::POST, &format!("/a2a/{next}")), (name, &body))
}

/// The number of messages that a loop of two agents receives.
async fn messages_of_loop(propagated: &'static [&'static str], hops: u32) -> usize {
    let gateway = Arc::default();
    let ping = forwarding(("ping", "echo"), propagated, &gateway).await;
    let echo = forwarding(("echo", "ping"), propagated, &gateway).await;
    let key = |name: &str| format!("agent/{name}@1.0.0").parse::<Key>().unwrap();
    let agents = vec![(key("ping"), http(&ping)), (key("echo"), http(&echo))];
    let limits = UpstreamLimits { call_timeout_ms: 30_000, ..UpstreamLimits::default() };
    let setup = Setup { hops, limits, agents, ..Setup::default() };
    let bench = Bench::start(setup, vec![declaring("ping", "echo"), declaring("echo", "ping")]);
    let bench = bench.await;
    let surface =
        A2a::new(bench.handle.clone(), Arc::<TaskIndex>::default(), Arc::<PushConfigs>::default());
    gateway.set(surface.router()).unwrap();
    let mut first = sent("echo", "ping");
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    first.headers_mut().insert(TRACE_PARENT, parent.parse().unwrap());
    let response = surface.router().oneshot(first).await.unwrap();
    axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
    ping.seen("SendMessage").len() + echo.seen("SendMessage").len()
}

#[tokio::test]
async fn loop_with_trace_state_ends_at_hop_limit() {
    assert_eq!(messages_of_loop(&[TRACE_PARENT, TRACE_STATE], 5).await, 5);
}

#[tokio::test]
async fn loop_without_trace_state_ends_at_trace_limit() {
    assert_eq!(messages_of_loop(&[TRACE_PARENT], 1).await, 16);
}

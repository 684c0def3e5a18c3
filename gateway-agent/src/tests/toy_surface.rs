//! A minimal surface: `POST /toy/{tool}` with the arguments as body and the result as text.
//!
//! It shows the parts of a surface: authenticate, describe the operation, invoke, render. Identity,
//! visibility, scopes, quotas, schemas, permits, audit and compositions come from the pipeline.

use std::collections::BTreeMap;

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::{Path, Request, State},
    response::{IntoResponse as _, Response},
    routing::post,
};
use gateway_policy::{Access, RuntimeValidation};
use gateway_protocol::mcp::Era;
use gateway_upstream::RequestContext;
use http::StatusCode;

use serde_json::{Value, json, value::RawValue};
use tower::ServiceExt as _;

use crate::{
    audit::CallRecord,
    identity::{sender::RequestHead, settings::AuthenticationConfig},
    mcp::tests::harness::{Bench, Setup},
    pipeline::{Error, GatewayHandle, Invocation, Output, Target, ToolCall, invoke, message},
    testing::{agent, tool},
};

fn routes(gateway: GatewayHandle) -> Router {
    Router::new().route("/toy/{tool}", post(call)).with_state(gateway)
}

async fn call(
    State(gateway): State<GatewayHandle>,
    Path(tool): Path<String>,
    request: Request,
) -> Response {
    let gateway = gateway.current();
    let (parts, body) = request.into_parts();
    let parts = RequestHead::from(parts);
    let Ok(caller) = gateway.authenticator().authenticate(&parts).await else {
        return (StatusCode::UNAUTHORIZED, "authentication required\n").into_response();
    };
    let limit = gateway.settings().request_bytes;
    let body = to_bytes(body, limit).await.map(|body| String::from_utf8_lossy(&body).into());
    let Some(arguments) = body.ok().and_then(|body: String| RawValue::from_string(body).ok())
    else {
        return (StatusCode::BAD_REQUEST, "the body is not JSON\n").into_response();
    };
    let context = RequestContext::default();
    let span = gateway.tracer().begin(&context.trace);
    let mut record = CallRecord::begin("toy", Era::Modern, &*tool, arguments.get().len(), span);
    let target = Target::Tool(ToolCall::new(&tool, Some(arguments)));
    let mut operation = Invocation::new(caller, target, context);
    let output = invoke(&gateway, &mut operation, &mut record).await;
    match output.and_then(Output::into_result) {
        Ok(outcome) => outcome.result.result.get().to_owned().into_response(),
        Err(error) => {
            let status = match error {
                Error::Denied(_) => StatusCode::NOT_FOUND,
                Error::Scopes(_) => StatusCode::FORBIDDEN,
                Error::Upstream(_) => StatusCode::BAD_GATEWAY,
                _ => StatusCode::BAD_REQUEST,
            };
            (status, message::for_caller(&tool, &error).into_owned()).into_response()
        }
    }
}

async fn bench(buffered_bytes: usize) -> Bench {
    let schema = json!({ "type": "object", "properties": { "q": { "type": "string" } } });
    let policy = RuntimeValidation { unknown_caller: Access::Deny, ..Setup::default().policy };
    let lists = json!([{ "name": "t" }, { "name": "scoped" }, { "name": "secret" }]).to_string();
    let scopes = BTreeMap::from([("scoped".to_owned(), vec!["write".to_owned()])]);
    let authentication = AuthenticationConfig { scopes, ..AuthenticationConfig::default() };
    let setup = Setup { policy, authentication, buffered_bytes, lists, ..Setup::default() };
    let tools = vec![
        tool("t", "1.0.0", json!({ "inputSchema": schema })),
        tool("scoped", "1.0.0", json!({})),
        tool("secret", "1.0.0", json!({})),
        agent("a", "1.0.0", &[("t", "1.0.0"), ("scoped", "1.0.0")]),
    ];
    Bench::start(setup, tools).await
}

async fn post_as(bench: &Bench, agent: &str, tool: &str, arguments: &Value) -> (u16, String) {
    let request = Request::post(format!("/toy/{tool}")).header("x-agent-name", agent);
    let request = request.body(Body::from(arguments.to_string())).unwrap();
    let response = routes(bench.handle.clone()).oneshot(request).await.unwrap();
    let status = response.status().as_u16();
    let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn new_surface_uses_whole_pipeline() {
    let bench = bench(1 << 20).await;
    let (status, text) = post_as(&bench, "a", "t", &json!({ "q": "x" })).await;
    assert!(status == 200 && text.contains("content"), "{status} {text}");
    assert_eq!(bench.arguments(), [json!({ "q": "x" })]);
    let (status, text) = post_as(&bench, "a", "t", &json!({ "q": 1 })).await;
    assert!(status == 400 && text.contains("/q"), "{status} {text}");
    assert_eq!(post_as(&bench, "a", "scoped", &json!({})).await.0, 403, "a scope is missing");
    for (agent, tool) in [("a", "secret"), ("a", "missing"), ("stranger", "t")] {
        let (status, text) = post_as(&bench, agent, tool, &json!({})).await;
        assert_eq!((status, text), (404, format!("Unknown tool: {tool}")), "{agent}");
    }
    assert_eq!(bench.calls().len(), 1, "nothing else was sent");
}

#[tokio::test]
async fn new_surface_has_memory_quota() {
    let bench = bench(64).await;
    let (status, text) = post_as(&bench, "a", "t", &json!({ "q": "x" })).await;
    assert_eq!(status, 502, "{text}");
}

#[test]
fn new_surface_is_small() {
    assert!(include_str!("toy_surface.rs").lines().count() <= 150);
}

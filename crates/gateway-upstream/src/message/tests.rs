//! Messages in each era.

use gateway_protocol::{
    mcp::{LEGACY_VERSIONS, MODERN_VERSION, Param},
    trace_context::{Parent, TraceContext},
};
use serde_json::{Value, json};

use super::*;
use crate::request::RequestContext;

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn written(outgoing: &Outgoing<'_>, era: Era) -> Value {
    let message = outgoing.encode(7, era);
    assert_eq!(message, outgoing.write(7, era));
    serde_json::from_slice(&message).unwrap()
}

fn raw(value: &Value) -> Box<RawValue> {
    RawValue::from_string(value.to_string()).unwrap()
}

fn call<'a>(
    arguments: Option<&'a RawValue>,
    params: &'a [Param],
    context: &'a RequestContext,
) -> Outgoing<'a> {
    let request = Request { arguments, ..Request::plain(Method::CallTool, params, context) };
    Outgoing::Asked { subject: "f\"x", request, send_state: None }
}

#[test]
fn modern_call_has_all_metadata() {
    let context = RequestContext {
        hops: None,
        caller: None,
        capabilities: (&*raw(&json!({"elicitation": {}}))).into(),
        log_level: Some(raw(&json!("info"))),
        wants_progress: true,
        trace: TraceContext {
            parent: Parent::parse(PARENT),
            state: Some("k=a\"b".into()),
            baggage: Some("k=v".into()),
        },
        meta: vec![Param { name: "com.example/x".into(), value: raw(&json!([1])) }],
        session: None,
        activated: None,
        subject: None,
        buffered: None,
        retry_delay: None,
    };
    let arguments = raw(&json!({"a": 1.0}));
    let params = [Param { name: "requestState".into(), value: raw(&json!("s")) }];
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": MODERN_VERSION,
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
        "io.modelcontextprotocol/clientInfo":
            {"name": "gateway-agent", "version": env!("CARGO_PKG_VERSION")},
        "io.modelcontextprotocol/logLevel": "info",
        "progressToken": "gateway-7",
        "traceparent": PARENT,
        "tracestate": "k=a\"b",
        "baggage": "k=v",
        "com.example/x": [1],
    });
    let params_written = json!(
        {"name": "f\"x", "arguments": {"a": 1.0}, "requestState": "s", "_meta": meta});
    assert_eq!(
        written(&call(Some(&arguments), &params, &context), Era::Modern),
        json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params_written})
    );
}

#[test]
fn legacy_requests_have_no_modern_metadata() {
    let params = |outgoing: &Outgoing<'_>| written(outgoing, Era::Legacy)["params"].clone();
    let list = |cursor| Outgoing::List { what: Catalogue::Tools, cursor };
    assert_eq!(params(&list(None)), json!({}));
    assert_eq!(params(&list(Some(""))), json!({"cursor": ""}));
    let initialize = params(&Outgoing::Initialize { capabilities: r#"{"roots":{}}"# });
    assert_eq!(initialize["protocolVersion"], LEGACY_VERSIONS[0]);
    assert_eq!(initialize["capabilities"], json!({"roots": {}}));
    let context = RequestContext {
        hops: None,
        log_level: Some(raw(&json!("info"))),
        trace: TraceContext { parent: Parent::parse(PARENT), ..TraceContext::default() },
        ..RequestContext::default()
    };
    let written = params(&call(None, &[], &context));
    let meta = json!({"traceparent": PARENT});
    assert_eq!(written, json!({"name": "f\"x", "arguments": {}, "_meta": meta}));
}

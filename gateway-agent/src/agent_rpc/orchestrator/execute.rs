//! `POST /execute`: calls a tool by its name, or by its name in a manifest.

use std::{sync::Arc, time::Duration};

use agent_rpc::{
    Failure, Reason,
    orchestrator::{Code, Execute, write_failure, write_success},
    tool_name::{Found, find, is_form},
};
use axum::{
    extract::{Request, State},
    response::Response,
};
use bytes::Bytes;
use gateway_policy::CallOutcome;
use gateway_protocol::{
    content,
    jsonrpc::{Limits, Object},
    mcp::{Era, RawResult},
};
use gateway_upstream::RequestContext;
use http::StatusCode;
use serde_json::value::RawValue;

use super::{
    super::{
        AgentRpc,
        failure::{self, Refusal},
        read, respond,
    },
    failed, refused,
};
use crate::{
    audit::{self, CallRecord},
    buffers,
    identity::{authenticator::Authentication, sender::RequestHead},
    ingress::{CompleteRequest, authentication, request_context},
    pipeline::{self, Directory, Error, Gateway, Invocation, Output, Target, ToolCall},
};

/// The name of the operation in audit events.
const EVENT: &str = "execute";
/// The delay before the retry of a call that did not reach its server: a server that was restarted
/// needs some time.
const RETRY_DELAY: Duration = Duration::from_secs(3);

/// `POST /execute`.
pub(super) async fn receive(State(surface): State<AgentRpc>, request: Request) -> Response {
    match read(&surface.gateway, request).await {
        Ok(complete) => Box::pin(serve(complete)).await,
        Err(refusal) => refused(refusal),
    }
}

/// Serves a request with its whole body.
async fn serve(complete: CompleteRequest) -> Response {
    let CompleteRequest { gateway, parts, body, buffered } = complete;
    let limits = Limits::with_max_bytes(gateway.settings().request_bytes);
    let response = match Execute::read(&body, limits) {
        Ok(call) => Box::pin(execute(&gateway, &parts, (call, body.len()))).await,
        Err(failure) => {
            audit::count_rejection("invalid-request");
            failed(StatusCode::BAD_REQUEST, &failure)
        }
    };
    buffers::reserved(response, buffered)
}

async fn execute(
    gateway: &Arc<Gateway>,
    parts: &RequestHead,
    (call, bytes): (Execute<'_>, usize),
) -> Response {
    let caller = authentication(parts).into_owned();
    let name = match registered_name(gateway, &caller, &call.tool) {
        Ok(name) => name,
        Err(failure) => return ambiguous(gateway, parts, (&call.tool, bytes), &failure),
    };
    let mut invocation = invocation(caller, parts, (&name, &call));
    let span = gateway.tracer().begin(&invocation.context.trace);
    let mut record =
        CallRecord::begin(EVENT, Era::Modern, &*name, bytes, span).of_request(&parts.headers);
    let outcome = Box::pin(pipeline::invoke(gateway, &mut invocation, &mut record)).await;
    let body = match outcome.and_then(Output::into_result) {
        Err(Error::Scopes(refusal)) => return refused(Refusal::of_scopes(refusal)),
        Err(error) => failure_body(&failure::of_tool(&name, &error, "/params")),
        Ok(outcome) => match data(&outcome.result) {
            Ok(data) => write_success(&data).into(),
            Err(failure) => failure_body(&failure),
        },
    };
    record.answered(body.len());
    respond(body)
}

/// The response to a call of an ambiguous name, which is audited and needs the scopes of a call.
fn ambiguous(
    gateway: &Gateway,
    parts: &RequestHead,
    (tool, bytes): (&str, usize),
    failure: &Failure,
) -> Response {
    let caller = authentication(parts);
    let span = gateway.tracer().begin(&request_context(parts).trace);
    let mut record =
        CallRecord::begin(EVENT, Era::Modern, tool, bytes, span).of_request(&parts.headers);
    pipeline::record_caller(gateway, &caller, &mut record);
    if let Err(refusal) = pipeline::check_call_scopes(gateway, &caller, tool) {
        record.failed(CallOutcome::Denied, refusal.to_string(), None);
        return refused(Refusal::of_scopes(refusal));
    }
    record.failed(CallOutcome::InvalidInput, failure.message.to_string(), None);
    let body = failure_body(failure);
    record.answered(body.len());
    respond(body)
}

fn failure_body(failure: &Failure) -> Bytes {
    write_failure(Code::of_failure(failure), failure).into()
}

/// The registered name of a tool, which a caller may name as in a manifest. The pipeline decides about
/// names that the caller's list does not have.
fn registered_name(
    gateway: &Gateway,
    caller: &Authentication,
    asked: &str,
) -> Result<String, Failure> {
    if !is_form(asked) {
        return Ok(asked.to_owned());
    }
    let view = Directory::of(gateway, caller).view();
    let names = view.listed().map(|served| served.listed_name().as_str());
    match find(asked, names) {
        Found::One(name) => Ok(name.to_owned()),
        Found::None => Ok(asked.to_owned()),
        Found::Ambiguous => {
            let message = format!(
                "`{asked}` is the name of a tool and the name of another tool in manifests; use the \
                 other name of the tool: `names` of the manifest has both"
            );
            Err(Failure::new(Reason::InvalidParams, message).with("pointer", "/tool"))
        }
    }
}

fn invocation(
    caller: Authentication,
    parts: &RequestHead,
    (name, call): (&str, &Execute<'_>),
) -> Invocation {
    let context = RequestContext { retry_delay: Some(RETRY_DELAY), ..request_context(parts) };
    let target = Target::Tool(ToolCall::new(name, call.params.map(ToOwned::to_owned)));
    Invocation::new(caller, target, context)
}

/// The data of a result: the structured content, else the content.
fn data(result: &RawResult) -> Result<String, Failure> {
    let members = Object::parse(&result.result).unwrap_or_default();
    if let Some(failure) = failure::of_result(result, &members, EVENT) {
        return Err(failure);
    }
    Ok(if let Some(structured) = content::structured(&members) {
        structured.get().to_owned()
    } else {
        let content = members.find("content").map_or("[]", RawValue::get);
        format!(r#"{{"content":{content}}}"#)
    })
}

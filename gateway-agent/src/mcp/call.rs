//! `tools/call`.

use std::{borrow::Cow, sync::Arc};

use gateway_protocol::mcp::{Era, Method};
use gateway_upstream::ClientChannel;
use serde_json::value::RawValue;

use super::{
    Endpoint, Rejection,
    agent_execute::{self, FunctionCall},
    exchange::{Exchange, PendingCall, RenderResponse},
    incoming::Incoming,
    inputs,
    requester::{self, Requester},
    session,
};
use crate::{
    audit::CallRecord,
    mcp::render::{self, http::SizedResponse},
    pipeline::{self, Invocation, Output, Target, Task, ToolCall},
};

/// Handles a call. Dropping the future cancels the upstream call.
pub(super) async fn serve(
    endpoint: &Arc<Endpoint>,
    incoming: &Incoming<'_>,
    (requester, running): (Requester, Option<session::RunningRequest>),
) -> Result<SizedResponse, Rejection> {
    let Some(tool) = incoming.text("name") else {
        return Err(Rejection::Params { what: "params.name must be a string" });
    };
    let mut context = requester::context(incoming, &requester)?;
    let response_context =
        requester::response_context(incoming, &requester, &context, (Method::CallTool, &tool));
    if let Some(handle) = inputs::handle(endpoint, incoming) {
        pipeline::check_call_scopes(&endpoint.gateway, &requester.caller, &tool)?;
        return Ok(inputs::resume(endpoint, incoming, (response_context, &handle)).respond().await);
    }
    let execute = agent_execute::read(&endpoint.gateway, &tool, incoming.param("arguments"))?;
    let function = execute.as_ref().map(FunctionCall::begin);
    let (tool, called) = if let Some(execute) = execute {
        execute.set_meta(&mut context.meta, None);
        let tool = execute.tool();
        let called = ToolCall::new(&tool, Some(execute.input.to_owned()));
        (Cow::Owned(tool), called)
    } else {
        let called = ToolCall {
            name: tool.as_ref().into(),
            arguments: argument(incoming),
            mcp_headers: (requester.era == Era::Modern).then(|| incoming.param_headers()),
            takes_tasks: requester.takes_tasks,
        };
        (tool, called)
    };
    let (side, meanwhile) = ClientChannel::open();
    let call = Invocation {
        caller: requester.caller.clone(),
        target: Target::Tool(called),
        params: incoming.other_params(&["name", "arguments"]),
        context,
        client: Some(side),
        input: inputs::input_handling(requester.era),
    };
    let span = endpoint.gateway.tracer().begin(&call.context.trace);
    let record = CallRecord::begin("tools/call", requester.era, &tool, incoming.bytes, span)
        .of_request(incoming.headers());
    // Boxed, because futures and the renderer of the response pass it on.
    let pending = Box::new(PendingToolCall { call, record, tool: tool.as_ref().into(), function });
    let request = run(endpoint.clone(), pending, requester);
    let running = requester::cancellable(running, request);
    let pending = PendingCall { running, meanwhile };
    Ok(Exchange::new(endpoint, incoming.id, response_context, pending).respond().await)
}

fn argument(incoming: &Incoming<'_>) -> Option<Box<RawValue>> {
    incoming.param("arguments").filter(|raw| raw.get() != "null").map(ToOwned::to_owned)
}

/// A call, and its tool or function for the response.
struct PendingToolCall {
    call: Invocation,
    record: CallRecord,
    tool: Box<str>,
    function: Option<FunctionCall>,
}

async fn run(
    endpoint: Arc<Endpoint>,
    mut pending: Box<PendingToolCall>,
    Requester { era, session, .. }: Requester,
) -> RenderResponse {
    let PendingToolCall { call, record, .. } = &mut *pending;
    let outcome = pipeline::invoke(&endpoint.gateway, call, record).await;
    let outcome = outcome.and_then(Output::into_result);
    // Before the response, because the client may list its tasks right after it.
    let begun = outcome.as_ref().ok().and_then(|outcome| outcome.tasks.as_ref()?.id());
    if let (Some(session), Some(known)) = (session, begun)
        && let Some(task) = Task::open(&endpoint.gateway, &call.caller.claim, known)
    {
        session.tasks(|tasks| tasks.add(known, task));
    }
    let form = endpoint.gateway.settings().denials;
    Box::new(move |id| {
        let PendingToolCall { call, record, tool, function } = &mut *pending;
        let function = function.as_ref();
        let answer = match &outcome {
            Ok(outcome) => {
                let is_error = outcome.result.is_error;
                let execution = function.map(|function| function.execution(is_error));
                render::result::tool(id, era, outcome, execution)
            }
            Err(error) => {
                let unknown = |function: &FunctionCall| {
                    function.unknown(&endpoint.gateway, &call.caller, error)
                };
                match function.and_then(unknown) {
                    Some(failure) => render::failure(id, &failure),
                    None => render::call_error(id, era, (&**tool, form), error),
                }
            }
        };
        record.answered(answer.bytes);
        answer
    })
}

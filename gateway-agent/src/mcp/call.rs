//! `tools/call`.

use std::sync::Arc;

use gateway_protocol::{
    jsonrpc::Id,
    mcp::{Era, Method},
};
use gateway_upstream::ClientChannel;
use serde_json::value::RawValue;

use super::{
    Endpoint, Rejection,
    agent_execute::{self, FunctionCall},
    exchange::{Exchange, PendingCall, Render, RenderResponse},
    incoming::Incoming,
    inputs,
    requester::{self, Requester},
    session::{RunningRequest, Session},
};
use crate::{
    audit::CallRecord,
    mcp::render::{self, http::SizedResponse},
    pipeline::{self, Error, Invocation, OperationResult, Output, Target, Task, ToolCall},
};

/// Handles a call. Dropping the future cancels the upstream call.
pub(super) async fn serve(
    endpoint: &Arc<Endpoint>,
    incoming: &Incoming<'_>,
    sender: (Requester, Option<RunningRequest>),
) -> Result<SizedResponse, Rejection> {
    Ok(begin(endpoint, incoming, sender)?.respond().await)
}

/// Starts a call. Not asynchronous, so that the future of each request has none of its locals.
fn begin<'a>(
    endpoint: &Arc<Endpoint>,
    incoming: &Incoming<'a>,
    (requester, running): (Requester, Option<RunningRequest>),
) -> Result<Exchange<'a>, Rejection> {
    let Some(name) = incoming.text("name") else {
        return Err(Rejection::Params { what: "params.name must be a string" });
    };
    let name: Arc<str> = name.into();
    let mut context = requester::context(incoming, &requester)?;
    let subject = (Method::CallTool, Arc::clone(&name));
    let response_context = requester::response_context(incoming, &requester, &context, subject);
    if let Some(handle) = inputs::handle(endpoint, incoming) {
        pipeline::check_call_scopes(&endpoint.gateway, &requester.caller, &name)?;
        return Ok(inputs::resume(endpoint, incoming, (response_context, &handle)));
    }
    let execute = agent_execute::read(&endpoint.gateway, &name, incoming.param("arguments"))?;
    let function = execute.as_ref().map(FunctionCall::begin);
    let Requester { era, caller, session, takes_tasks } = requester;
    let called = if let Some(execute) = execute {
        execute.set_meta(&mut context.meta, None);
        ToolCall::new(&execute.tool(), Some(execute.input.to_owned()))
    } else {
        let arguments = argument(incoming);
        let mcp_headers = (era == Era::Modern).then(|| incoming.param_headers());
        ToolCall { name, arguments, mcp_headers, takes_tasks }
    };
    let tool = Arc::clone(&called.name);
    let (side, meanwhile) = ClientChannel::open();
    let span = endpoint.gateway.tracer().begin(&context.trace);
    let record = CallRecord::begin("tools/call", era, Arc::clone(&tool), incoming.bytes, span)
        .of_request(incoming.headers());
    let call = Invocation {
        caller,
        target: Target::Tool(called),
        params: incoming.other_params(&["name", "arguments"]),
        context,
        client: Some(side),
        input: inputs::input_handling(era),
    };
    // Boxed, because futures pass it on, and it renders the response.
    let pending = Box::new(PendingToolCall {
        endpoint: Arc::clone(endpoint),
        era,
        call,
        record,
        tool,
        function,
        outcome: None,
    });
    let request = Box::pin(run(pending, session));
    let pending = PendingCall { running: requester::cancellable(running, request), meanwhile };
    Ok(Exchange::new(endpoint, incoming.id, response_context, pending))
}

fn argument(incoming: &Incoming<'_>) -> Option<Box<RawValue>> {
    incoming.param("arguments").filter(|raw| raw.get() != "null").map(ToOwned::to_owned)
}

/// A call, and its tool or function for the response.
struct PendingToolCall {
    endpoint: Arc<Endpoint>,
    era: Era,
    call: Invocation,
    record: CallRecord,
    tool: Arc<str>,
    function: Option<FunctionCall>,
    /// `None` while the call is running.
    outcome: Option<Result<OperationResult, Error>>,
}

async fn run(mut pending: Box<PendingToolCall>, session: Option<Arc<Session>>) -> RenderResponse {
    let PendingToolCall { endpoint, call, record, .. } = &mut *pending;
    let outcome = pipeline::invoke(&endpoint.gateway, call, record).await;
    let outcome = outcome.and_then(Output::into_result);
    // Before the response, because the client may list its tasks right after it.
    let begun = outcome.as_ref().ok().and_then(|outcome| outcome.tasks.as_ref()?.id());
    if let (Some(session), Some(known)) = (session, begun)
        && let Some(task) = Task::open(&endpoint.gateway, &call.caller.claim, known)
    {
        session.tasks(|tasks| tasks.add(known, task));
    }
    pending.outcome = Some(outcome);
    pending
}

impl Render for PendingToolCall {
    fn render(mut self: Box<Self>, id: Id<'_>) -> SizedResponse {
        let Self { endpoint, era, call, record, tool, function, outcome } = &mut *self;
        let (era, function) = (*era, function.as_ref());
        let answer = match outcome {
            None => render::http::cancelled(),
            Some(Ok(outcome)) => {
                let is_error = outcome.result.is_error;
                let execution = function.map(|function| function.execution(is_error));
                render::result::tool(id, era, outcome, execution)
            }
            Some(Err(error)) => {
                let unknown = |function: &FunctionCall| {
                    function.unknown(&endpoint.gateway, &call.caller, error)
                };
                let form = endpoint.gateway.settings().denials;
                match function.and_then(unknown) {
                    Some(failure) => render::failure(id, &failure),
                    None => render::call_error(id, era, (&**tool, form), error),
                }
            }
        };
        record.answered(answer.bytes);
        answer
    }
}

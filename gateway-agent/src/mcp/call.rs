//! `tools/call`.

use std::sync::Arc;

use gateway_protocol::mcp::{Era, Method};
use gateway_upstream::Side;
use serde_json::value::RawValue;

use super::{
    Endpoint, Rejection,
    exchange::{Exchange, Finished, Flight},
    incoming::Incoming,
    inputs,
    manner::{self, Who},
    session,
};
use crate::{
    audit::CallRecord,
    mcp::render::{self, http::Answer},
    pipeline::{self, Invocation, Output, Target, Task, ToolCall},
};

/// Handles a call. Dropping the future cancels the upstream call.
pub(super) async fn serve(
    endpoint: &Arc<Endpoint>,
    incoming: &Incoming<'_>,
    (who, running): (Who, Option<session::Running>),
) -> Result<Answer, Rejection> {
    let Some(tool) = incoming.text("name") else {
        return Err(Rejection::Params { what: "params.name must be a string" });
    };
    let context = manner::context(incoming, &who);
    let manner = manner::of(incoming, &who, &context, (Method::CallTool, &tool));
    if let Some(handle) = inputs::handle(endpoint, incoming) {
        pipeline::check_call_scopes(&endpoint.gateway, &who.caller, &tool)?;
        return Ok(inputs::resume(endpoint, incoming, (manner, &handle)).respond().await);
    }
    let (side, meanwhile) = Side::open();
    let call = Invocation {
        caller: who.caller.clone(),
        target: Target::Tool(ToolCall {
            name: tool.as_ref().into(),
            arguments: argument(incoming),
            mcp_headers: (who.era == Era::Modern).then(|| incoming.param_headers()),
            takes_tasks: who.takes_tasks,
        }),
        params: incoming.other_params(&["name", "arguments"]),
        context,
        client: Some(side),
        answers: inputs::answers(who.era),
    };
    let span = endpoint.gateway.tracer().begin(&call.context.trace);
    let record = CallRecord::begin("tools/call", who.era, &tool, incoming.bytes, span)
        .of_request(incoming.headers());
    let request = run(endpoint.clone(), (call, tool.as_ref().into()), record, who);
    let running = manner::cancellable(running, request);
    let flight = Flight { running, meanwhile };
    Ok(Exchange::new(endpoint, incoming.id, manner, flight).respond().await)
}

fn argument(incoming: &Incoming<'_>) -> Option<Box<RawValue>> {
    incoming.param("arguments").filter(|raw| raw.get() != "null").map(ToOwned::to_owned)
}

async fn run(
    endpoint: Arc<Endpoint>,
    (mut call, tool): (Invocation, Box<str>),
    mut record: CallRecord,
    Who { era, session, .. }: Who,
) -> Finished {
    let outcome = pipeline::invoke(&endpoint.gateway, &mut call, &mut record).await;
    let outcome = outcome.and_then(Output::into_result);
    // Before the response, because the client may list its tasks right after it.
    let begun = outcome.as_ref().ok().and_then(|outcome| outcome.tasks.as_ref()?.id());
    if let (Some(session), Some(known)) = (session, begun)
        && let Some(task) = Task::open(&endpoint.gateway, &call.caller.claim, known)
    {
        session.begun(|begun| begun.add(known, task));
    }
    Box::new(move |id| {
        let answer = match &outcome {
            Ok(outcome) => render::result::tool(id, era, outcome),
            Err(error) => render::call_error(id, era, &tool, error),
        };
        record.answered(answer.bytes);
        answer
    })
}

//! `tools/call`: from the request to the pipeline, and back.
//!
//! Deliberately absent: everything that the pipeline does.

use std::sync::Arc;

use http::request::Parts;
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
    identity::challenge::Refusal,
    mcp::render::{self, http::Answer},
    pipeline::{self, Call, Moment, Task},
    upstream::{Era, Method, Side},
};

/// Answers a call. When the client goes away, this future is dropped, and the upstream call with it.
pub(super) async fn serve(
    endpoint: &Arc<Endpoint>,
    incoming: &Incoming<'_>,
    (who, running): (Who, Option<session::Running>),
) -> Result<Answer, Rejection> {
    let Some(tool) = incoming.text("name") else {
        return Err(Rejection::Params { what: "params.name must be a string" });
    };
    let moment = Moment::now(&endpoint.gateway, &who.claim, who.client.clone());
    check_scopes(endpoint, incoming.parts, (&moment, &*tool))?;
    // Later rounds of input check the scopes again.
    let parts = endpoint.gateway.doorkeeper().asks_for_scopes().then(|| incoming.parts.clone());
    let context = manner::context(incoming, &who);
    let manner = manner::of(incoming, &who, &context, (Method::CallTool, &tool));
    if let Some(handle) = inputs::handle(incoming) {
        return Ok(inputs::resume(endpoint, incoming, (manner, &handle)).respond().await);
    }
    let (side, meanwhile) = Side::open();
    let call = Call {
        context,
        claim: who.claim.clone(),
        client: who.client.clone(),
        tool: tool.as_ref().into(),
        arguments: argument(incoming),
        params: incoming.other_params(&["name", "arguments"]),
        mirror: (who.era == Era::Modern).then(|| incoming.param_headers()),
        side: Some(side),
        takes_tasks: who.takes_tasks,
    };
    let span = endpoint.gateway.tracer().begin(&call.context.trace);
    let record = CallRecord::begin("tools/call", who.era, &tool, incoming.bytes, span)
        .of_request(incoming.headers());
    let request = run(endpoint.clone(), (call, moment, parts), record, who);
    let running = manner::cancellable(running, request);
    let flight = Flight { running, meanwhile };
    Ok(Exchange::new(endpoint, incoming.id, manner, flight).respond().await)
}

/// Checks the scopes of a tool and of all tools inside it, as the catalog has them now.
fn check_scopes(
    endpoint: &Endpoint,
    parts: &Parts,
    (moment, tool): (&Moment, &str),
) -> Result<(), Refusal> {
    if !endpoint.gateway.doorkeeper().asks_for_scopes() {
        return Ok(());
    }
    let tools = moment.tools_of(&endpoint.gateway, tool);
    endpoint.gateway.doorkeeper().check_scopes(
        parts,
        (Method::CallTool.as_str(), Some(tool)),
        &tools,
    )
}

fn argument(incoming: &Incoming<'_>) -> Option<Box<RawValue>> {
    incoming.param("arguments").filter(|raw| raw.get() != "null").map(ToOwned::to_owned)
}

/// Runs a call to its end.
async fn run(
    endpoint: Arc<Endpoint>,
    (mut call, mut moment, parts): (Call, Moment, Option<Parts>),
    mut record: CallRecord,
    Who { era, session, .. }: Who,
) -> Finished {
    let mut rounds = 0;
    let outcome = loop {
        let outcome = pipeline::call_tool(&endpoint.gateway, &call, &moment, &mut record).await;
        let Ok(result) = &outcome else { break outcome };
        let way = (call.side.as_ref(), &mut call.params);
        match inputs::is_to_be_repeated(result, way, (era, rounds)).await {
            Ok(true) => {
                rounds += 1;
                moment = Moment::now(&endpoint.gateway, &call.claim, call.client.clone());
                if let Some(parts) = &parts
                    && let Err(refusal) = check_scopes(&endpoint, parts, (&moment, &call.tool))
                {
                    record.lacks_scopes(&refusal);
                    return Box::new(move |id| super::refuse(Some(id), &refusal.into()));
                }
            }
            Ok(false) => break outcome,
            Err(error) => break Err(error),
        }
    };
    // Before the answer: the client may ask at once for the list of its tasks.
    let begun = outcome.as_ref().ok().and_then(|outcome| outcome.tasks.as_ref()?.id());
    if let (Some(session), Some(known)) = (session, begun)
        && let Some(task) = Task::open(&endpoint.gateway, &call.claim, known)
    {
        session.begun(|begun| begun.add(known, task));
    }
    Box::new(move |id| {
        let answer = match &outcome {
            Ok(outcome) => render::result::tool(id, era, outcome),
            Err(error) => {
                error.record_in(&mut record);
                render::call_error(id, era, &call.tool, error)
            }
        };
        record.answered(answer.bytes);
        answer
    })
}

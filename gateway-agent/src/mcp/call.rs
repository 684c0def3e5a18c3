//! `tools/call`: from the request to the pipeline, and back.
//!
//! Deliberately absent: everything that the pipeline does.

use std::sync::Arc;

use super::{Endpoint, Rejection, incoming::Incoming};
use crate::{
    audit::CallRecord,
    identity::{ClientInfo, HeaderClaim},
    pipeline::{self, Call},
    respond::{self, http::Answer},
    upstream::Era,
};

/// What is known of a request's sender.
#[derive(Debug, Clone)]
pub(super) struct Who<'a> {
    pub(super) era: Era,
    pub(super) claim: &'a HeaderClaim,
    pub(super) client: Option<Arc<ClientInfo>>,
}

/// Answers a call. When the client goes away, this future is dropped, and the upstream call with it.
pub(super) async fn serve(
    endpoint: &Endpoint,
    incoming: &Incoming<'_>,
    who: Who<'_>,
) -> Result<Answer, Rejection> {
    let Some(tool) = incoming.text("name") else {
        return Err(Rejection::Params { what: "params.name must be a string" });
    };
    let mut record = CallRecord::begin(who.era, &tool, incoming.bytes);
    let trace = incoming.trace();
    let call = Call {
        claim: who.claim,
        client: who.client,
        tool: &tool,
        arguments: incoming.param("arguments").filter(|raw| raw.get() != "null"),
        mirror: (who.era == Era::Modern).then(|| incoming.headers()),
        trace: trace.context(),
    };
    let outcome = pipeline::call_tool(&endpoint.gateway, call, &mut record).await;
    let answer = match &outcome {
        Ok(outcome) => respond::result::tool(incoming.id, who.era, outcome),
        Err(error) => {
            record.failed(error);
            respond::call_error(incoming.id, who.era, &tool, error)
        }
    };
    record.answered(answer.bytes);
    Ok(answer)
}

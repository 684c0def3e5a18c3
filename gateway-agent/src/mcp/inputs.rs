//! Input that a server requests during a call, across protocol eras (multi-round-trip requests).
//!
//! Between a stateless client and a stateless server, requests for input are forwarded unchanged.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use gateway_protocol::{jsonrpc::Id, mcp::Era};
use gateway_upstream::{ClientChannel, RequestContext};
use registry_core::{Digest, document::canonical_bytes};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use super::{
    Endpoint,
    exchange::{Exchange, PendingCall, RenderResponse, ResponseContext},
    held_requests::ResumedRequest,
    incoming::Incoming,
    requester::Requester,
};
use crate::{
    mcp::render,
    pipeline::{DenialForm, Error, InputHandling, answers_questions},
};

/// The handle of the held request that this one continues.
pub(super) fn handle<'a>(endpoint: &Endpoint, incoming: &Incoming<'a>) -> Option<Cow<'a, str>> {
    incoming.text("requestState").filter(|state| endpoint.state.held.is_handle(state))
}

/// Longest parameter that is compared by value, in bytes.
const MAX_PARSED_BYTES: usize = 64 * 1024;

/// The body of a request that can be held for input; otherwise empty.
pub(super) fn held_body(
    incoming: &Incoming<'_>,
    requester: &Requester,
    context: &RequestContext,
) -> Bytes {
    let brings_state = || incoming.param("requestState").is_some();
    if requester.session.is_some() || !(answers_questions(context) || brings_state()) {
        return Bytes::new();
    }
    incoming.body()
}

/// The digest of all parameters except the input, independent of formatting. A repeated request
/// must have the same digest.
pub(super) fn digest(body: &[u8]) -> Option<Digest> {
    #[derive(Deserialize)]
    struct Body<'a> {
        #[serde(borrow)]
        params: BTreeMap<Cow<'a, str>, &'a RawValue>,
    }
    let Body { params } = serde_json::from_slice(body).ok()?;
    // Long parameters are compared as text, because a parsed value takes many times the memory.
    let is_short = |raw: &&RawValue| raw.get().len() <= MAX_PARSED_BYTES;
    let read =
        |raw| Some(raw).filter(is_short).and_then(|raw| serde_json::from_str(raw.get()).ok());
    let is_compared = |name: &str| !matches!(name, "inputResponses" | "requestState" | "_meta");
    let params = params
        .into_iter()
        .filter(|(name, _)| is_compared(name))
        .map(|(name, raw)| (name.into_owned(), read(raw).unwrap_or_else(|| raw.get().into())));
    Some(Digest::compute(&canonical_bytes(&Value::Object(params.collect()))))
}

/// Continues a held request.
pub(super) fn resume<'a>(
    endpoint: &Arc<Endpoint>,
    incoming: &Incoming<'a>,
    (response_context, handle): (ResponseContext, &str),
) -> Exchange<'a> {
    let responses = incoming.param("inputResponses");
    let pending = match endpoint.state.held.resume(handle, &response_context.owner(), responses) {
        Some(ResumedRequest::PendingCall(pending)) => pending,
        Some(ResumedRequest::PendingQuestion(result)) => {
            completed(Box::new(move |id: Id<'_>| render::result::raw(id, &result)))
        }
        None => {
            let subject = response_context.subject.clone();
            completed(Box::new(move |id: Id<'_>| {
                render::call_error(
                    id,
                    Era::Modern,
                    (&subject, DenialForm::default()),
                    &Error::UnknownInput,
                )
            }))
        }
    };
    Exchange::new(endpoint, incoming.id, response_context, pending)
}

/// A request with a known response.
fn completed(finished: RenderResponse) -> PendingCall {
    let (_, meanwhile) = ClientChannel::open();
    PendingCall { running: Box::pin(async move { finished }), meanwhile }
}

/// Clients with sessions receive questions as requests, not as results that need input.
pub(super) fn input_handling(era: Era) -> InputHandling {
    match era {
        Era::Legacy => InputHandling::AskClient,
        Era::Modern => InputHandling::ReturnToClient,
    }
}

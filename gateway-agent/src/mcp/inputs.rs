//! Input that a server requests during a call, across the eras (basic/patterns/mrtr).
//!
//! Between two modern sides the request is forwarded unchanged.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use gateway_protocol::mcp::Era;
use gateway_upstream::{Context, Side};
use registry_core::Digest;
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use super::{
    Endpoint,
    exchange::{Exchange, Finished, Flight, Manner},
    held::Resumed,
    incoming::Incoming,
    manner::Who,
};
use crate::{
    mcp::render,
    pipeline::{Answers, Error, QUESTIONS},
};

/// The request that waits here for what this one brings, if it is about one.
pub(super) fn handle<'a>(endpoint: &Endpoint, incoming: &Incoming<'a>) -> Option<Cow<'a, str>> {
    incoming.text("requestState").filter(|state| endpoint.state.held.is_handle(state))
}

/// Longest parameter that is compared by its value, in bytes.
const SHORT: usize = 64 * 1024;

/// The body of a request that can be held for input, and empty for all others.
pub(super) fn held_body(incoming: &Incoming<'_>, who: &Who, context: &Context) -> Bytes {
    let can_be_asked =
        || QUESTIONS.iter().any(|(_, capability)| context.capabilities.can(capability));
    let brings_state = || incoming.param("requestState").is_some();
    if who.session.is_some() || !(can_be_asked() || brings_state()) {
        return Bytes::new();
    }
    incoming.body()
}

/// The digest of all parameters of a request but its input, independent of their spelling. A repeated
/// request must have the same.
pub(super) fn digest(body: &[u8]) -> Option<Digest> {
    #[derive(Deserialize)]
    struct Body<'a> {
        #[serde(borrow)]
        params: BTreeMap<Cow<'a, str>, &'a RawValue>,
    }
    let Body { params } = serde_json::from_slice(body).ok()?;
    // A long parameter is compared by its text, because its value would take many times the memory.
    let is_short = |raw: &&RawValue| raw.get().len() <= SHORT;
    let read =
        |raw| Some(raw).filter(is_short).and_then(|raw| serde_json::from_str(raw.get()).ok());
    let is_compared = |name: &str| !matches!(name, "inputResponses" | "requestState" | "_meta");
    let params: BTreeMap<_, Value> = params
        .into_iter()
        .filter(|(name, _)| is_compared(name))
        .map(|(name, raw)| (name, read(raw).unwrap_or_else(|| raw.get().into())))
        .collect();
    serde_json::to_vec(&params).ok().map(|text| Digest::compute(&text))
}

/// Goes on with a request that waits here.
pub(super) fn resume(
    endpoint: &Arc<Endpoint>,
    incoming: &Incoming<'_>,
    (manner, handle): (Manner, &str),
) -> Exchange {
    let responses = incoming.param("inputResponses");
    let flight = match endpoint.state.held.resume(handle, &manner.owner(), responses) {
        Some(Resumed::Flight(flight)) => flight,
        Some(Resumed::Asked(result)) => {
            flight_of(Box::new(move |id| render::result::raw(id, &result)))
        }
        None => {
            let subject = manner.subject.clone();
            flight_of(Box::new(move |id| {
                render::call_error(id, Era::Modern, &subject, &Error::NothingWaits)
            }))
        }
    };
    Exchange::new(endpoint, incoming.id, manner, flight)
}

/// A request that is answered already.
fn flight_of(finished: Finished) -> Flight {
    let (_, meanwhile) = Side::open();
    Flight { running: Box::pin(async move { finished }), meanwhile }
}

/// Clients of 2025-11-25 or before receive questions in their session instead of results that need input.
pub(super) fn answers(era: Era) -> Answers {
    match era {
        Era::Legacy => Answers::InPlace,
        Era::Modern => Answers::ByRepeat,
    }
}

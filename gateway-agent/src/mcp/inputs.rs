//! Input that is needed in the middle of a request, across the eras (basic/patterns/mrtr).
//!
//! Between two modern sides it is passed on as it is. Deliberately absent: questions of upstreams
//! with sessions to clients without (`held.rs`), and between two sides with sessions
//! (`exchange.rs`).

use std::sync::Arc;

use serde_json::value::RawValue;

use super::{
    Endpoint,
    exchange::{Exchange, Finished, Flight, Manner},
    held::{self, Resumed},
    incoming::Incoming,
};
use crate::{
    jsonrpc::{Object, ObjectWriter},
    pipeline::Error,
    respond,
    upstream::{Era, Param, Side},
};

/// How often one request may ask for input before a client of the older era is spared more.
pub(super) const ROUNDS: usize = 16;

/// Goes on with a request that waits here, if this one brings its input; if it is about nothing
/// that waits here, it is left alone.
pub(super) fn resume(
    endpoint: &Arc<Endpoint>,
    incoming: &Incoming<'_>,
    manner: Manner,
) -> Result<Exchange, Manner> {
    let state = incoming.text("requestState").filter(|state| held::is_handle(state));
    let Some(state) = state else { return Err(manner) };
    let responses = incoming.param("inputResponses");
    let flight = match endpoint.held.resume(&state, &manner.owner, responses) {
        Some(Resumed::Flight(flight)) => flight,
        Some(Resumed::Asked(result)) => {
            flight_of(Box::new(move |id| respond::result::raw(id, &result)))
        }
        None => {
            let subject = manner.owner.subject.clone();
            flight_of(Box::new(move |id| {
                respond::call_error(id, Era::Modern, &subject, &Error::NothingWaits)
            }))
        }
    };
    Ok(Exchange::new(endpoint, incoming.id, manner, flight))
}

/// A request that is answered already.
fn flight_of(finished: Finished) -> Flight {
    let (_, meanwhile) = Side::open();
    Flight { running: Box::pin(async move { finished }), meanwhile }
}

/// Asks a client of the older era everything that a result asks for, and gives the parameters with
/// which the request is to be made again; `None` where it does not answer.
pub(super) async fn answered(side: &Side, result: &RawValue) -> Option<Vec<Param>> {
    let members = Object::parse(result).ok()?;
    let asked = members.find("inputRequests").and_then(|raw| Object::parse(raw).ok());
    let mut responses = ObjectWriter::with_capacity(256);
    for request in asked.unwrap_or_default().members() {
        let question = Object::parse(request.value).ok()?;
        let method: String = serde_json::from_str(question.find("method")?.get()).ok()?;
        let answer = side.ask(&method, question.find("params")).await.ok()?;
        let answer = match answer {
            Ok(answer) => answer.get().to_owned(),
            // Who cannot answer an elicitation has declined it; the rest has no such answer.
            Err(_) if method == "elicitation/create" => r#"{"action":"cancel"}"#.to_owned(),
            Err(_) => return None,
        };
        responses.member(&request.name, &answer);
    }
    let mut params = vec![param("inputResponses", responses.finish_string())?];
    if let Some(state) = members.find("requestState") {
        params.push(Param { name: "requestState".into(), value: state.to_owned() });
    }
    Some(params)
}

fn param(name: &str, value: String) -> Option<Param> {
    Some(Param { name: name.into(), value: RawValue::from_string(value).ok()? })
}

/// Puts parameters in the place of those with the same names; a state that is not given anew is
/// gone.
pub(super) fn replace(params: &mut Vec<Param>, new: Vec<Param>) {
    params.retain(|param| !matches!(&*param.name, "inputResponses" | "requestState"));
    params.extend(new);
}

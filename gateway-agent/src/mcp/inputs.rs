//! Input that is needed in the middle of a request, across the eras (basic/patterns/mrtr).
//!
//! Between two modern sides it is passed on as it is. Deliberately absent: questions of upstreams
//! with sessions to clients without (`held.rs`), and between two sides with sessions
//! (`exchange.rs`).

use std::{borrow::Cow, sync::Arc};

use serde_json::value::RawValue;

use super::{
    Endpoint,
    exchange::{Exchange, Finished, Flight, Manner},
    held::{self, Resumed},
    incoming::Incoming,
};
use crate::{
    jsonrpc::{Object, ObjectWriter},
    pipeline::{Error, Outcome},
    respond,
    upstream::{Era, Param, ResultType, Side},
};

/// How often one request may ask for input before a client of the older era is spared more.
const ROUNDS: usize = 16;

/// The request that waits here for what this one brings, if it is about one.
pub(super) fn handle<'a>(incoming: &Incoming<'a>) -> Option<Cow<'a, str>> {
    incoming.text("requestState").filter(|state| held::is_handle(state))
}

/// Goes on with a request that waits here.
pub(super) fn resume(
    endpoint: &Arc<Endpoint>,
    incoming: &Incoming<'_>,
    (manner, handle): (Manner, &str),
) -> Exchange {
    let responses = incoming.param("inputResponses");
    let flight = match endpoint.held.resume(handle, &manner.owner, responses) {
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
    Exchange::new(endpoint, incoming.id, manner, flight)
}

/// A request that is answered already.
fn flight_of(finished: Finished) -> Flight {
    let (_, meanwhile) = Side::open();
    Flight { running: Box::pin(async move { finished }), meanwhile }
}

/// After an attempt: a client of the older era never sees that input is needed. It is asked, and
/// the request is made again with its answers, which this puts into the parameters.
pub(super) async fn is_to_be_repeated(
    outcome: &Outcome,
    (side, params): (Option<&Side>, &mut Vec<Param>),
    (era, rounds): (Era, usize),
) -> Result<bool, Error> {
    let Some(side) = side else { return Ok(false) };
    if era == Era::Modern || outcome.result.result_type != ResultType::InputRequired {
        return Ok(false);
    }
    if rounds >= ROUNDS {
        return Err(Error::EndlessInput { rounds });
    }
    let answers = answered(side, &outcome.result.result).await.ok_or(Error::NothingWaits)?;
    params.retain(|param| !matches!(&*param.name, "inputResponses" | "requestState"));
    params.extend(answers);
    Ok(true)
}

/// Asks everything that a result asks for, and gives the parameters with the answers; `None` where
/// there are none.
async fn answered(side: &Side, result: &RawValue) -> Option<Vec<Param>> {
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

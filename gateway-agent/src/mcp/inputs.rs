//! Input that is needed in the middle of a request, across the eras (basic/patterns/mrtr).
//!
//! Between two modern sides it is passed on as it is. Deliberately absent: questions of upstreams
//! with sessions to clients without (`held.rs`), and between two sides with sessions
//! (`exchange.rs`).

use std::{borrow::Cow, sync::Arc};

use super::{
    Endpoint,
    exchange::{Exchange, Finished, Flight, Manner},
    held::{self, Resumed},
    incoming::Incoming,
};
use crate::{
    pipeline::{Error, Outcome, input},
    respond,
    upstream::{Era, Param, ResultType, Side},
};

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
    input::ask(side, &outcome.result, (params, rounds)).await?;
    Ok(true)
}

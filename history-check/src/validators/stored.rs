//! A used approval is never open again, also in a database that lost transactions.

use super::Violation;
use crate::{approved_calls::ApprovedCalls, history::History};

pub(super) fn check(history: &History) -> Vec<Violation> {
    if history.settled().is_none() {
        return vec![Violation::new([], "the servers did not list the requests in time")];
    }
    let calls = ApprovedCalls::new(&history.lines);
    let mut found = Vec::new();
    for execution in calls.first_rounds() {
        let Some(request) = calls.request_of(execution) else { continue };
        // The registry deletes the oldest ended requests of a caller with many.
        let Some((line, state)) = calls.ended.get(request) else { continue };
        if ["pending", "approved"].contains(state) {
            let call = execution.call;
            let what = format!("{call} used the request {request}, which is {state}");
            found.push(Violation::new([execution.line, *line], what));
        }
    }
    found
}

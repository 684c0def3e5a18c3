//! A rejected call is not executed. The caller receives a reason, and the request that it can wait for.

use super::Violation;
use crate::{approval_event::Reply, approved_calls::ApprovedCalls, history::History};

const REASONS: [&str; 3] = ["APPROVAL_REQUIRED", "APPROVAL_DENIED", UNAVAILABLE];
/// The only reason without a request.
const UNAVAILABLE: &str = "APPROVAL_UNAVAILABLE";

pub(super) fn check(history: &History) -> Vec<Violation> {
    let calls = ApprovedCalls::new(&history.lines);
    let mut found = Vec::new();
    for (name, call) in &calls.calls {
        let Some(Reply::Rejected { reason, request }) = call.reply else { continue };
        let is_known = REASONS.contains(&reason.as_str());
        if !is_known || (request.is_none() && reason != UNAVAILABLE) {
            let what = format!("{name} was rejected with {reason} and the request {request:?}");
            found.push(Violation::new([call.line], what));
        }
        for executed in calls.executions.iter().filter(|execution| execution.call == *name) {
            let what = format!("{name} was rejected with {reason} and executed");
            found.push(Violation::new([call.line, executed.line], what));
        }
    }
    found
}

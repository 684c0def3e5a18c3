//! A call is executed after its approval, for the caller and with the arguments that a person saw.
//! Each approval allows one execution.

use super::Violation;
use crate::{
    approved_calls::{ApprovedCalls, Call, Execution},
    history::History,
};

pub(super) fn check(history: &History) -> Vec<Violation> {
    let calls = ApprovedCalls::new(&history.lines);
    let mut found = Vec::new();
    for execution in &calls.executions {
        let problem = match calls.calls.get(execution.call) {
            None => Some("which was not sent".to_owned()),
            Some(call) if call.arguments != execution.arguments => {
                Some(format!("with {}, not {}", execution.arguments, call.arguments))
            }
            Some(call) => problem(&calls, execution, call),
        };
        if let Some(problem) = problem {
            let what = format!("the tool executed {}, {problem}", execution.call);
            found.push(Violation::new([execution.line], what));
        }
    }
    found
}

fn problem(
    calls: &ApprovedCalls<'_>,
    execution: &Execution<'_>,
    call: &Call<'_>,
) -> Option<String> {
    if let Some(question) = execution.question {
        let asked = calls.calls.get(question.call)?;
        let is_same = asked.agent == call.agent && asked.arguments == call.arguments;
        return (!is_same).then(|| format!("which continues the other call {}", question.call));
    }
    let Call { agent, arguments, .. } = *call;
    if let Some(request) = calls.request_of(execution) {
        let decision = calls.decisions.get(request);
        if !decision.is_some_and(|decision| decision.allows(agent, arguments, execution.line)) {
            return Some(format!("and the request {request} does not allow it"));
        }
    }
    let is_same = |other: &&Execution<'_>| {
        let other = calls.calls.get(other.call);
        other.is_some_and(|other| other.agent == agent && other.arguments == arguments)
    };
    let executed = calls.first_rounds().filter(|other| other.line <= execution.line);
    let executed = executed.filter(is_same).count();
    let decisions = calls.decisions.values();
    let approved = decisions.filter(|of| of.allows(agent, arguments, execution.line)).count();
    (executed > approved).then(|| format!("its execution {executed} with {approved} approvals"))
}

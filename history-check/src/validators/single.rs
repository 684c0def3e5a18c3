//! One call uses an approval, a call is sent once, and one call continues a question.

use std::collections::BTreeMap;

use super::Violation;
use crate::{
    approved_calls::{ApprovedCalls, Execution},
    history::History,
};

pub(super) fn check(history: &History) -> Vec<Violation> {
    let calls = ApprovedCalls::new(&history.lines);
    let executions = &calls.executions;
    let mut found = repeated("the call", executions, |execution| Some(execution.call));
    found.extend(repeated("the request", executions, |execution| match execution.question {
        None => calls.request_of(execution),
        Some(_) => None,
    }));
    found.extend(repeated("the question", executions, |execution| Some(execution.question?.state)));
    found
}

/// The names that more than one execution has.
fn repeated<'a, 'h: 'a>(
    what: &str,
    executions: &'a [Execution<'h>],
    name: impl Fn(&'a Execution<'h>) -> Option<&'h str>,
) -> Vec<Violation> {
    let mut lines: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for execution in executions {
        if let Some(name) = name(execution) {
            lines.entry(name).or_default().push(execution.line);
        }
    }
    let repeated = lines.into_iter().filter(|(_, lines)| lines.len() > 1);
    repeated
        .map(|(name, lines)| {
            let times = lines.len();
            Violation::new(lines, format!("{what} {name} was executed {times} times"))
        })
        .collect()
}

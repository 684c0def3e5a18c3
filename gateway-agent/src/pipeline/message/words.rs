//! The longer messages. They omit the values of rejected results.

use gateway_compose::Failure;
use gateway_policy::{Exhausted, Scarce};
use gateway_upstream::Breach;
use schema_compat::schema_compile::Violation;

use crate::pipeline::projection;

/// What the operator has to do; what differs is not the caller's to read.
pub(super) fn quarantined(tool: &str) -> String {
    format!(
        "{tool} is unavailable and was not called, nothing was done: what its server says of it has \
         changed, and nobody has accepted that yet. Trying again does not help; tell the gateway's \
         operator."
    )
}

/// What to correct, for the model: each place and what is wrong there.
pub(super) fn invalid_input(tool: &str, violations: &[Violation]) -> String {
    violations.iter().fold(format!("Invalid arguments for {tool}:"), |text, found| {
        let place = if found.pointer.is_empty() { "(top level)" } else { &found.pointer };
        format!("{text}\n- {place}: {}", found.message)
    })
}

/// Only the places: what was refused does not get out by way of the message.
pub(super) fn invalid_output(tool: &str, violations: &[Violation]) -> String {
    violations.iter().fold(
        format!("The result of {tool} breaks its registered schema and was refused. Places:"),
        |text, found| {
            let place = if found.pointer.is_empty() { "(top level)" } else { &found.pointer };
            format!("{text}\n- {place}")
        },
    )
}

/// Nothing of what came back: that is what the projection keeps from the caller.
pub(super) fn unprojected(tool: &str, failure: &projection::Failure) -> String {
    format!(
        "{tool} was called, but its result does not fit its registered projection and was refused: \
         {failure}. Trying again does not help; tell the tool's owner."
    )
}

/// Which step failed and why.
pub(crate) fn unfinished(tool: &str, failure: &Failure) -> String {
    let message = failure.message();
    if failure.step.is_empty() {
        format!("{tool} failed: {message}")
    } else {
        format!("{tool} failed at its step `{}`: {message}", failure.step)
    }
}

/// Whether a server that does not keep to the protocol may have done something.
pub(super) fn broken(tool: &str, what: &Breach) -> String {
    if *what == Breach::HttpSse {
        return format!(
            "The server behind {tool} speaks HTTP+SSE (2024-11-05), which the gateway does not support; \
             nothing was done. An operator must configure another transport."
        );
    }
    if what.may_have_run() {
        return format!(
            "The server behind {tool} broke the protocol. Whether it did its work is not known."
        );
    }
    format!(
        "The server behind {tool} speaks no version of the protocol that the gateway speaks; nothing was done."
    )
}

/// What is known of an agent's task, and what the agent said.
pub(super) fn open_task(tool: &str, why: &str, said: Option<&str>) -> String {
    let said = said.map(|said| format!(" The agent said: {said}")).unwrap_or_default();
    format!("{tool} gave no result: {why}. Whether it did its work is not known.{said}")
}

/// Who has as much of something as it may; of a call that was to wait, more is to say.
pub(super) fn exhausted(tool: &str, why: &Exhausted) -> String {
    match why.what() {
        Scarce::Watches
        | Scarce::Tasks
        | Scarce::Keys
        | Scarce::Detached
        | Scarce::Events
        | Scarce::Sessions
        | Scarce::Streams => why.to_string(),
        Scarce::Buffers => format!(
            "The gateway has no memory left for the result of {tool} and discarded it: {why}. Whether \
             the tool did its work is not known. Retry later, with fewer or smaller calls at once."
        ),
        Scarce::Answers | Scarce::Inputs => format!(
            "{tool} asked for an answer of its caller, and was given up: {why}. Whether it did its \
             work is not known. Answer what was asked before, or try again later."
        ),
    }
}

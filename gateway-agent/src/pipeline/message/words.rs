//! Longer messages. They omit the values of rejected results.

use gateway_compose::CompositionError;
use gateway_policy::{QuotaExceeded, QuotaKind};
use gateway_upstream::ProtocolViolation;
use policy::{BudgetShortage, DeniedApproval, Direction, MissingApproval, Reason, UsedBudget};
use schema_compat::schema_compile::Violation;

use crate::pipeline::{PolicyDenial, RetiredDependency, projection};

/// A policy denied the call. The message does not reveal the conditions of the policy.
pub(crate) fn denied(tool: &str, denial: &PolicyDenial) -> String {
    let policy = &denial.finding.policy;
    let policy = format!("{}@{}", policy.name, policy.version);
    match &denial.finding.reason {
        Reason::Unauthorized => format!(
            "{tool} was not called: the policy {policy} does not allow this call. Do not repeat it \
             unchanged; ask the owner of the policy if you need it."
        ),
        Reason::PolicyError(_) => format!(
            "{tool} was not called: the policy {policy} could not be evaluated for this call. \
             Report this to the owner of the policy."
        ),
        Reason::RateLimited { retry_after: Some(wait) } => format!(
            "{tool} was not called: the rate limit of the policy {policy} is exhausted. Retry in {} \
             s.",
            wait.as_millis().div_ceil(1_000)
        ),
        Reason::RateLimited { retry_after: None } => {
            format!("{tool} was not called: the rate limit of the policy {policy} is 0.")
        }
        Reason::TraceLimited { what, limit } => format!(
            "{tool} was not called: the trace has more than {limit} {what}, the limit of the policy \
             {policy}. Check whether agents or tools call each other in a loop."
        ),
        Reason::BudgetExceeded(shortage) => budget_exceeded(tool, &policy, shortage),
        Reason::Unpriced { budget } => format!(
            "{tool} was not called: it has no price, which the budget {budget} of the policy {policy} \
             requires. Report this to the owner of the policy."
        ),
        Reason::StalePolicy { limit, .. } => format!(
            "{tool} was not called: the gateway did not reach its registry for more than {} s, the \
             limit of the policy {policy}. Retry later.",
            limit.as_secs()
        ),
        Reason::PiiDetected { class, direction, pointer } => {
            pii_detected(tool, &policy, class, *direction, pointer)
        }
        Reason::ApprovalRequired(missing) => approval_required(tool, &policy, missing.as_deref()),
        Reason::ApprovalUnavailable { problem } => format!(
            "{tool} was not called: the policy {policy} demands an approval of this call. {problem}."
        ),
        Reason::ApprovalDenied(denied) => {
            let DeniedApproval { id, reason, until } = &**denied;
            let until = until.map(|until| format!(" before {until}")).unwrap_or_default();
            format!(
                "{tool} was not called: a person denied the approval {id} that the policy {policy} \
                 demands. Reason: {reason}. Do not repeat this call{until}."
            )
        }
    }
}

fn approval_required(tool: &str, policy: &str, missing: Option<&MissingApproval>) -> String {
    let text = format!(
        "{tool} was not called: the policy {policy} demands the approval of a person for this call."
    );
    let Some(MissingApproval { id, url, expires_at, uncertain }) = missing else { return text };
    let place = url.as_ref().map(|url| format!(" at {url}")).unwrap_or_default();
    let end = expires_at.map(|end| format!(" until {end}")).unwrap_or_default();
    let warning = uncertain.as_ref().map(|id| {
        format!(
            " An earlier call with the same arguments (approval {id}) may have been executed: check \
             its effects first."
        )
    });
    format!(
        "{text} The approval {id} waits for a decision{place}{end}. Tell the user, and repeat this call \
         unchanged after the decision.{}",
        warning.unwrap_or_default()
    )
}

/// The message has no values.
fn pii_detected(
    tool: &str,
    policy: &str,
    class: &str,
    direction: Direction,
    pointer: &str,
) -> String {
    let place = if pointer.is_empty() { "(top level)" } else { pointer };
    match direction {
        Direction::Arguments => format!(
            "{tool} was not called: the policy {policy} blocks {class} data in its arguments, at \
             {place}. Repeat the call without this data."
        ),
        Direction::Results => format!(
            "{tool} was called, but the policy {policy} blocks {class} data in its result, at \
             {place}. The result was discarded. Do not repeat the call unchanged."
        ),
    }
}

fn budget_exceeded(tool: &str, policy: &str, shortage: &BudgetShortage) -> String {
    let BudgetShortage { limit, used, requested, .. } = shortage;
    // Neither the end of a recovery nor a repetition helps against an exhausted limit.
    let can_retry = !shortage.is_spent();
    let subject = match &shortage.budget {
        Some(budget) => format!("the budget {budget} of the policy {policy}"),
        None => format!("the cost limit of the policy {policy} for one trace"),
    };
    let remedy = match shortage.resets_at {
        _ if shortage.is_unavailable => {
            "The gateway cannot reach the ledger; retry later.".to_owned()
        }
        _ if shortage.is_recovering && can_retry => {
            "The ledger recovers and grants nothing yet; retry in about a minute.".to_owned()
        }
        _ if shortage.is_timeout && can_retry => {
            "The ledger granted nothing in time; retry the call.".to_owned()
        }
        Some(at) => format!("The next window starts at {at}."),
        None => "Ask the owner of the policy if you need more.".to_owned(),
    };
    let state = match used {
        Some(UsedBudget { spent, .. }) => format!("{spent} of {limit} spent"),
        None => format!("a limit of {limit}"),
    };
    format!(
        "{tool} was not called: the call costs {requested}, and {subject} has {state}. {remedy}"
    )
}

pub(super) fn retired(retired: &RetiredDependency) -> String {
    let newest = retired.newest.as_ref();
    let newest = newest.map(|version| format!("; the newest active one is {version}"));
    let newest = newest.unwrap_or_default();
    format!("The caller {}. Declare another version{newest}.", retired.declares())
}

/// The change itself is for operators only.
pub(super) fn quarantined(tool: &str) -> String {
    format!(
        "{tool} is quarantined and was not called: its server changed the tool's definition, and the \
         change has not been accepted. Retries do not help; report this to the gateway's operator."
    )
}

pub(super) fn invalid_input(tool: &str, violations: &[Violation]) -> String {
    violations.iter().fold(format!("Invalid arguments for {tool}:"), |text, violation| {
        let place = if violation.pointer.is_empty() { "(top level)" } else { &violation.pointer };
        format!("{text}\n- {place}: {}", violation.message)
    })
}

/// Only the pointers: values of a rejected result must not reach the caller.
pub(super) fn invalid_output(tool: &str, violations: &[Violation]) -> String {
    violations.iter().fold(
        format!("The result of {tool} violates its registered output schema and was discarded. Violations at:"),
        |text, violation| {
            let place = if violation.pointer.is_empty() { "(top level)" } else { &violation.pointer };
            format!("{text}\n- {place}")
        },
    )
}

/// The result is omitted: a projection hides it from the caller.
pub(super) fn failed_projection(tool: &str, failure: &projection::ProjectionError) -> String {
    format!(
        "{tool} was called, but its result does not match its registered projection and was discarded: \
         {failure}. Retries do not help; report this to the tool's owner."
    )
}

pub(crate) fn failed_composition(tool: &str, failed: &CompositionError) -> String {
    if let Some(shown) = &failed.shown {
        return shown.message.clone();
    }
    let failure = &failed.failure;
    let message = failure.message();
    if failure.step.is_empty() {
        format!("{tool} failed: {message}")
    } else {
        format!("{tool} failed at step `{}`: {message}", failure.step)
    }
}

pub(super) fn protocol_violation(tool: &str, what: &ProtocolViolation) -> String {
    if *what == ProtocolViolation::HttpSse {
        return format!(
            "The server behind {tool} uses HTTP+SSE (2024-11-05), which the gateway does not support. The \
             call was not made. An operator must configure another transport."
        );
    }
    if *what == ProtocolViolation::NoTaskMethod {
        return format!(
            "The agent behind {tool} answered `GetTask` with -32601 (method not found). The gateway detects \
             the version of A2A with this method, which A2A requires. The call was not made."
        );
    }
    if what.may_have_run() {
        return format!(
            "The server behind {tool} violated the protocol. The outcome of the call is unknown."
        );
    }
    format!(
        "The server behind {tool} supports no protocol version of the gateway. The call was not made."
    )
}

pub(super) fn open_task(tool: &str, why: &str, said: Option<&str>) -> String {
    let said = said.map(|said| format!(" The agent said: {said}")).unwrap_or_default();
    format!("{tool} returned no result: {why}. The outcome of the call is unknown.{said}")
}

pub(super) fn quota_exceeded(tool: &str, why: &QuotaExceeded) -> String {
    match why.kind() {
        QuotaKind::Watches
        | QuotaKind::Tasks
        | QuotaKind::Prices
        | QuotaKind::Keys
        | QuotaKind::Detached
        | QuotaKind::Events
        | QuotaKind::Sessions
        | QuotaKind::Streams => why.to_string(),
        QuotaKind::Buffers => format!(
            "The gateway has no memory left for the result of {tool}, so the result was discarded: {why}. The outcome of the call is unknown. Retry later, with fewer or smaller concurrent calls."
        ),
        QuotaKind::Answers | QuotaKind::Inputs => format!(
            "{tool} requested input, and the call was stopped: {why}. The outcome of the call is unknown. Answer the open questions first, or retry later."
        ),
    }
}

#[cfg(test)]
mod tests {
    use registry_core::{Amount, Kind, Name};

    use super::*;

    /// The denial of a call that costs 1.
    fn denial(spent: Option<&str>, change: impl Fn(&mut BudgetShortage)) -> String {
        let amount = |text: &str| Amount::parse(text).unwrap();
        let used = spent.map(|spent| UsedBudget {
            spent: amount(spent),
            reserved: Amount::ZERO,
            in_doubt: Amount::ZERO,
        });
        let mut shortage = BudgetShortage {
            budget: Name::parse(Kind::Policy, "b").ok(),
            scope: "fleet",
            limit: amount("2"),
            used,
            requested: amount("1"),
            resets_at: None,
            is_unavailable: false,
            is_recovering: false,
            is_timeout: false,
        };
        change(&mut shortage);
        budget_exceeded("pay", "p@1.0.0", &shortage)
    }

    #[test]
    fn retry_is_advised_only_while_the_limit_has_room() {
        let recovering = |spent| denial(Some(spent), |shortage| shortage.is_recovering = true);
        let late = |spent| denial(Some(spent), |shortage| shortage.is_timeout = true);
        insta::assert_snapshot!(recovering("1"), @"pay was not called: the call costs 1, and the budget b of the policy p@1.0.0 has 1 of 2 spent. The ledger recovers and grants nothing yet; retry in about a minute.");
        insta::assert_snapshot!(late("1"), @"pay was not called: the call costs 1, and the budget b of the policy p@1.0.0 has 1 of 2 spent. The ledger granted nothing in time; retry the call.");
        insta::assert_snapshot!(recovering("1.2"), @"pay was not called: the call costs 1, and the budget b of the policy p@1.0.0 has 1.2 of 2 spent. Ask the owner of the policy if you need more.");
        assert_eq!(late("1.2"), recovering("1.2"));
    }

    #[test]
    fn unknown_spending_is_omitted() {
        let offline = denial(None, |shortage| shortage.is_unavailable = true);
        insta::assert_snapshot!(offline, @"pay was not called: the call costs 1, and the budget b of the policy p@1.0.0 has a limit of 2. The gateway cannot reach the ledger; retry later.");
    }
}

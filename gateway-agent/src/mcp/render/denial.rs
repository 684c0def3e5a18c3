//! Denials by policies. Models see results with `isError`; clients often hide JSON-RPC errors.
//!
//! The codes of the two eras differ, because 2026-07-28 reserves those of earlier ones.

use gateway_protocol::{
    jsonrpc::ErrorObject,
    mcp::{Era, GOVERNANCE, Method},
};
use policy::{BudgetShortage, MissingApproval, Reason};
use registry_core::Amount;
use serde_json::{Value, json};

use super::{Id, SizedResponse, StatusCode, error, result};
use crate::pipeline::{DenialForm, PolicyDenial, message};

/// The response to a call of a tool.
pub(super) fn of_call(
    id: Id<'_>,
    era: Era,
    tool: &str,
    (denial, form): (&PolicyDenial, DenialForm),
) -> SizedResponse {
    let code = code(era, Method::CallTool, &denial.finding.reason);
    match form {
        DenialForm::Error => respond(id, code, denial),
        DenialForm::Result => {
            let text = message::denied(tool, denial);
            let data = data(code, denial, form).to_string();
            result::failed_with(id, era, &text, (GOVERNANCE, data))
        }
    }
}

/// The response to another request.
pub(super) fn of_request(id: Id<'_>, method: Method, denial: &PolicyDenial) -> SizedResponse {
    respond(id, code(Era::Modern, method, &denial.finding.reason), denial)
}

/// The error of a denial for surfaces that have the codes of `tools/call` before 2026-07-28.
pub(crate) struct DenialError {
    pub(crate) code: i64,
    pub(crate) message: &'static str,
    /// The machine-readable form, with `reason`.
    pub(crate) data: Value,
}

impl DenialError {
    pub(crate) fn new(denial: &PolicyDenial) -> Self {
        let reason = &denial.finding.reason;
        let code = code(Era::Legacy, Method::CallTool, reason);
        Self { code, message: summary(reason), data: data(code, denial, DenialForm::Error) }
    }
}

fn respond(id: Id<'_>, code: i64, denial: &PolicyDenial) -> SizedResponse {
    let data = serde_json::value::to_raw_value(&data(code, denial, DenialForm::Error)).ok();
    let message = summary(&denial.finding.reason).into();
    error(StatusCode::OK, Some(id), &ErrorObject { code, message, data: data.as_deref() })
}

/// The code of a denial. Before 2026-07-28, `tools/call` has codes in the range of servers.
fn code(era: Era, method: Method, reason: &Reason) -> i64 {
    let is_rate = matches!(reason, Reason::RateLimited { .. } | Reason::TraceLimited { .. });
    let is_budget = matches!(reason, Reason::BudgetExceeded(_) | Reason::Unpriced { .. });
    let is_pii = matches!(reason, Reason::PiiDetected { .. });
    match (era, method) {
        (Era::Legacy, Method::CallTool) if is_budget => -32_001,
        (Era::Legacy, Method::CallTool) if is_pii => -32_002,
        (Era::Legacy, Method::CallTool) if is_rate => -32_004,
        (Era::Legacy, Method::CallTool) => -32_003,
        _ if is_budget => 4_290,
        _ if is_pii => 4_220,
        _ if is_rate => 4_291,
        _ => 4_030,
    }
}

fn summary(reason: &Reason) -> &'static str {
    match reason {
        Reason::Unauthorized | Reason::PolicyError(_) | Reason::StalePolicy { .. } => {
            "Tool not authorized"
        }
        Reason::RateLimited { .. } | Reason::TraceLimited { .. } => "Rate limit exceeded",
        Reason::BudgetExceeded(_) | Reason::Unpriced { .. } => "Budget limit exceeded",
        Reason::PiiDetected { .. } => "PII in tool params",
        Reason::ApprovalRequired(_) | Reason::ApprovalUnavailable { .. } => "Approval required",
        Reason::ApprovalDenied(_) => "Approval denied",
    }
}

/// The machine-readable form of a denial.
fn data(code: i64, denial: &PolicyDenial, form: DenialForm) -> Value {
    let PolicyDenial { finding, agent_id, tool_id, invocation_id, .. } = denial;
    let mut details = json!({
        "policy": finding.policy.name, "policyVersion": finding.policy.version,
        "toolId": tool_id, "invocationId": invocation_id,
    });
    if let Some(agent) = agent_id {
        details["agentId"] = agent.as_str().into();
    }
    match &finding.reason {
        Reason::Unauthorized | Reason::PolicyError(_) => {}
        Reason::RateLimited { retry_after } => {
            let millis =
                retry_after.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
            details["retryAfterMs"] = millis.into();
        }
        Reason::TraceLimited { what, limit } => {
            details["scope"] = format!("trace {what}").into();
            details["limit"] = (*limit).into();
        }
        Reason::StalePolicy { age, limit } => {
            details["ageSeconds"] = age.map(|age| age.as_secs()).into();
            details["maxAgeSeconds"] = limit.as_secs().into();
        }
        Reason::BudgetExceeded(shortage) => add_shortage(&mut details, shortage, form),
        Reason::Unpriced { budget } => {
            details["budget"] = budget.as_str().into();
            details["isUnpriced"] = true.into();
        }
        Reason::PiiDetected { class, direction, pointer } => {
            details["class"] = (*class).into();
            details["direction"] = direction.as_str().into();
            details["pointer"] = pointer.as_str().into();
        }
        Reason::ApprovalRequired(missing) => add_missing(&mut details, missing.as_deref()),
        Reason::ApprovalUnavailable { problem } => details["problem"] = problem.as_str().into(),
        Reason::ApprovalDenied(denied) => {
            details["approvalId"] = denied.id.as_str().into();
            details["reason"] = denied.reason.as_str().into();
            details["deniedUntil"] = denied.until.map(|until| until.to_string()).into();
        }
    }
    let reason = finding.reason.as_str();
    json!({
        "code": code, "reason": reason,
        "error": { "code": reason, "message": summary(&finding.reason), "details": details },
    })
}

fn add_missing(details: &mut Value, missing: Option<&MissingApproval>) {
    let Some(MissingApproval { id, url, expires_at, uncertain }) = missing else { return };
    details["approvalId"] = id.as_str().into();
    details["expiresAt"] = expires_at.map(|end| end.to_string()).into();
    if let Some(url) = url {
        details["url"] = url.as_str().into();
    }
    if let Some(uncertain) = uncertain {
        details["uncertainId"] = uncertain.as_str().into();
    }
}

/// The amounts are decimal texts. JSON-RPC errors have two decimals, and the exact amounts in `exact`.
fn add_shortage(details: &mut Value, shortage: &BudgetShortage, form: DenialForm) {
    let amounts = [
        ("limit", shortage.limit),
        ("spent", shortage.spent),
        ("reserved", shortage.reserved),
        ("requested", shortage.requested),
        ("inDoubt", shortage.in_doubt),
    ];
    for (name, amount) in amounts {
        match form {
            DenialForm::Result => details[name] = amount.to_string().into(),
            DenialForm::Error => {
                details[name] = two_decimals(amount).into();
                details["exact"][name] = amount.to_string().into();
            }
        }
    }
    details["scope"] = shortage.scope.into();
    if let Some(budget) = &shortage.budget {
        details["budget"] = budget.as_str().into();
    }
    if let Some(resets_at) = shortage.resets_at {
        details["resetsAt"] = resets_at.to_string().into();
    }
    if shortage.is_unavailable {
        details["isLedgerUnavailable"] = true.into();
    }
    if shortage.is_recovering {
        details["isRecovering"] = true.into();
    }
    if shortage.is_timeout {
        details["isTimeout"] = true.into();
    }
}

/// The amount with two decimals, rounded half away from zero.
fn two_decimals(amount: Amount) -> String {
    let micros = i128::from(amount.as_micros());
    let cents = (micros.abs() + 5_000) / 10_000;
    let sign = if micros < 0 && cents > 0 { "-" } else { "" };
    format!("{sign}{}.{:02}", cents / 100, cents % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_of_errors_have_two_decimals() {
        for (exact, rounded) in [
            ("10", "10.00"),
            ("0.015", "0.02"),
            ("0.014999", "0.01"),
            ("0", "0.00"),
            ("-0.004", "0.00"),
            ("-1.5", "-1.50"),
            ("9223372036854.775807", "9223372036854.78"),
        ] {
            assert_eq!(two_decimals(Amount::parse(exact).unwrap()), rounded);
        }
    }
}

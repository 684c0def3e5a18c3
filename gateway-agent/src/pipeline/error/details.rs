//! The details of denials, which programs read.

use policy::{BudgetShortage, MissingApproval, Reason, UsedBudget};
use registry_core::Amount;
use serde_json::{Value, json};

use super::PolicyDenial;
use crate::pipeline::DenialForm;

impl PolicyDenial {
    /// The details as an object. Absent values are null or missing.
    pub(crate) fn details(&self, form: DenialForm) -> Value {
        let PolicyDenial { finding, agent_id, tool_id, invocation_id, .. } = self;
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
        details
    }
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
    let used = shortage.used.map(|UsedBudget { spent, reserved, in_doubt }| {
        [("spent", spent), ("reserved", reserved), ("inDoubt", in_doubt)]
    });
    let amounts = [("limit", shortage.limit), ("requested", shortage.requested)];
    for (name, amount) in amounts.into_iter().chain(used.into_iter().flatten()) {
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

//! Denials by policies. Models see results with `isError`; clients often hide JSON-RPC errors.
//!
//! The codes of the two eras differ, because 2026-07-28 reserves those of earlier ones.

use gateway_protocol::{
    jsonrpc::ErrorObject,
    mcp::{Era, GOVERNANCE, Method},
};
use policy::Reason;
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
            let data = data(code, denial).to_string();
            result::failed_with(id, era, &text, (GOVERNANCE, data))
        }
    }
}

/// The response to another request.
pub(super) fn of_request(id: Id<'_>, method: Method, denial: &PolicyDenial) -> SizedResponse {
    respond(id, code(Era::Modern, method, &denial.finding.reason), denial)
}

fn respond(id: Id<'_>, code: i64, denial: &PolicyDenial) -> SizedResponse {
    let data = serde_json::value::to_raw_value(&data(code, denial)).ok();
    let message = summary(&denial.finding.reason).into();
    error(StatusCode::OK, Some(id), &ErrorObject { code, message, data: data.as_deref() })
}

/// The code of a denial. Before 2026-07-28, `tools/call` has codes in the range of servers.
fn code(era: Era, method: Method, reason: &Reason) -> i64 {
    let is_rate = matches!(reason, Reason::RateLimited { .. } | Reason::TraceLimited { .. });
    match (era, method) {
        (Era::Legacy, Method::CallTool) if is_rate => -32_004,
        (Era::Legacy, Method::CallTool) => -32_003,
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
    }
}

/// The machine-readable form of a denial.
fn data(code: i64, denial: &PolicyDenial) -> Value {
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
    }
    let reason = finding.reason.as_str();
    json!({
        "code": code, "reason": reason,
        "error": { "code": reason, "message": summary(&finding.reason), "details": details },
    })
}

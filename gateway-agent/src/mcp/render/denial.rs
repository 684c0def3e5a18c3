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
    let reason = &denial.finding.reason;
    let (name, message) = (reason.as_str(), summary(reason));
    json!({
        "code": code, "reason": name,
        "error": { "code": name, "message": message, "details": denial.details(form) },
    })
}

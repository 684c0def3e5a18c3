//! `GET /admin/approvals`, and `POST /admin/approvals/approve` and `…/deny`: the approvals of a gateway
//! without a registry.

use std::sync::Arc;

use approval::{Choice, DecideError, Request, RequestId, RequestStatus};
use axum::{
    Json, Router,
    body::Bytes,
    extract::State,
    http::StatusCode,
    response::{IntoResponse as _, Response},
    routing::{get, post},
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::error_response;
use crate::approvals::{InvalidDecision, LocalApprovals};

/// `None`: the approvals are those of a registry.
type Approvals = Option<Arc<LocalApprovals>>;

pub(crate) fn router(approvals: Approvals) -> Router {
    Router::new()
        .route("/admin/approvals", get(list))
        .route("/admin/approvals/approve", post(approve))
        .route("/admin/approvals/deny", post(deny))
        .with_state(approvals)
}

async fn list(State(approvals): State<Approvals>) -> Response {
    let Some(approvals) = approvals else { return in_registry() };
    let mut listed = approvals.list().await;
    listed.sort_by_key(|(request, _)| std::cmp::Reverse(request.created_at));
    let listed: Vec<_> = listed.iter().map(|(request, status)| view(request, status)).collect();
    Json(json!({ "approvals": listed })).into_response()
}

fn view(request: &Request, status: &RequestStatus) -> Value {
    let binding = &request.binding;
    let policies: Vec<_> = binding.demands.iter().map(|demand| &demand.policy).collect();
    let arguments = request.preview.as_deref().and_then(|text| serde_json::from_str(text).ok());
    json!({
        "id": request.id,
        "state": status.state,
        "createdAt": request.created_at.to_string(),
        "expiresAt": status.ends_at.map(|end| end.to_string()),
        "caller": { "issuer": binding.caller.issuer, "subject": binding.caller.subject },
        "agent": binding.agent,
        "resource": binding.resource,
        "version": binding.version,
        "policies": policies,
        "arguments": arguments.unwrap_or(Value::Null),
        "denial": status.denial,
        "uncertainId": status.uncertain,
    })
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ApproveRequest {
    id: RequestId,
}

async fn approve(State(approvals): State<Approvals>, body: Bytes) -> Response {
    let ApproveRequest { id } = match read(&body, "{\"id\": ID}") {
        Ok(request) => request,
        Err(message) => return error_response(StatusCode::BAD_REQUEST, &message),
    };
    decide(approvals, id, &Choice::Approve { standing: None }).await
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DenyRequest {
    id: RequestId,
    reason: String,
}

async fn deny(State(approvals): State<Approvals>, body: Bytes) -> Response {
    let DenyRequest { id, reason } = match read(&body, "{\"id\": ID, \"reason\": TEXT}") {
        Ok(request) => request,
        Err(message) => return error_response(StatusCode::BAD_REQUEST, &message),
    };
    decide(approvals, id, &Choice::Deny { reason }).await
}

fn read<T: DeserializeOwned>(body: &[u8], form: &str) -> Result<T, String> {
    serde_json::from_slice(body).map_err(|e| format!("send {form}: {e}"))
}

async fn decide(approvals: Approvals, id: RequestId, choice: &Choice) -> Response {
    let Some(approvals) = approvals else { return in_registry() };
    match approvals.decide(id, choice).await {
        Ok(status) => Json(json!({ "id": id, "state": status.state })).into_response(),
        Err(error) => {
            let status = match &error {
                InvalidDecision::Rejected(DecideError::NotFound) => StatusCode::NOT_FOUND,
                InvalidDecision::Rejected(DecideError::Reason) => StatusCode::BAD_REQUEST,
                InvalidDecision::Rejected(_) => StatusCode::CONFLICT,
                InvalidDecision::Store(_) => StatusCode::SERVICE_UNAVAILABLE,
            };
            error_response(status, &error.to_string())
        }
    }
}

fn in_registry() -> Response {
    let message = "the approvals of this gateway are in its registry; use `registryctl approvals`";
    error_response(StatusCode::CONFLICT, message)
}

//! `POST /v0.1/validate`: validates a `server.json` without registering it.
//!
//! The status is 200 for invalid documents too; the body has the findings.

use std::sync::Arc;

use axum::{Json, Router, body::Body, extract::State, routing::post};
use registry_core::Diagnostic;
use serde::Serialize;
use serde_json::Value;
use tokio::task::spawn_blocking;

use super::{body, finding::Issue, route};
use crate::app::{App, concurrency::Slot};

#[derive(Serialize)]
struct Validation {
    valid: bool,
    issues: Vec<Issue>,
}

pub(super) fn router() -> Router<Arc<App>> {
    route(Router::new(), "/validate", post(validate))
}

async fn validate(State(app): State<Arc<App>>, body: Body) -> Json<Validation> {
    let read = match body::json(body).await {
        Ok(value) => diagnostics(value, app.validations.take().await).await,
        Err(problem) => Err(problem.detail().to_owned()),
    };
    let found = match read {
        Ok(found) => found,
        Err(reason) => {
            return Json(Validation { valid: false, issues: vec![Issue::unreadable(reason)] });
        }
    };
    let valid = !found.iter().any(Diagnostic::is_error);
    Json(Validation { valid, issues: found.iter().map(Issue::from).collect() })
}

/// Validates a document on the blocking pool.
async fn diagnostics(value: Value, slot: Slot) -> Result<Vec<Diagnostic>, String> {
    let validation = move || {
        let _turn = slot;
        mcp_registry::document(&value).1
    };
    spawn_blocking(validation).await.map_err(|e| format!("validation failed: {e}"))
}

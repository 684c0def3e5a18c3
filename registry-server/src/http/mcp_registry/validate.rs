//! `POST /v0.1/validate`: is this a `server.json` that this registry would read?
//!
//! The answer is always 200; whether it is one stands in the body. Documents are looked at beside
//! the runtime, a few at once.

use std::sync::Arc;

use axum::{Json, Router, body::Body, extract::State, routing::post};
use registry_core::Diagnostic;
use serde::Serialize;
use serde_json::Value;
use tokio::task::spawn_blocking;

use super::{body, finding::Issue, route};
use crate::app::{App, turns::Turn};

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
        Ok(value) => look(value, app.validations.take().await).await,
        Err(problem) => Err(problem.detail().to_owned()),
    };
    let found = match read {
        Ok(found) => found,
        Err(why) => return Json(Validation { valid: false, issues: vec![Issue::unreadable(why)] }),
    };
    let valid = !found.iter().any(Diagnostic::is_error);
    Json(Validation { valid, issues: found.iter().map(Issue::from).collect() })
}

/// What is wrong with a document.
async fn look(value: Value, turn: Turn) -> Result<Vec<Diagnostic>, String> {
    let looking = move || {
        let _turn = turn;
        mcp_registry::document(&value).1
    };
    spawn_blocking(looking).await.map_err(|e| format!("looking at it failed: {e}"))
}

//! `POST /v0.1/validate`: is this a `server.json` that this registry would read?
//!
//! The answer is always 200; whether it is one stands in the body. Deliberately absent: what is
//! registered already.

use std::sync::Arc;

use axum::{Json, Router, body::Body, routing::post};
use registry_core::{Diagnostic, mcp_registry};
use serde::Serialize;

use super::{body, finding::Issue, route};
use crate::app::App;

#[derive(Serialize)]
struct Validation {
    valid: bool,
    issues: Vec<Issue>,
}

pub(super) fn router() -> Router<Arc<App>> {
    route(Router::new(), "/validate", post(validate))
}

async fn validate(body: Body) -> Json<Validation> {
    let found = match body::json(body).await {
        Ok(value) => mcp_registry::document(&value).1,
        Err(problem) => {
            let issues = vec![Issue::unreadable(problem.detail().to_owned())];
            return Json(Validation { valid: false, issues });
        }
    };
    let valid = !found.iter().any(Diagnostic::is_error);
    Json(Validation { valid, issues: found.iter().map(Issue::from).collect() })
}

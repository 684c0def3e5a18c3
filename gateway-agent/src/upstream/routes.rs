//! `GET /admin/targets`, and `POST /admin/targets/check`: how the targets are, and a fresh look at
//! one of them.
//!
//! Deliberately absent: who may ask; the admin address asks for its token.

use std::sync::Arc;

use axum::{
    Json, Router,
    body::Bytes,
    extract::State,
    http::StatusCode,
    response::{IntoResponse as _, Response},
    routing::{get, post},
};
use registry_core::Key;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Era, TargetHealth, TargetState, Upstreams};
use crate::admin::refused;

/// The routes.
pub fn router(upstreams: Arc<Upstreams>) -> Router {
    Router::new()
        .route("/admin/targets", get(list))
        .route("/admin/targets/check", post(check))
        .with_state(upstreams)
}

/// A target as it is shown.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    server: Key,
    prefix: String,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    era: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    down_seconds: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// Whether calls are refused for a while, because so many have failed.
    spared: bool,
}

impl From<TargetHealth> for Shown {
    fn from(health: TargetHealth) -> Self {
        let TargetHealth { server, prefix, is_spared, state } = health;
        let (name, era, since, error) = match state {
            TargetState::Connecting => ("connecting", None, None, None),
            TargetState::Up { era: Era::Modern } => ("up", Some("modern"), None, None),
            TargetState::Up { era: Era::Legacy } => ("up", Some("legacy"), None, None),
            TargetState::Down { since, error } => ("down", None, Some(since), Some(error)),
        };
        let down_seconds = since.map(|since| since.elapsed().as_secs());
        Self { server, prefix, state: name, era, down_seconds, error, spared: is_spared }
    }
}

async fn list(State(upstreams): State<Arc<Upstreams>>) -> Response {
    let targets: Vec<_> = upstreams.health().into_iter().map(Shown::from).collect();
    Json(json!({ "targets": targets })).into_response()
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    server: Key,
}

/// Asks for a fresh look, and does not wait for it: the list tells what came of it.
async fn check(State(upstreams): State<Arc<Upstreams>>, body: Bytes) -> Response {
    match serde_json::from_slice(&body) {
        Ok(Wanted { server }) if upstreams.check(&server) => StatusCode::ACCEPTED.into_response(),
        Ok(Wanted { server }) => {
            refused(StatusCode::NOT_FOUND, &format!("no target is configured for {server}"))
        }
        Err(e) => refused(
            StatusCode::BAD_REQUEST,
            &format!("send {{\"server\": \"server/NAME@VERSION\"}}: {e}"),
        ),
    }
}

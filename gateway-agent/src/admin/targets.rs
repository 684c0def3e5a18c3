//! `GET /admin/targets`, and `POST /admin/targets/check`, `…/health`, `…/stop` and `…/start`.

use std::{sync::Arc, time::Duration};

use agent_rpc::orchestrator::Code;
use axum::{
    Json, Router,
    body::Bytes,
    extract::State,
    http::StatusCode,
    response::{IntoResponse as _, Response},
    routing::{get, post},
};
use gateway_upstream::{Route, TargetHealth, TargetId, TargetState, Upstreams};
use registry_core::Key;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{error_response, invalid_body};

/// Time limit of a health check, which answers within a second.
const HEALTH: Duration = Duration::from_millis(900);

pub(crate) fn router(upstreams: Arc<Upstreams>) -> Router {
    Router::new()
        .route("/admin/targets", get(list))
        .route("/admin/targets/check", post(check))
        .route("/admin/targets/health", post(health))
        .route("/admin/targets/stop", post(stop))
        .route("/admin/targets/start", post(start))
        .with_state(upstreams)
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct TargetView {
    server: TargetId,
    prefix: String,
    state: &'static str,
    /// `initialized`, `running` or `stopped`.
    lifecycle: &'static str,
    healthy: bool,
    /// The code of the failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    era: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    down_seconds: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// Whether the circuit breaker is open.
    circuit_open: bool,
    /// Requests in progress.
    running: usize,
    /// Queued requests.
    queued: usize,
}

impl From<TargetHealth> for TargetView {
    fn from(health: TargetHealth) -> Self {
        let TargetHealth { server, prefix, is_circuit_open, load, state } = health;
        let (name, lifecycle) = (state.as_str(), state.lifecycle());
        let healthy = matches!(state, TargetState::Up { .. });
        let code = match &state {
            TargetState::Down { was_up: false, .. } => Some(Code::AgentInitFailed.as_str()),
            TargetState::Down { .. } | TargetState::Stopped => {
                Some(Code::AgentUnavailable.as_str())
            }
            TargetState::Connecting | TargetState::Idle | TargetState::Up { .. } => None,
        };
        let (era, since, error) = match state {
            TargetState::Connecting | TargetState::Idle | TargetState::Stopped => {
                (None, None, None)
            }
            TargetState::Up { speaks } => (Some(speaks), None, None),
            TargetState::Down { since, error, .. } => (None, Some(since), Some(error)),
        };
        let down_seconds = since.map(|since| since.elapsed().as_secs());
        Self {
            server,
            prefix,
            state: name,
            lifecycle,
            healthy,
            code,
            era,
            down_seconds,
            error,
            circuit_open: is_circuit_open,
            running: load.running,
            queued: load.waiting,
        }
    }
}

async fn list(State(upstreams): State<Arc<Upstreams>>) -> Response {
    let targets: Vec<_> = upstreams.health().into_iter().map(TargetView::from).collect();
    Json(json!({ "targets": targets })).into_response()
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TargetRequest {
    server: TargetId,
}

/// Starts a check without waiting for it. The list reports its outcome.
async fn check(State(upstreams): State<Arc<Upstreams>>, body: Bytes) -> Response {
    act(&body, |server| match upstreams.check(server) {
        Some(true) => StatusCode::ACCEPTED.into_response(),
        Some(false) => error_response(
            StatusCode::CONFLICT,
            &format!("the target of {server} is stopped; run `registryctl gateway start {server}`"),
        ),
        None => unknown(&upstreams, server),
    })
}

/// Probes a target, and returns its state after the probe.
async fn health(State(upstreams): State<Arc<Upstreams>>, body: Bytes) -> Response {
    let server = match read(&body) {
        Ok(server) => server,
        Err(problem) => return error_response(StatusCode::BAD_REQUEST, &problem),
    };
    let Some(health) = upstreams.probe(&server, HEALTH).await else {
        return unknown(&upstreams, &server);
    };
    let view = TargetView::from(health);
    let is_healthy = view.healthy;
    tracing::info!(target: "audit", event = "health", target.server = %server, is_healthy);
    Json(view).into_response()
}

/// Stops new calls to a target, and removes its tools from lists. Running calls finish.
async fn stop(State(upstreams): State<Arc<Upstreams>>, body: Bytes) -> Response {
    act(&body, |server| {
        if !upstreams.stop(server) {
            return unknown(&upstreams, server);
        }
        done(server, "stopped")
    })
}

async fn start(State(upstreams): State<Arc<Upstreams>>, body: Bytes) -> Response {
    act(&body, |server| {
        if !upstreams.resume(server) {
            return unknown(&upstreams, server);
        }
        done(server, "started")
    })
}

fn act(body: &[u8], act: impl FnOnce(&TargetId) -> Response) -> Response {
    match read(body) {
        Ok(server) => act(&server),
        Err(problem) => error_response(StatusCode::BAD_REQUEST, &problem),
    }
}

fn read(body: &[u8]) -> Result<TargetId, String> {
    let read = serde_json::from_slice(body).map(|TargetRequest { server }| server);
    read.map_err(|e| format!("send {{\"server\": \"server/NAME@VERSION\"}}: {}", invalid_body(&e)))
}

fn done(server: &TargetId, what: &'static str) -> Response {
    tracing::info!(target: "audit", event = "target", target.server = %server, what);
    StatusCode::NO_CONTENT.into_response()
}

/// The error for a version without its own target. It names the target that serves the version,
/// but does not act on that target, because it may serve other versions too.
fn unknown(upstreams: &Upstreams, server: &TargetId) -> Response {
    let key = |version| Key::new(server.kind, server.name.clone(), version);
    let route = server.version.clone().and_then(|version| upstreams.route(&key(version)));
    let remedy = route.map_or_else(String::new, |Route { target, .. }| {
        format!("; this version uses the target '{target}', so name this target")
    });
    error_response(StatusCode::NOT_FOUND, &format!("no target is configured for {server}{remedy}"))
}

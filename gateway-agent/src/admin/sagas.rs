//! `GET /admin/sagas`, `GET /admin/sagas/{id}` and `POST /admin/sagas/retry`.

use axum::{
    Json, Router,
    body::Bytes,
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse as _, Response},
    routing::{get, post},
};
use gateway_compose::RetryError;
use serde::Deserialize;

use super::error_response;
use crate::pipeline::{GatewayHandle, retry_saga};

pub(crate) fn router(handle: GatewayHandle) -> Router {
    Router::new()
        .route("/admin/sagas", get(list))
        .route("/admin/sagas/retry", post(retry))
        .route("/admin/sagas/{id}", get(show))
        .with_state(handle)
}

async fn list(State(handle): State<GatewayHandle>) -> Response {
    let gateway = handle.current();
    gateway.compositions().sagas().list(|list| Json(list).into_response())
}

/// Includes inputs and results of steps, which operators need for repairs.
async fn show(State(handle): State<GatewayHandle>, Path(id): Path<String>) -> Response {
    let gateway = handle.current();
    let shown = gateway.compositions().sagas().show(&id, |saga| Json(saga).into_response());
    shown.unwrap_or_else(|| error_response(StatusCode::NOT_FOUND, &format!("saga {id} not found")))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RetryRequest {
    saga: String,
}

async fn retry(State(handle): State<GatewayHandle>, body: Bytes) -> Response {
    let request: RetryRequest = match serde_json::from_slice(&body) {
        Ok(request) => request,
        Err(e) => {
            return error_response(
                StatusCode::BAD_REQUEST,
                &format!("send {{\"saga\": \"ID\"}}: {e}"),
            );
        }
    };
    let status = match retry_saga(&handle.current(), &request.saga).await {
        Ok(()) => {
            tracing::info!(target: "audit", event = "saga", saga = request.saga, what = "retried");
            return StatusCode::ACCEPTED.into_response();
        }
        Err(error @ RetryError::Unknown(_)) => (StatusCode::NOT_FOUND, error),
        Err(error @ (RetryError::Settled(_) | RetryError::UnderWay(_))) => {
            (StatusCode::CONFLICT, error)
        }
        Err(error @ RetryError::Journal(_)) => (StatusCode::SERVICE_UNAVAILABLE, error),
    };
    error_response(status.0, &status.1.to_string())
}

//! `GET /admin/contracts` and `POST /admin/contracts/accept`: live tool definitions, and their
//! acceptance by an operator.

use std::sync::Arc;

use axum::{
    Json, Router,
    body::Bytes,
    extract::State,
    http::StatusCode,
    response::{IntoResponse as _, Response},
    routing::{get, post},
};
use registry_core::{Digest, Key};
use serde::Deserialize;

use super::{error_response, invalid_body};
use crate::contract::{Contracts, NotAccepted};

pub(crate) fn router(contracts: Arc<Contracts>) -> Router {
    Router::new()
        .route("/admin/contracts", get(report))
        .route("/admin/contracts/accept", post(accept))
        .with_state(contracts)
}

async fn report(State(contracts): State<Arc<Contracts>>) -> Response {
    Json(contracts.report()).into_response()
}

/// A tool, and the digest of the definition to accept.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AcceptRequest {
    tool: Key,
    live: Digest,
}

async fn accept(State(contracts): State<Arc<Contracts>>, body: Bytes) -> Response {
    let AcceptRequest { tool, live } = match serde_json::from_slice(&body) {
        Ok(accepted) => accepted,
        Err(e) => {
            let reason = invalid_body(&e);
            let message =
                format!("send {{\"tool\": \"tool/NAME@VERSION\", \"live\": DIGEST}}: {reason}");
            return error_response(StatusCode::BAD_REQUEST, &message);
        }
    };
    let accepted = tokio::task::spawn_blocking(move || contracts.accept(&tool, live)).await;
    match accepted {
        Ok(Ok(())) => StatusCode::NO_CONTENT.into_response(),
        Ok(Err(error)) => error_response(status(&error), &error.to_string()),
        Err(_) => error_response(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal error of the gateway; see its log",
        ),
    }
}

fn status(error: &NotAccepted) -> StatusCode {
    match error {
        NotAccepted::Unknown(_) => StatusCode::NOT_FOUND,
        NotAccepted::Another { .. } => StatusCode::CONFLICT,
        NotAccepted::Io(_) => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

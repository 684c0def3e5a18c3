//! `GET /admin/sagas`, `GET /admin/sagas/{id}` and `POST /admin/sagas/retry`: which sagas there are,
//! what became of one, and trying again what could not be undone.
//!
//! Deliberately absent: who may ask; the admin address asks for its token.

use axum::{
    Json, Router,
    body::Bytes,
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse as _, Response},
    routing::{get, post},
};
use registry_core::{Key, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    recovery::{self, NotRetried},
    table::Known,
};
use crate::{admin::refused, mcp::Mcp};

/// Most sagas that are listed: those that need somebody, and then the newest.
const LISTED: usize = 1_000;

/// The routes.
pub fn router(mcp: Mcp) -> Router {
    Router::new()
        .route("/admin/sagas", get(list))
        .route("/admin/sagas/retry", post(retry))
        .route("/admin/sagas/{id}", get(show))
        .with_state(mcp)
}

/// A saga in a list.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown<'a> {
    id: &'a str,
    tool: &'a Key,
    /// Where in the tool's spec it is.
    pointer: &'a str,
    /// The saga inside of which it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<&'a str>,
    /// Its own id, as JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    instance: Option<&'a str>,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    failed_step: Option<&'a str>,
    /// The steps that could not be undone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    left: Vec<&'a str>,
    /// When something last happened to it.
    at: String,
}

fn shown<'a>((id, known): (&'a str, &'a Known)) -> Shown<'a> {
    let (began, end) = (known.history.began(), known.history.ended());
    Shown {
        id,
        tool: &began.tool,
        pointer: &began.pointer,
        parent: began.parent.as_deref(),
        instance: began.instance.as_deref(),
        status: known.history.status(),
        failed_step: end.and_then(|end| end.failed_step.as_deref()),
        left: end.map(|end| end.left()).unwrap_or_default(),
        at: Timestamp::from_millis(known.at_ms).to_string(),
    }
}

async fn list(State(mcp): State<Mcp>) -> Response {
    let gateway = mcp.gateway();
    let table = gateway.compositions().sagas().lock();
    let sagas: Vec<_> = table.by_need().take(LISTED).map(shown).collect();
    let more = table.iter().count() - sagas.len();
    Json(json!({ "sagas": sagas, "more": more, "damagedLines": table.damaged })).into_response()
}

/// With what its tools were given and gave: whoever has to mend something needs that.
async fn show(State(mcp): State<Mcp>, Path(id): Path<String>) -> Response {
    let gateway = mcp.gateway();
    let table = gateway.compositions().sagas().lock();
    match table.get(&id) {
        Some(known) => {
            let saga = shown((&id, known));
            Json(json!({ "saga": saga, "history": *known.history })).into_response()
        }
        None => refused(StatusCode::NOT_FOUND, &format!("there is no saga {id}")),
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    saga: String,
}

async fn retry(State(mcp): State<Mcp>, body: Bytes) -> Response {
    let wanted: Wanted = match serde_json::from_slice(&body) {
        Ok(wanted) => wanted,
        Err(e) => {
            return refused(StatusCode::BAD_REQUEST, &format!("send {{\"saga\": \"ID\"}}: {e}"));
        }
    };
    let status = match recovery::retry(&mcp.gateway(), &wanted.saga).await {
        Ok(()) => {
            tracing::info!(target: "audit", event = "saga", saga = wanted.saga, what = "retried");
            return StatusCode::ACCEPTED.into_response();
        }
        Err(error @ NotRetried::Unknown(_)) => (StatusCode::NOT_FOUND, error),
        Err(error @ (NotRetried::Settled(_) | NotRetried::UnderWay(_))) => {
            (StatusCode::CONFLICT, error)
        }
        Err(error @ NotRetried::Journal(_)) => (StatusCode::SERVICE_UNAVAILABLE, error),
    };
    refused(status.0, &status.1.to_string())
}

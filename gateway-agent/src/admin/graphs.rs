//! `GET /admin/graphs/{trace_id}`: the execution graphs of all callers' traces with an id, for
//! auditors.

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::{Path, State},
    response::{IntoResponse as _, Response},
    routing::get,
};
use serde_json::json;

use crate::graphs::Graphs;

pub(crate) fn router(graphs: Arc<Graphs>) -> Router {
    // Ids of traces can have slashes.
    Router::new().route("/admin/graphs/{*trace_id}", get(show)).with_state(graphs)
}

async fn show(State(graphs): State<Arc<Graphs>>, Path(id): Path<String>) -> Response {
    Json(json!({ "graphs": graphs.of_all(&id) })).into_response()
}

//! `/readyz`: whether the server accepts requests, and its state.
//!
//! A server that has lost its database still serves reads and streams. It stays ready and reports
//! `degraded`, because otherwise a lost database would remove all servers from the load balancer.

use std::sync::Arc;

use axum::{Json, extract::State, http::StatusCode, response::IntoResponse};
use serde::Serialize;

use crate::{app::App, registrar::Database, relay::Relay};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Readiness {
    status: &'static str,
    registry: String,
    revision: u64,
    entities: usize,
    streams: usize,
    database: &'static str,
    /// Revision of the search index, once built.
    #[serde(skip_serializing_if = "Option::is_none")]
    search_revision: Option<u64>,
    /// Only on the admin address, because it has the host and the user of the database.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    /// Upstream registry of a relay; only on the admin address.
    #[serde(skip_serializing_if = "Option::is_none")]
    upstream: Option<String>,
}

/// Summary for the main port.
pub(super) async fn ready(State(app): State<Arc<App>>) -> impl IntoResponse {
    let (code, readiness) = readiness(&app);
    (code, Json(Readiness { problem: None, upstream: None, ..readiness }))
}

/// Details for the admin address.
pub(super) async fn details(State(app): State<Arc<App>>) -> impl IntoResponse {
    let (code, readiness) = readiness(&app);
    (code, Json(readiness))
}

fn readiness(app: &App) -> (StatusCode, Readiness) {
    let catalog = app.catalog();
    let (database, problem) = match app.registrar.database() {
        Database::Writable => ("writable", None),
        Database::ReadOnly(error) => ("read-only", Some(error.to_string())),
    };
    let upstream = app.relay.as_ref().map(Relay::upstream);
    let lost = app.relay.as_ref().and_then(Relay::problem);
    let problem =
        problem.or(lost.map(|reason| format!("not following the upstream registry: {reason}")));
    let problem = problem.or_else(|| app.search.problem());
    let (code, status) = match (app.draining.is_cancelled(), &problem) {
        (true, _) => (StatusCode::SERVICE_UNAVAILABLE, "draining"),
        (false, _) if !app.feed.is_synced() => (StatusCode::SERVICE_UNAVAILABLE, "syncing"),
        (false, Some(_)) => (StatusCode::OK, "degraded"),
        (false, None) => (StatusCode::OK, "ready"),
    };
    let readiness = Readiness {
        status,
        registry: app.registry().to_string(),
        revision: catalog.revision().0,
        entities: catalog.len(),
        streams: app.feed.sessions().len(),
        database,
        search_revision: app.search.revision().map(|revision| revision.0),
        problem,
        upstream,
    };
    (code, readiness)
}

//! `/readyz`: whether requests should come here, and how the server is.
//!
//! A server that has lost its database still answers reads and streams, so it stays ready and says
//! `degraded`: taking all servers out would turn a loss of writes into a loss of everything.

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
    /// The revision of the search index, once there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    search_revision: Option<u64>,
    /// On the admin address alone: it names the database and its user.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    /// Of a relay, on the admin address alone: the registry that it follows.
    #[serde(skip_serializing_if = "Option::is_none")]
    upstream: Option<String>,
}

/// For everybody who reaches the server.
pub(super) async fn ready(State(app): State<Arc<App>>) -> impl IntoResponse {
    let (code, readiness) = readiness(&app);
    (code, Json(Readiness { problem: None, upstream: None, ..readiness }))
}

/// For operators.
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
    let away = app.relay.as_ref().and_then(Relay::problem);
    let problem = problem.or(away.map(|reason| format!("the registry is not followed: {reason}")));
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
        streams: app.feed.roster().len(),
        database,
        search_revision: app.search.revision().map(|revision| revision.0),
        problem,
        upstream,
    };
    (code, readiness)
}

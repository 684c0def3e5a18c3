//! HTTP routes: health checks, the exported catalog, JSON Schemas, the MCP registry API, and metrics on the
//! admin address.

mod etag;
mod export;
pub(crate) mod guard;
mod health;
pub(crate) mod mcp_registry;
mod schemas;

use std::sync::Arc;

use axum::{
    Router,
    extract::{Request, State},
    http::{StatusCode, header},
    middleware::from_fn,
    response::{IntoResponse, Response},
    routing::get,
};

use crate::{app::App, grpc, metrics, registrar::Database};

/// Routes of the main port, with a fallback for unknown paths.
pub fn router(app: Arc<App>) -> Router {
    Router::new()
        .route("/livez", get(alive))
        .route("/readyz", get(health::ready))
        .route_layer(from_fn(guard::guard))
        .merge(mcp_registry::router())
        .fallback(not_found)
        .with_state(app)
}

/// Routes of documents on the main port, which pages of listed origins may read.
pub fn documents(app: Arc<App>) -> Router {
    Router::new()
        .route("/registry.json", get(export::registry_file))
        .route("/schemas/", get(schemas::index))
        .route("/schemas/{file}", get(schemas::schema))
        .route_layer(from_fn(guard::guard))
        .with_state(app)
}

/// Routes of the admin address.
pub fn admin(app: Arc<App>) -> Router {
    Router::new()
        .route("/livez", get(alive))
        .route("/readyz", get(health::details))
        .route("/metrics", get(render_metrics))
        .route_layer(from_fn(guard::guard))
        .with_state(app)
}

async fn alive() -> &'static str {
    "alive\n"
}

async fn render_metrics(State(app): State<Arc<App>>) -> impl IntoResponse {
    metrics::observe(app.catalog().revision(), app.gateways.followers());
    metrics::feed(app.feed.scopes(), app.feed.oldest_retained());
    metrics::database(app.registrar.database() == Database::Writable);
    let text = metrics::recorder().render();
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text)
}

async fn not_found(request: Request) -> Response {
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    if kind.is_some_and(|kind| kind.starts_with("application/grpc")) {
        return grpc::unimplemented().into_http();
    }
    let help = "not found; this server has /openapi.json, /registry.json, /schemas/, /v0.1/servers, /livez and \
                /readyz, and /metrics on the admin address (--admin-listen)\n";
    (StatusCode::NOT_FOUND, help).into_response()
}

//! The HTTP surface: health, the exported catalog, and the API of MCP registries; on the admin address also
//! metrics.

mod etag;
mod export;
mod guard;
mod health;
pub(crate) mod mcp_registry;

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

/// The routes, and what answers on all others.
pub fn router(app: Arc<App>) -> Router {
    Router::new()
        .route("/livez", get(alive))
        .route("/readyz", get(health::ready))
        .route("/registry.json", get(export::registry_file))
        .route_layer(from_fn(guard::guard))
        .merge(mcp_registry::router())
        .fallback(nothing_here)
        .with_state(app)
}

/// The routes of the admin address: for probes and scrapers.
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
    metrics::feed(app.feed.scopes(), app.feed.oldest_delta());
    metrics::database(app.registrar.database() == Database::Writable);
    let text = metrics::recorder().render();
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text)
}

async fn nothing_here(request: Request) -> Response {
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    if kind.is_some_and(|kind| kind.starts_with("application/grpc")) {
        return grpc::unimplemented().into_http();
    }
    let help = "not found; there are /livez, /readyz, /registry.json and /v0.1/servers, and /metrics on the \
                admin address (--admin-listen)\n";
    (StatusCode::NOT_FOUND, help).into_response()
}

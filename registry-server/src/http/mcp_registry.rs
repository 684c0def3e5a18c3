//! MCP registry API below `/v0.1`, for editors and assistants.
//!
//! Reads use the catalog in memory and work without the database. They allow all origins, because the API
//! specification requires it. `/v0` and proof of domain ownership are not supported.

mod body;
mod cursor;
mod finding;
mod problem;
mod query;
mod read;
mod validate;
mod write;

use std::sync::Arc;

use axum::{
    Router,
    extract::Request,
    http::{Method, StatusCode, Uri},
    middleware::{Next, from_fn},
    response::{IntoResponse as _, Response},
    routing::{MethodRouter, any, get},
};
use problem::Problem;

use super::guard;
use crate::{app::App, cors};

/// Routes of the API, with fallbacks below its prefix.
pub(super) fn router() -> Router<Arc<App>> {
    let api = reads()
        .merge(write::router())
        .merge(validate::router())
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(from_fn(guard_as_problem))
        .layer(from_fn(cors::cors));
    let root = any(not_found).layer(from_fn(cors::cors));
    Router::new().nest("/v0.1", api).route("/v0.1/", root)
}

/// Read-only routes.
fn reads() -> Router<Arc<App>> {
    let router = route(Router::new(), "/servers", get(read::list));
    let router = route(router, "/servers/{name}/versions", get(read::versions));
    route(router, "/servers/{name}/versions/{version}", get(read::version))
}

/// Adds a route with and without a trailing slash, because some clients add one.
fn route(router: Router<Arc<App>>, path: &str, method: MethodRouter<Arc<App>>) -> Router<Arc<App>> {
    router.route(path, method.clone()).route(&format!("{path}/"), method)
}

/// [`guard::guard`] with the error format of this API.
async fn guard_as_problem(request: Request, next: Next) -> Response {
    match guard::rejection(&request) {
        Some(reason) => Problem::new(StatusCode::FORBIDDEN, reason).into_response(),
        None => next.run(request).await,
    }
}

async fn not_found(uri: Uri) -> Problem {
    Problem::not_found(format!(
        "/v0.1{} not found; encode the slash of a server name as %2F, for example \
         /v0.1/servers/com.example%2Fdocs/versions/latest",
        uri.path()
    ))
}

async fn method_not_allowed(method: Method, uri: Uri) -> Problem {
    Problem::method_not_allowed(format!("{method} is not allowed on /v0.1{}", uri.path()))
}

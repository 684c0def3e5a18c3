//! `/v0.1/…`: the API of MCP registries, for editors, assistants and the MCP project's own tools.
//!
//! Everything that is read comes from the catalog in memory, so it is there without the database.
//! Reading is open to every web page, as the API demands: editors are web pages. `/v0` is not
//! supported, because private registries do not have it. Proof of domain ownership is not supported.

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

/// The routes of the API, and what answers on all others below it.
pub(super) fn router() -> Router<Arc<App>> {
    let api = reads()
        .merge(write::router())
        .merge(validate::router())
        .fallback(nothing_here)
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn(guard_as_problem))
        .layer(from_fn(cors::cors));
    let root = any(nothing_here).layer(from_fn(cors::cors));
    Router::new().nest("/v0.1", api).route("/v0.1/", root)
}

/// What changes nothing: open to everybody, since no client proves who it is.
fn reads() -> Router<Arc<App>> {
    let router = route(Router::new(), "/servers", get(read::list));
    let router = route(router, "/servers/{name}/versions", get(read::versions));
    route(router, "/servers/{name}/versions/{version}", get(read::version))
}

/// A route with and without a slash at its end: some clients put a base and a path together badly.
fn route(router: Router<Arc<App>>, path: &str, method: MethodRouter<Arc<App>>) -> Router<Arc<App>> {
    router.route(path, method.clone()).route(&format!("{path}/"), method)
}

/// As [`guard::guard`], in this API's own form.
async fn guard_as_problem(request: Request, next: Next) -> Response {
    match guard::refusal(&request) {
        Some(why) => Problem::new(StatusCode::FORBIDDEN, why).into_response(),
        None => next.run(request).await,
    }
}

async fn nothing_here(uri: Uri) -> Problem {
    Problem::not_found(format!(
        "there is nothing at /v0.1{}; names are written with %2F, as in \
         /v0.1/servers/com.example%2Fdocs/versions/latest",
        uri.path()
    ))
}

async fn wrong_method(method: Method, uri: Uri) -> Problem {
    Problem::wrong_method(format!("{method} is not possible at /v0.1{}", uri.path()))
}

//! Reads of servers and their versions.
//!
//! Some assistants block a user's servers if the response for a version is neither 200 nor 404, so these
//! handlers return no other status for it.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, Query as Parameters, State, rejection::PathRejection},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use mcp_registry::{Entry, Listing, Namespace, ServerList, ServerResponse};
use registry_core::{Catalog, Digest};
use serde::Serialize;

use super::{cursor, problem::Problem, query};
use crate::{app::App, http::etag};

/// Cache lifetime of responses.
const CACHE_PUBLIC: HeaderValue = HeaderValue::from_static("public, max-age=15");
/// Cache lifetime of responses to authenticated requests, which shared caches must not store.
const CACHE_PRIVATE: HeaderValue = HeaderValue::from_static("private, max-age=15");

/// Maximum versions of one server in a response, newest first; the API has no pages here.
const MAX_VERSIONS: usize = 1_000;
/// Maximum bytes of their documents.
const MAX_BYTES: usize = 16 << 20;

type Name = Result<Path<String>, PathRejection>;
type NameAndVersion = Result<Path<(String, String)>, PathRejection>;

pub(super) async fn list(
    State(app): State<Arc<App>>,
    Parameters(parameters): Parameters<query::Parameters>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let query = query::Query::read(&parameters)?;
    let catalog = app.catalog();
    let tag = tag(&app, &catalog);
    if etag::matches(&headers, &tag) {
        return Ok(unchanged(&tag, &headers));
    }
    let namespace = app.namespace.clone();
    let page = run_blocking(move || page(&catalog, &namespace, &query)).await;
    Ok(ok(&tag, &headers, page))
}

pub(super) async fn versions(
    State(app): State<Arc<App>>,
    name: Name,
    Parameters(parameters): Parameters<query::Parameters>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let include_deleted = query::include_deleted(&parameters)?.unwrap_or_default();
    let Path(name) = name.map_err(|_| no_server())?;
    let catalog = app.catalog();
    let tag = tag(&app, &catalog);
    let namespace = app.namespace.clone();
    let servers: Vec<ServerResponse> = run_blocking(move || {
        let entries = Listing::new(&catalog, &namespace).versions(&name, include_deleted);
        let mut bytes = 0;
        let fits = |entry: &&Entry| {
            bytes += entry.record.document.bytes().len();
            bytes <= MAX_BYTES
        };
        entries.iter().take(MAX_VERSIONS).take_while(fits).map(ServerResponse::from).collect()
    })
    .await;
    if servers.is_empty() {
        return Err(no_server());
    }
    if etag::matches(&headers, &tag) {
        return Ok(unchanged(&tag, &headers));
    }
    Ok(ok(&tag, &headers, ServerList::new(servers, None)))
}

pub(super) async fn version(
    State(app): State<Arc<App>>,
    path: NameAndVersion,
    Parameters(parameters): Parameters<query::Parameters>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let include_deleted = query::include_deleted(&parameters)?.unwrap_or_default();
    let Path((name, version)) = path.map_err(|_| no_server())?;
    let catalog = app.catalog();
    let tag = tag(&app, &catalog);
    let listing = Listing::new(&catalog, &app.namespace);
    let entry = listing.find(&name, &version, include_deleted).ok_or_else(no_version)?;
    if etag::matches(&headers, &tag) {
        return Ok(unchanged(&tag, &headers));
    }
    Ok(ok(&tag, &headers, ServerResponse::from(&entry)))
}

fn page(catalog: &Catalog, namespace: &Namespace, query: &query::Query) -> ServerList {
    let query::Query { filter, after, limit } = query;
    let page = Listing::new(catalog, namespace).page(filter, after.as_ref(), *limit);
    let servers = page.entries.iter().map(ServerResponse::from).collect();
    ServerList::new(servers, page.next.map(|place| cursor::encode(place, filter.clone())))
}

/// Runs work on the blocking pool, because a list may visit every server.
async fn run_blocking<T: Send + 'static>(work: impl Fn() -> T + Send + Sync + 'static) -> T {
    let work = Arc::new(work);
    let task = work.clone();
    match tokio::task::spawn_blocking(move || task()).await {
        Ok(done) => done,
        // Only a runtime that is shutting down rejects the task.
        Err(_) => work(),
    }
}

/// Entity tag of the catalog, the namespace and the server version.
fn tag(app: &App, catalog: &Catalog) -> String {
    let (chain, namespace) = (catalog.chain().to_string(), app.namespace.to_string());
    let parts = [app.registry().as_str(), &chain, &namespace, env!("CARGO_PKG_VERSION")];
    etag::tag(catalog.revision(), Digest::compute(parts.join("\n").as_bytes()))
}

fn ok(tag: &str, request: &HeaderMap, body: impl Serialize) -> Response {
    (tags(tag, request), Json(body)).into_response()
}

fn unchanged(tag: &str, request: &HeaderMap) -> Response {
    (StatusCode::NOT_MODIFIED, tags(tag, request)).into_response()
}

fn tags(tag: &str, request: &HeaderMap) -> [(header::HeaderName, HeaderValue); 2] {
    let is_authenticated = request.contains_key(header::AUTHORIZATION);
    [
        (header::ETAG, etag::value(tag)),
        (header::CACHE_CONTROL, if is_authenticated { CACHE_PRIVATE } else { CACHE_PUBLIC }),
    ]
}

fn no_server() -> Problem {
    Problem::not_found("server not found")
}

fn no_version() -> Problem {
    Problem::not_found("server version not found; include_deleted=true includes deleted versions")
}

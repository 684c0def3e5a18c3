//! Lists of servers, lists of their versions, and one version.
//!
//! An assistant that hears anything but 200 or 404 of a version blocks its user's servers, so
//! nothing else is said here.

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

/// How long an answer may be used without asking again.
const FRESH: HeaderValue = HeaderValue::from_static("public, max-age=15");
/// The same for who had to say who it is: no cache may give the answer to somebody else.
const FRESH_FOR_ONE: HeaderValue = HeaderValue::from_static("private, max-age=15");

/// Most versions that are listed of one server, the newest; the API has no pages here.
const MOST_VERSIONS: usize = 1_000;
/// Most bytes of their documents.
const MOST_BYTES: usize = 16 << 20;

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
    if etag::knows(&headers, &tag) {
        return Ok(unchanged(&tag, &headers));
    }
    let namespace = app.namespace.clone();
    let page = beside(move || page(&catalog, &namespace, &query)).await;
    Ok(fresh(&tag, &headers, page))
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
    let servers: Vec<ServerResponse> = beside(move || {
        let entries = Listing::new(&catalog, &namespace).versions(&name, include_deleted);
        let mut bytes = 0;
        let fits = |entry: &&Entry| {
            bytes += entry.record.document.bytes().len();
            bytes <= MOST_BYTES
        };
        entries.iter().take(MOST_VERSIONS).take_while(fits).map(ServerResponse::from).collect()
    })
    .await;
    if servers.is_empty() {
        return Err(no_server());
    }
    if etag::knows(&headers, &tag) {
        return Ok(unchanged(&tag, &headers));
    }
    Ok(fresh(&tag, &headers, ServerList::new(servers, None)))
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
    if etag::knows(&headers, &tag) {
        return Ok(unchanged(&tag, &headers));
    }
    Ok(fresh(&tag, &headers, ServerResponse::from(&entry)))
}

fn page(catalog: &Catalog, namespace: &Namespace, query: &query::Query) -> ServerList {
    let query::Query { filter, after, limit } = query;
    let page = Listing::new(catalog, namespace).page(filter, after.as_ref(), *limit);
    let servers = page.entries.iter().map(ServerResponse::from).collect();
    ServerList::new(servers, page.next.map(|place| cursor::write(place, filter.clone())))
}

/// Works beside the runtime: a list may look at every server.
async fn beside<T: Send + 'static>(work: impl Fn() -> T + Send + Sync + 'static) -> T {
    let work = Arc::new(work);
    let theirs = work.clone();
    match tokio::task::spawn_blocking(move || theirs()).await {
        Ok(done) => done,
        // Only a runtime that is going down refuses.
        Err(_) => work(),
    }
}

/// What is served changes with the catalog, the namespace and the program.
fn tag(app: &App, catalog: &Catalog) -> String {
    let (chain, namespace) = (catalog.chain().to_string(), app.namespace.to_string());
    let mark = [app.registry().as_str(), &chain, &namespace, env!("CARGO_PKG_VERSION")];
    etag::tag(catalog.revision(), Digest::compute(mark.join("\n").as_bytes()))
}

fn fresh(tag: &str, asked: &HeaderMap, body: impl Serialize) -> Response {
    (tags(tag, asked), Json(body)).into_response()
}

fn unchanged(tag: &str, asked: &HeaderMap) -> Response {
    (StatusCode::NOT_MODIFIED, tags(tag, asked)).into_response()
}

fn tags(tag: &str, asked: &HeaderMap) -> [(header::HeaderName, HeaderValue); 2] {
    let is_known = asked.contains_key(header::AUTHORIZATION);
    [
        (header::ETAG, etag::value(tag)),
        (header::CACHE_CONTROL, if is_known { FRESH_FOR_ONE } else { FRESH }),
    ]
}

fn no_server() -> Problem {
    Problem::not_found("server not found")
}

fn no_version() -> Problem {
    Problem::not_found("server version not found; deleted ones are shown with include_deleted=true")
}

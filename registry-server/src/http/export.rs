//! `/registry.json`: the catalog as a registry-v2 file. The entity tag has its revision and chain hash.
//!
//! Compression is not supported: the cache has the plain file only.

use std::sync::Arc;

use axum::{
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};

use super::etag;
use crate::app::App;

pub(super) async fn registry_file(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    let catalog = app.catalog();
    let current = etag::tag(catalog.revision(), catalog.chain());
    if etag::matches(&headers, &current) {
        return (StatusCode::NOT_MODIFIED, etag::headers(&current)).into_response();
    }
    let ((revision, chain), bytes) = app.export.encode(catalog).await;
    let kind = [(header::CONTENT_TYPE, "application/json")];
    (etag::headers(&etag::tag(revision, chain)), kind, bytes).into_response()
}

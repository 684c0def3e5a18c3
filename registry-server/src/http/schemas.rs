//! `/schemas/`: JSON Schemas of registry files, their entities, and the configuration of gateways.
//!
//! They need no authentication: editors send no credentials, and every server of a version serves the
//! same ones.

use axum::{
    Json,
    extract::Path,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use registry_core::published_schemas::{FILE_SUFFIX, MEDIA_TYPE, PublishedSchema};
use serde::Serialize;

use super::etag;

/// The list of the files, which have URLs relative to it.
#[derive(Serialize)]
struct Index {
    schemas: [String; PublishedSchema::ALL.len()],
}

pub(super) async fn index() -> impl IntoResponse {
    Json(Index { schemas: PublishedSchema::ALL.map(PublishedSchema::file_name) })
}

pub(super) async fn schema(Path(file): Path<String>, headers: HeaderMap) -> Response {
    let Some(schema) = file.strip_suffix(FILE_SUFFIX).and_then(PublishedSchema::named) else {
        let help = "schema not found; GET /schemas/ lists the schemas\n";
        return (StatusCode::NOT_FOUND, help).into_response();
    };
    let text = schema.text();
    let tag = etag::of_content(text.as_bytes());
    if etag::matches(&headers, &tag) {
        return (StatusCode::NOT_MODIFIED, etag::headers(&tag)).into_response();
    }
    (etag::headers(&tag), [(header::CONTENT_TYPE, MEDIA_TYPE)], text).into_response()
}

//! `/registry.json`: the catalog as a file, with its revision and chain hash as the entity tag.
//!
//! Deliberately absent: compression; the file is cached as it is.

use std::sync::Arc;

use axum::{
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use registry_core::{ChainHash, Revision};

use crate::app::App;

pub(super) async fn registry_file(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    let catalog = app.catalog();
    let now = tag(catalog.revision(), catalog.chain());
    if knows(&headers, &now) {
        return (StatusCode::NOT_MODIFIED, tags(&now)).into_response();
    }
    let ((revision, chain), bytes) = app.export.of(catalog).await;
    let kind = [(header::CONTENT_TYPE, "application/json")];
    (tags(&tag(revision, chain)), kind, bytes).into_response()
}

fn tags(tag: &str) -> [(header::HeaderName, HeaderValue); 2] {
    let tag = HeaderValue::from_str(tag).unwrap_or(HeaderValue::from_static("\"\""));
    [(header::ETAG, tag), (header::CACHE_CONTROL, HeaderValue::from_static("no-cache"))]
}

/// After a restore, a revision may come again with other content.
fn tag(revision: Revision, chain: ChainHash) -> String {
    let chain = chain.to_string();
    format!("\"{revision}-{}\"", &chain["sha256:".len()..][..8])
}

/// Whether the caller has what this tag stands for already.
pub(super) fn knows(headers: &HeaderMap, current: &str) -> bool {
    let values = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|v| v.to_str().ok());
    let mut tags = values.flat_map(|value| value.split(',')).map(str::trim);
    tags.any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == current)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compares_tags_as_http_does() {
        let knows = |value: &'static str| {
            let headers = HeaderMap::from_iter([(header::IF_NONE_MATCH, value.parse().unwrap())]);
            knows(&headers, "\"42\"")
        };
        assert!(knows("\"42\"") && knows("W/\"42\"") && knows("\"1\", \"42\"") && knows("*"));
        assert!(!knows("\"4\"") && !knows("42") && !knows(""));
        assert!(!super::knows(&HeaderMap::new(), "\"42\""));
    }
}

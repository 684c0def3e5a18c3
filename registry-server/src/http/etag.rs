//! Entity tags of representations (RFC 9110, section 8.8.3).

use std::fmt::Display;

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use registry_core::{Digest, Revision};

/// Creates a tag from a revision and a SHA-256 digest. The digest matters after a restored backup, when a
/// revision may have different content.
pub(super) fn tag(revision: Revision, digest: impl Display) -> String {
    let digest = digest.to_string();
    format!("\"{revision}-{}\"", &digest["sha256:".len()..][..8])
}

/// Creates a tag from the content of a representation that does not depend on the catalog.
pub(super) fn of_content(content: &[u8]) -> String {
    format!("\"{}\"", &Digest::compute(content).to_string()["sha256:".len()..][..16])
}

/// The headers of a representation that a client may store, but must validate before each use.
pub(super) fn headers(tag: &str) -> [(HeaderName, HeaderValue); 2] {
    [(header::ETAG, value(tag)), (header::CACHE_CONTROL, HeaderValue::from_static("no-cache"))]
}

/// Creates a header value from a tag.
pub(super) fn value(tag: &str) -> HeaderValue {
    // A number and hex digits are a valid header value.
    HeaderValue::from_str(tag).unwrap_or(HeaderValue::from_static("\"\""))
}

/// Whether `If-None-Match` contains the current tag.
pub(super) fn matches(headers: &HeaderMap, current: &str) -> bool {
    let values = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|v| v.to_str().ok());
    let mut tags = values.flat_map(|value| value.split(',')).map(str::trim);
    tags.any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == current)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matching_follows_http_rules() {
        let matches = |value: &'static str| {
            let headers = HeaderMap::from_iter([(header::IF_NONE_MATCH, value.parse().unwrap())]);
            matches(&headers, "\"42\"")
        };
        assert!(
            matches("\"42\"") && matches("W/\"42\"") && matches("\"1\", \"42\"") && matches("*")
        );
        assert!(!matches("\"4\"") && !matches("42") && !matches(""));
        assert!(!super::matches(&HeaderMap::new(), "\"42\""));
    }
}
